//! The report: printed row by row, and written as one flat JSON object.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

/// Rows in the order in which they were measured.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    rows: Map<String, Value>,
}

/// What was measured of one path.
#[derive(Debug)]
pub(crate) struct Path {
    /// Checks per second.
    pub(crate) rate: f64,
    /// By those of the classic script in the same rounds.
    pub(crate) vs_evalsha: f64,
    /// By those of the bare batch client in the same rounds.
    pub(crate) vs_raw_batch: f64,
    /// Processor time of the agent and its callers, microseconds per check.
    pub(crate) agent_us: f64,
    /// Processor time of all its Redis servers, microseconds per check.
    pub(crate) redis_us: f64,
}

impl Summary {
    /// Notes and prints one figure; `met` says whether it reaches its target, if it has one.
    pub(crate) fn row(&mut self, name: &str, value: f64, what: &str, met: Option<bool>) {
        let digits = if value.abs() >= 100.0 { 0 } else { 3 };
        let verdict = match met {
            Some(true) => "ok",
            Some(false) => "BELOW TARGET",
            None => "",
        };
        println!("{name:<34} {value:>10.digits$}  {what:<72} {verdict}");
        self.note(name.to_owned(), value);
    }

    /// Notes one path of checks through the library and prints it on one line: `<path>_checks_per_s`, `_vs_evalsha`, `_vs_raw_batch`,
    /// `_agent_us` and `_redis_us`.
    pub(crate) fn path(&mut self, name: &str, what: &str, figures: &Path) {
        let Path { rate, vs_evalsha, vs_raw_batch, agent_us, redis_us } = *figures;
        println!(
            "{name:<34} {rate:>10.0}/s  {vs_evalsha:>5.2} x evalsha  {vs_raw_batch:>5.2} x raw batch  {agent_us:>6.2} us agent  {redis_us:>6.2} us Redis  {what}"
        );
        let rows = [
            ("checks_per_s", rate),
            ("vs_evalsha", vs_evalsha),
            ("vs_raw_batch", vs_raw_batch),
            ("agent_us", agent_us),
            ("redis_us", redis_us),
        ];
        for (row, value) in rows {
            self.note(format!("{name}_{row}"), value);
        }
    }

    fn note(&mut self, name: String, value: f64) {
        self.rows.insert(name, json!((value * 1000.0).round() / 1000.0));
    }

    /// Writes `target/bench/summary.json`.
    pub(crate) fn write(&self) -> anyhow::Result<()> {
        let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from).join("bench");
        std::fs::create_dir_all(&folder)?;
        let file = folder.join("summary.json");
        std::fs::write(&file, format!("{:#}\n", Value::Object(self.rows.clone())))?;
        println!("written to {}", file.display());
        Ok(())
    }
}
