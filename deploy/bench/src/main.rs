//! `make bench`: Weir against a bare Redis on this machine, as ratios from interleaved slices of one run.
//!
//! Prints each row, and writes `target/bench/summary.json`: one flat object of name -> number. Arguments name the parts to run.
#![allow(clippy::print_stdout, reason = "it prints a report")]

mod agent;
mod cpu;
mod denied;
mod evalsha;
mod http;
mod load;
mod matcher;
mod memory;
mod open_loop;
mod paced;
mod paths;
mod raw_batch;
mod stalled;
mod summary;
mod throughput;

use anyhow::ensure;

use crate::summary::Summary;

/// In the order in which they run.
const PARTS: [&str; 8] = ["matcher", "denied", "throughput", "paths", "http", "open_loop", "stalled", "memory"];

fn main() -> anyhow::Result<()> {
    // One thread, as an agent runs on one core beside a gateway; Redis has the other.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> anyhow::Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let unknown = wanted.iter().find(|name| !PARTS.contains(&name.as_str()));
    ensure!(unknown.is_none(), "there is no part {unknown:?}; there are {PARTS:?}");
    let mut summary = Summary::default();
    for part in PARTS.iter().filter(|part| wanted.is_empty() || wanted.iter().any(|name| name == **part)) {
        match *part {
            "matcher" => matcher::run(&mut summary)?,
            "denied" => denied::run(&mut summary).await?,
            "throughput" => throughput::run(&mut summary).await?,
            "paths" => paths::run(&mut summary).await?,
            "http" => http::run(&mut summary).await?,
            "open_loop" => open_loop::run(&mut summary).await?,
            "stalled" => stalled::run(&mut summary).await?,
            _ => memory::run(&mut summary).await?,
        }
    }
    summary.write()
}

/// What was done in a slice.
struct Done {
    checks: u64,
    seconds: f64,
}

impl Done {
    fn per_second(&self) -> f64 {
        self.checks as f64 / self.seconds
    }

    /// Microseconds of so many seconds that fall to each check.
    fn us_each(&self, seconds: f64) -> f64 {
        seconds * 1e6 / self.checks as f64
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
