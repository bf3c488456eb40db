//! One shard of three stands still: `stalled_shard_*`.

use std::time::{Duration, Instant};

use anyhow::ensure;
use weir_agent::Agent;
use weir_core::limit::Algorithm;
use weir_testbed::{Flavor, Redis};

use crate::agent;
use crate::paced::{self, Answered, degraded_share, quantile_ms};
use crate::summary::Summary;

const RATE: u32 = 1_000;
const SUBJECTS: u32 = 10_000;
const QUIET: Duration = Duration::from_secs(3);
const STALLED: Duration = Duration::from_secs(5);
/// Checks that may find out that the shard stands still.
const FINDING_OUT: usize = 10;
/// How long the shard may take to be in normal service again.
const RECOVERY: Duration = Duration::from_secs(5);
const STILL: &str = "shard-0";

/// Runs the rows: before, while and after the first shard is stopped by a signal.
pub(crate) async fn run(summary: &mut Summary) -> anyhow::Result<()> {
    let mut shards = Vec::new();
    for _ in 0..3 {
        shards.push(Redis::temporary(Flavor::Redis).await?);
    }
    let agent = agent::on(&shards, Duration::from_millis(5)).await?;
    checks(&agent, Duration::from_secs(1)).await?;
    let quiet = checks(&agent, QUIET).await?;
    shards[0].pause().await;
    let stalled = checks(&agent, STALLED).await?;
    shards[0].resume().await;
    let resumed = Instant::now();
    let after = checks(&agent, RECOVERY + Duration::from_secs(1)).await?;

    let p99 = quantile_ms(&stalled[FINDING_OUT..], 0.99);
    summary.row("stalled_shard_p99_ms", p99, "one shard of three stalled, 1,000 checks/s; target <= 5", Some(p99 <= 5.0));
    let noticed = degraded_share(stalled.iter().filter(|answered| answered.shard == STILL));
    ensure!(noticed > 0.9, "the shard stood still, and only {noticed} of its checks were degraded");
    let others = |answers: &[Answered]| degraded_share(answers.iter().filter(|answered| answered.shard != STILL));
    let (before, meanwhile) = (others(&quiet), others(&stalled));
    summary.row(
        "stalled_shard_others_degraded",
        meanwhile,
        "share; target: not above that of the quiet time before",
        Some(meanwhile <= before),
    );
    let last = after.iter().rev().find(|answered| answered.shard == STILL && answered.degraded);
    let recovery = last.map_or(0.0, |answered| answered.due.saturating_duration_since(resumed).as_secs_f64());
    summary.row(
        "stalled_shard_recovery_s",
        recovery,
        "until its last degraded check; target <= 5",
        Some(recovery <= RECOVERY.as_secs_f64()),
    );
    Ok(())
}

async fn checks(agent: &Agent, length: Duration) -> anyhow::Result<Vec<Answered>> {
    paced::run(agent, &agent::counted_by(Algorithm::TokenBucket), SUBJECTS, RATE, length).await
}
