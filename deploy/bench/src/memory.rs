//! What a subject costs Redis: `bytes_per_subject_<algorithm>`.

use std::time::Duration;

use anyhow::ensure;
use weir_core::limit::Algorithm;
use weir_testbed::{Flavor, Redis};

use crate::agent;
use crate::load::{Load, Subjects};
use crate::summary::Summary;

const SUBJECTS: u32 = 1_000_000;
const TARGET: f64 = 150.0;

/// All that a server needs more for a million subjects, each of which was here once: keys, expiries and their tables.
pub(crate) async fn run(summary: &mut Summary) -> anyhow::Result<()> {
    for algorithm in Algorithm::ALL {
        let redis = Redis::temporary(Flavor::Redis).await?;
        let agent = agent::on(std::slice::from_ref(&redis), Duration::from_secs(2)).await?;
        let load = Load { path: agent::counted_by(algorithm), callers: 1024, subjects: Subjects::InTurn(SUBJECTS), passes: true };
        let before = used(&redis).await?;
        load.once(&agent).await?;
        let (bytes, keys) = ((used(&redis).await? - before) / f64::from(SUBJECTS), keys(&redis).await?);
        ensure!(keys >= SUBJECTS, "only {keys} of {SUBJECTS} subjects are there");
        let (what, met) = match algorithm {
            Algorithm::TokenBucket => ("1 M subjects, all in; target <= 150", Some(bytes <= TARGET)),
            _ => ("1 M subjects, one check each", None),
        };
        summary.row(&format!("bytes_per_subject_{}", algorithm.as_str()), bytes, what, met);
        agent.shutdown().await;
    }
    Ok(())
}

async fn keys(redis: &Redis) -> anyhow::Result<u32> {
    let mut connection = redis::Client::open(redis.url())?.get_multiplexed_async_connection().await?;
    Ok(redis::cmd("DBSIZE").query_async(&mut connection).await?)
}

async fn used(redis: &Redis) -> anyhow::Result<f64> {
    let mut connection = redis::Client::open(redis.url())?.get_multiplexed_async_connection().await?;
    let info: String = redis::cmd("INFO").arg("memory").query_async(&mut connection).await?;
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok());
    used.ok_or_else(|| anyhow::anyhow!("INFO memory says nothing of used_memory"))
}
