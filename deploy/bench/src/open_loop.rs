//! Latency at 10,000 checks a second: `open_loop_10k_*`.

use std::time::Duration;

use weir_core::limit::Algorithm;
use weir_testbed::{Flavor, Redis};

use crate::agent;
use crate::load::{Load, Subjects};
use crate::paced::{self, degraded_share, quantile_ms};
use crate::summary::Summary;

const RATE: u32 = 10_000;
const SUBJECTS: u32 = 100_000;
const LENGTH: Duration = Duration::from_secs(12);
/// Checks before the clock counts.
const WARM_UP: usize = 20_000;
/// The budget of what prepares.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs the rows.
pub(crate) async fn run(summary: &mut Summary) -> anyhow::Result<()> {
    let mut shards = Vec::new();
    for _ in 0..3 {
        shards.push(Redis::temporary(Flavor::Redis).await?);
    }
    // Every subject exists beforehand, as they do on a service that runs: a Redis whose tables grow stops for a millisecond at a time.
    let path = agent::counted_by(Algorithm::TokenBucket);
    let all = Load { path: path.clone(), callers: 64, subjects: Subjects::InTurn(SUBJECTS), passes: true };
    let patient = agent::on(&shards, PATIENCE).await?;
    all.once(&patient).await?;
    patient.shutdown().await;
    let pings = paced::pings(&shards, RATE, LENGTH).await?;
    let agent = agent::on(&shards, Duration::from_millis(5)).await?;
    let answers = paced::run(&agent, &path, SUBJECTS, RATE, LENGTH).await?;
    let answers = &answers[WARM_UP..];
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| quantile_ms(answers, share));
    summary.row("open_loop_10k_p50_ms", p50, "library, 10,000 checks/s, 3 shards; target <= 0.3", Some(p50 <= 0.3));
    summary.row("open_loop_10k_p99_ms", p99, "target <= 1", Some(p99 <= 1.0));
    summary.row("open_loop_10k_p999_ms", p999, "reported", None);
    let degraded = degraded_share(answers) * answers.len() as f64;
    summary.row("open_loop_10k_degraded", degraded, "of 100,000 checks with a budget of 5 ms", None);
    let ping = quantile_ms(&pings[WARM_UP..], 0.99);
    summary.row("open_loop_10k_ping_p99_ms", ping, "bare PINGs at the same pace: the machine's own", None);
    Ok(())
}
