//! Checks per second of a closed loop: the library, a bare client that sends the driver script, and the classic script take turns.

use std::time::Duration;

use weir_core::limit::Algorithm;
use weir_testbed::{Flavor, Redis};

use crate::evalsha::Classic;
use crate::load::{Load, Subjects};
use crate::raw_batch::RawBatch;
use crate::summary::Summary;
use crate::{agent, cpu, median};

/// Slices of each kind; their median counts.
const ROUNDS: u64 = 5;
const SLICE: Duration = Duration::from_secs(2);
const WARM_UP: Duration = Duration::from_secs(4);
const SUBJECTS: u32 = 1_000_000;
/// Enough that nothing times out where everything is busy.
const BUDGET: Duration = Duration::from_millis(500);

/// `library_vs_evalsha`, `library_vs_raw_batch` and what they are made of.
pub(crate) async fn run(summary: &mut Summary) -> anyhow::Result<()> {
    let redis = Redis::temporary(Flavor::Redis).await?;
    let classic = Classic::prepare(&redis).await?;
    let raw = RawBatch::prepare(&redis).await?;
    let agent = agent::on(std::slice::from_ref(&redis), BUDGET).await?;
    let load = allowed(agent::counted_by(Algorithm::TokenBucket), 1024);
    // Most subjects exist before the clock counts.
    classic.slice(WARM_UP).await?;
    raw.slice(WARM_UP).await?;
    load.once(&agent).await?;
    let (mut evalsha_rates, mut raw_rates, mut library_rates) = (Vec::new(), Vec::new(), Vec::new());
    let (mut agent_us, mut redis_us, mut raw_us) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        evalsha_rates.push(classic.slice(SLICE).await?);
        let before = cpu::of(&redis).await?;
        let done = raw.slice(SLICE).await?;
        raw_us.push(done.us_each(cpu::of(&redis).await? - before));
        raw_rates.push(done.per_second());
        let (own, before) = (cpu::own()?, cpu::of(&redis).await?);
        let done = load.run(&agent, SLICE).await?;
        agent_us.push(done.us_each(cpu::own()? - own));
        redis_us.push(done.us_each(cpu::of(&redis).await? - before));
        library_rates.push(done.per_second());
    }
    let (evalsha, raw, library) = (median(&mut evalsha_rates), median(&mut raw_rates), median(&mut library_rates));
    summary.row("evalsha_checks_per_s", evalsha, "redis-benchmark -P 64, classic token-bucket script", None);
    summary.row("raw_batch_checks_per_s", raw, "bare client, driver script, 32 checks per call", None);
    summary.row("library_checks_per_s", library, "agent library, token buckets, 1 M subjects, 1024 callers", None);
    summary.row("library_vs_evalsha", library / evalsha, "target >= 2", Some(library / evalsha >= 2.0));
    summary.row("library_vs_raw_batch", library / raw, "target >= 0.8", Some(library / raw >= 0.8));
    summary.row("library_agent_us_per_check", median(&mut agent_us), "processor time of the agent and its callers", None);
    summary.row("library_redis_us_per_check", median(&mut redis_us), "processor time of Redis meanwhile", None);
    summary.row("raw_batch_redis_us_per_check", median(&mut raw_us), "processor time of Redis under the bare client", None);
    Ok(())
}

fn allowed(path: String, callers: u64) -> Load {
    Load { path, callers, subjects: Subjects::Any(SUBJECTS), passes: true }
}
