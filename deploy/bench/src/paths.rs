//! Each path through the library, beside the classic script and a bare batch client: numbers of callers and shards, algorithms, limits per
//! request, one hot subject, refusals.

use std::time::Duration;

use weir_agent::Agent;
use weir_core::limit::Algorithm;
use weir_testbed::{Flavor, Redis};

use crate::agent::{EXHAUSTED, HOT, counted_by, with_limits};
use crate::evalsha::Classic;
use crate::load::{Load, Subjects};
use crate::raw_batch::RawBatch;
use crate::summary::{Path, Summary};
use crate::{agent, cpu, median};

const ROUNDS: usize = 3;
const SLICE: Duration = Duration::from_secs(1);
/// Subjects of most kinds: few enough that they are soon all there.
const SUBJECTS: u32 = 100_000;
/// So many exhausted subjects that none is asked again while the agent remembers its last refusal.
const DENIED: u32 = 200_000;
/// Enough that nothing times out where everything is busy.
const BUDGET: Duration = Duration::from_millis(500);

/// One path.
struct Kind {
    name: String,
    what: &'static str,
    on: Agent,
    load: Load,
}

/// What the slices of one kind gave.
#[derive(Default)]
struct Slices {
    rates: Vec<f64>,
    agent_us: Vec<f64>,
    redis_us: Vec<f64>,
}

/// Runs the rows of each path.
pub(crate) async fn run(summary: &mut Summary) -> anyhow::Result<()> {
    let mut shards = Vec::new();
    for _ in 0..3 {
        shards.push(Redis::temporary(Flavor::Redis).await?);
    }
    let (one, three) = (agent::on(&shards[..1], BUDGET).await?, agent::on(&shards, BUDGET).await?);
    let classic = Classic::prepare(&shards[0]).await?;
    let raw = RawBatch::prepare(&shards[0]).await?;
    let kinds = kinds(&one, &three);
    for kind in &kinds {
        kind.load.once(&kind.on).await?;
    }
    raw.slice(SLICE).await?;
    let (mut classic_rates, mut raw_rates) = (Vec::new(), Vec::new());
    let mut slices: Vec<Slices> = kinds.iter().map(|_| Slices::default()).collect();
    for _ in 0..ROUNDS {
        classic_rates.push(classic.slice(SLICE).await?);
        raw_rates.push(raw.slice(SLICE).await?.per_second());
        for (kind, slices) in kinds.iter().zip(&mut slices) {
            let (own, before) = (cpu::own()?, of_all(&shards).await?);
            let done = kind.load.run(&kind.on, SLICE).await?;
            slices.agent_us.push(done.us_each(cpu::own()? - own));
            slices.redis_us.push(done.us_each(of_all(&shards).await? - before));
            slices.rates.push(done.per_second());
        }
    }
    let (classic, raw) = (median(&mut classic_rates), median(&mut raw_rates));
    for (kind, slices) in kinds.iter().zip(&mut slices) {
        let rate = median(&mut slices.rates);
        let figures = Path {
            rate,
            vs_evalsha: rate / classic,
            vs_raw_batch: rate / raw,
            agent_us: median(&mut slices.agent_us),
            redis_us: median(&mut slices.redis_us),
        };
        summary.path(&kind.name, kind.what, &figures);
    }
    Ok(())
}

async fn of_all(shards: &[Redis]) -> anyhow::Result<f64> {
    let mut seconds = 0.0;
    for shard in shards {
        seconds += cpu::of(shard).await?;
    }
    Ok(seconds)
}

fn kinds(one: &Agent, three: &Agent) -> Vec<Kind> {
    let kind = |name: &str, what, path, callers, subjects| {
        let load = Load { path, callers, subjects, passes: true };
        Kind { name: name.to_owned(), what, on: one.clone(), load }
    };
    let bucket = counted_by(Algorithm::TokenBucket);
    let mut kinds = Vec::new();
    for (on, shards) in [(one, "one_shard"), (three, "three_shards")] {
        for callers in [1, 64, 1024] {
            let name = format!("{shards}_{callers}_caller{}", if callers == 1 { "" } else { "s" });
            let own = kind(&name, "token buckets, all pass", bucket.clone(), callers, Subjects::Any(SUBJECTS));
            kinds.push(Kind { on: on.clone(), ..own });
        }
    }
    for algorithm in Algorithm::ALL {
        kinds.push(kind(algorithm.as_str(), "1024 callers, all pass", counted_by(algorithm), 1024, Subjects::Any(SUBJECTS)));
    }
    for (limits, name) in [(1, "limits_1"), (3, "limits_3"), (10, "limits_10")] {
        kinds.push(kind(name, "requests with so many limits of mixed algorithms", with_limits(limits), 1024, Subjects::Any(SUBJECTS)));
    }
    kinds.push(kind("hot_key", "one subject, all pass", HOT.to_owned(), 1024, Subjects::One));
    let mut denied = kind("denied_by_redis", "exhausted subjects, each asked anew", EXHAUSTED.to_owned(), 1024, Subjects::InTurn(DENIED));
    denied.load.passes = false;
    kinds.push(denied);
    kinds
}
