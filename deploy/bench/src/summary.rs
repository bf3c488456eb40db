//! The report: printed row by row, and written as one flat JSON object.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

/// Rows in the order in which they were measured.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    rows: Map<String, Value>,
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
        self.rows.insert(name.to_owned(), json!((value * 1000.0).round() / 1000.0));
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
