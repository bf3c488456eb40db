//! Promise 2: what one of its limits refuses takes nothing from the others.

use std::sync::Arc;
use std::time::Instant;

use weir_agent::limiter::{LimitQuery, Limiter};
use weir_core::counter::CounterCall;
use weir_core::limit::Algorithm;
use weir_testbed::await_until;

use super::{AGENTS, agents, longest, of};
use crate::support::*;

/// Whoever refuses, in whatever order and at whatever cost: what was used of each limit is what the admitted requests took, to the unit.
#[tokio::test(flavor = "multi_thread")]
async fn promise_2_all_or_nothing_on_one_shard() {
    let servers = [redis().await];
    let limiters = agents(&servers).await;
    let limits =
        [(Algorithm::TokenBucket, 400), (Algorithm::SlidingWindow, 300), (Algorithm::SlidingLog, 200), (Algorithm::FixedWindow, 500)];
    let leases = of(key("user", "leases"), longest(Algorithm::Concurrency, 90), 1);
    let queries = Arc::new(move |turn: u64| {
        let mut queries: Vec<LimitQuery> = limits
            .iter()
            .enumerate()
            .map(|(place, (algorithm, limit))| {
                let cost = (turn + place as u64) % 4 + 1;
                of(key("user", algorithm.as_str()), longest(*algorithm, *limit), cost)
            })
            .collect();
        queries.push(leased(&leases));
        let places = queries.len();
        queries.rotate_left(usize::try_from(turn).expect("it fits") % places);
        queries
    });
    let tasks: Vec<_> = (0..12u64)
        .map(|task| {
            let (limiter, queries) = (limiters[usize::try_from(task).expect("it fits") % AGENTS].clone(), queries.clone());
            tokio::spawn(async move {
                let mut used = [0u64; 5];
                for turn in 0..40 {
                    let queries = queries(task * 40 + turn);
                    if passes(&limiter, &queries).await {
                        for query in &queries {
                            let place = Algorithm::ALL.iter().position(|algorithm| *algorithm == query.call.bound.algorithm);
                            used[place.expect("one of them")] += query.call.cost;
                        }
                    }
                }
                used
            })
        })
        .collect();
    let mut used = [0; 5];
    for task in tasks {
        used.iter_mut().zip(task.await.expect("no task panics")).for_each(|(sum, more)| *sum += more);
    }
    for query in queries(0) {
        let place = Algorithm::ALL.iter().position(|algorithm| *algorithm == query.call.bound.algorithm).expect("one of them");
        let left = remaining(&limiters[0], &query).await;
        assert_eq!(query.call.bound.limit - left, used[place], "{:?}", query.call.bound.algorithm);
    }
    assert!(used.iter().all(|used| *used > 50), "{used:?}");
}

/// Whether a request is admitted, be it from memory that it is not.
async fn passes(limiter: &Limiter, queries: &[LimitQuery]) -> bool {
    let answers = limiter.decide(queries, Instant::now() + LONG).await;
    assert!(answers.iter().flatten().all(|answer| answer.degraded.is_none()));
    answers.iter().all(|answer| answer.as_ref().is_some_and(|answer| answer.reply.allowed))
}

/// Across shards it is a refund, after the answer; once all have arrived nothing is stranded.
#[tokio::test(flavor = "multi_thread")]
async fn promise_2_all_or_nothing_across_shards() {
    let servers = redises(2).await;
    let limiter = limiter(&servers).await;
    let scarce = of(key_on(&limiter, "s0", "scarce"), longest(Algorithm::FixedWindow, 10), 1);
    for algorithm in Algorithm::ALL {
        let plenty = of(key_on(&limiter, "s1", algorithm.as_str()), longest(algorithm, 1_000), 1);
        let scarce =
            LimitQuery { call: CounterCall { key: key_on(&limiter, "s0", algorithm.as_str()), ..scarce.call.clone() }, ..scarce.clone() };
        let requests: Vec<[LimitQuery; 2]> = (0..100).map(|_| [leased(&plenty), scarce.clone()]).collect();
        let passed = futures::future::join_all(requests.iter().map(|queries| passes(&limiter, queries))).await;
        let admitted = passed.into_iter().filter(|passed| *passed).count();
        assert_eq!(admitted, 10, "{algorithm:?}");
        let back = async || remaining(&limiter, &plenty).await == 990;
        assert!(await_until(RECOVERY, back).await, "{algorithm:?}: {} left", remaining(&limiter, &plenty).await);
    }
}
