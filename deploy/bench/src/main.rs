//! `make bench`: Weir against a bare Redis on this machine, as ratios from interleaved slices of one run.
//!
//! Prints each row, and writes `target/bench/summary.json`: one flat object of name -> number.
#![allow(clippy::print_stdout, reason = "it prints a report")]

mod agent;
mod evalsha;
mod library;
mod open_loop;
mod raw_batch;
mod summary;

use std::time::Duration;

use weir_testbed::{Flavor, Redis};

use crate::summary::Summary;

/// Slices of each kind; their median counts.
const ROUNDS: usize = 5;
const SLICE: Duration = Duration::from_secs(2);

fn main() -> anyhow::Result<()> {
    // One thread, as an agent runs on one core beside a gateway; Redis has the other.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> anyhow::Result<()> {
    let mut summary = Summary::default();
    throughput(&mut summary).await?;
    open_loop::run(&mut summary).await?;
    summary.write()
}

/// `library_vs_evalsha` and `library_vs_raw_batch`: the three take turns on one Redis.
async fn throughput(summary: &mut Summary) -> anyhow::Result<()> {
    let redis = Redis::temporary(Flavor::Redis).await?;
    let classic = evalsha::Classic::prepare(&redis).await?;
    let raw = raw_batch::RawBatch::prepare(&redis).await?;
    let library = library::Library::prepare(&redis).await?;
    let (mut evalsha_rates, mut raw_rates, mut library_rates) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        evalsha_rates.push(classic.slice(SLICE).await?);
        raw_rates.push(raw.slice(SLICE).await?);
        library_rates.push(library.slice(SLICE).await?);
    }
    let degraded = library.degraded();
    anyhow::ensure!(degraded == 0, "{degraded} checks of the library were degraded: the figures would mean nothing");
    let (evalsha, raw, library) = (median(&mut evalsha_rates), median(&mut raw_rates), median(&mut library_rates));
    summary.row("evalsha_checks_per_s", evalsha, "redis-benchmark -P 64, classic token-bucket script", None);
    summary.row("raw_batch_checks_per_s", raw, "bare client, driver script, 32 checks per call", None);
    summary.row("library_checks_per_s", library, "agent library, single-limit token buckets, 1 M subjects", None);
    summary.row("library_vs_evalsha", library / evalsha, "target >= 2", Some(library / evalsha >= 2.0));
    summary.row("library_vs_raw_batch", library / raw, "target >= 0.8", Some(library / raw >= 0.8));
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
