//! Checks per second of each path through the library, beside the classic script: numbers of callers and shards, algorithms, limits per
//! request, one hot subject, refusals.

use std::time::Duration;

use weir_agent::Agent;
use weir_core::limit::Algorithm;
use weir_testbed::{Flavor, Redis};

use crate::agent::{EXHAUSTED, HOT, counted_by, with_limits};
use crate::evalsha::Classic;
use crate::load::{Load, Subjects};
use crate::summary::Summary;
use crate::{agent, median};

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

/// Runs the rows `<path>_checks_per_s` and `<path>_vs_evalsha`.
pub(crate) async fn run(summary: &mut Summary) -> anyhow::Result<()> {
    let mut shards = Vec::new();
    for _ in 0..3 {
        shards.push(Redis::temporary(Flavor::Redis).await?);
    }
    let (one, three) = (agent::on(&shards[..1], BUDGET).await?, agent::on(&shards, BUDGET).await?);
    let classic = Classic::prepare(&shards[0]).await?;
    let kinds = kinds(&one, &three);
    for kind in &kinds {
        kind.load.once(&kind.on).await?;
    }
    let mut classic_rates = Vec::new();
    let mut rates = vec![Vec::new(); kinds.len()];
    for _ in 0..ROUNDS {
        classic_rates.push(classic.slice(SLICE).await?);
        for (kind, rates) in kinds.iter().zip(&mut rates) {
            rates.push(kind.load.run(&kind.on, SLICE).await?.per_second());
        }
    }
    let classic = median(&mut classic_rates);
    for (kind, rates) in kinds.iter().zip(&mut rates) {
        let rate = median(rates);
        summary.row(&format!("{}_checks_per_s", kind.name), rate, kind.what, None);
        summary.row(&format!("{}_vs_evalsha", kind.name), rate / classic, "by the classic script in the same rounds", None);
    }
    Ok(())
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
