//! `make bench`: Weir against a bare Redis on this machine, as ratios from interleaved slices of one run.
//!
//! Prints each row, and writes `target/bench/summary.json`: one flat object of name -> number.
#![allow(clippy::print_stdout, reason = "it prints a report")]

mod agent;
mod cpu;
mod evalsha;
mod library;
mod open_loop;
mod raw_batch;
mod summary;

use std::time::Duration;

use weir_testbed::{Flavor, Redis};

use crate::summary::Summary;

/// Slices of each kind; their median counts.
const ROUNDS: u64 = 5;
const SLICE: Duration = Duration::from_secs(2);
const WARM_UP: Duration = Duration::from_secs(5);

fn main() -> anyhow::Result<()> {
    // One thread, as an agent runs on one core beside a gateway; Redis has the other.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run())
}

/// All parts, or those that the arguments name: `throughput`, `open_loop`.
async fn run() -> anyhow::Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|name| name == part);
    let mut summary = Summary::default();
    if wants("throughput") {
        throughput(&mut summary).await?;
    }
    if wants("open_loop") {
        open_loop::run(&mut summary).await?;
    }
    summary.write()
}

/// `library_vs_evalsha` and `library_vs_raw_batch`: the three take turns on one Redis.
async fn throughput(summary: &mut Summary) -> anyhow::Result<()> {
    let redis = Redis::temporary(Flavor::Redis).await?;
    let classic = evalsha::Classic::prepare(&redis).await?;
    let raw = raw_batch::RawBatch::prepare(&redis).await?;
    let library = library::Library::prepare(&redis).await?;
    // Most subjects exist before the clock counts.
    classic.slice(WARM_UP).await?;
    raw.slice(WARM_UP).await?;
    library.slice(0, WARM_UP).await?;
    let (mut evalsha_rates, mut raw_rates, mut library_rates) = (Vec::new(), Vec::new(), Vec::new());
    let (mut agent_us, mut redis_us, mut raw_us) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        evalsha_rates.push(classic.slice(SLICE).await?);
        let before = cpu::of(&redis).await?;
        let done = raw.slice(SLICE).await?;
        raw_us.push((cpu::of(&redis).await? - before) * 1e6 / done.checks as f64);
        raw_rates.push(done.per_second());
        let (own, before) = (cpu::own()?, cpu::of(&redis).await?);
        let done = library.slice(round, SLICE).await?;
        agent_us.push((cpu::own()? - own) * 1e6 / done.checks as f64);
        redis_us.push((cpu::of(&redis).await? - before) * 1e6 / done.checks as f64);
        library_rates.push(done.per_second());
    }
    let degraded = library.degraded();
    anyhow::ensure!(degraded == 0, "{degraded} checks of the library were degraded: the figures would mean nothing");
    let (evalsha, raw, library) = (median(&mut evalsha_rates), median(&mut raw_rates), median(&mut library_rates));
    summary.row("evalsha_checks_per_s", evalsha, "redis-benchmark -P 64, classic token-bucket script", None);
    summary.row("raw_batch_checks_per_s", raw, "bare client, driver script, 32 checks per call", None);
    summary.row("library_checks_per_s", library, "agent library, single-limit token buckets, 1 M subjects", None);
    summary.row("library_vs_evalsha", library / evalsha, "target >= 2", Some(library / evalsha >= 2.0));
    summary.row("library_vs_raw_batch", library / raw, "target >= 0.8", Some(library / raw >= 0.8));
    summary.row("library_agent_us_per_check", median(&mut agent_us), "processor time of the agent and its 1024 callers", None);
    summary.row("library_redis_us_per_check", median(&mut redis_us), "processor time of Redis meanwhile", None);
    summary.row("raw_batch_redis_us_per_check", median(&mut raw_us), "processor time of Redis under the bare client", None);
    Ok(())
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
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
