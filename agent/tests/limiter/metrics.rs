//! What the metrics of each shard say.

use std::time::{Duration, Instant};

use weir_agent::limiter::{LimitQuery, Limiter};
use weir_testbed::await_until;

use crate::support::*;

/// One series of a shard.
fn of(limiter: &Limiter, name: &str, shard: &str) -> f64 {
    metric(limiter, &format!("weir_shard_{name}{{shard=\"{shard}\"}}"))
}

/// Batch sizes, call times, what waits and is on its way, connections and the breaker: of the shard that it happens to, and of no other.
#[tokio::test(flavor = "multi_thread")]
async fn exact_metrics_of_each_shard() {
    const MANY: usize = 1_000;
    let servers = redises(2).await;
    let limiter = limiter(&servers).await;
    let is_calm = |shard: &str| ["breaker", "calls_in_flight", "queued_checks"].iter().all(|name| of(&limiter, name, shard) == 0.0);
    assert!(is_calm("s0") && is_calm("s1"));
    let question = query(key_on(&limiter, "s0", "r"), 1_000_000);
    let names = ["batch_size_count", "batch_size_sum", "call_seconds_count", "checks_total", "calls_total"];
    let counts = |shard: &str| names.map(|name| of(&limiter, name, shard));
    let since = |before: [f64; 5], shard: &str| std::array::from_fn::<f64, 5, _>(|name| counts(shard)[name] - before[name]);

    let before = [counts("s0"), counts("s1")];
    let start = Instant::now();
    for _ in 0..10 {
        assert!(decide(&limiter, std::slice::from_ref(&question)).await[0].reply.allowed);
    }
    let [batches, checks, answered, ..] = since(before[0], "s0");
    assert_eq!((batches, checks, since(before[0], "s0")[3..].to_vec()), (10.0, 10.0, vec![10.0, 10.0]));
    assert!(answered >= 10.0);
    let seconds = of(&limiter, "call_seconds_sum", "s0");
    assert!(seconds > 0.0 && seconds < start.elapsed().as_secs_f64() + 10.0, "{seconds}");
    assert_eq!(since(before[1], "s1")[..2], [0.0, 0.0]);

    // A server that stands still: calls are on their way, and the rest waits.
    let before = counts("s0");
    servers[0].pause().await;
    let many: Vec<LimitQuery> = vec![question.clone(); MANY];
    let asking = futures::future::join_all(many.iter().map(|one| decide(&limiter, std::slice::from_ref(one))));
    let watching = async {
        let sent = || of(&limiter, "checks_total", "s0") - before[3];
        let waits = || of(&limiter, "queued_checks", "s0");
        assert!(await_until(RECOVERY, async || sent() > 0.0 && sent() + waits() == MANY as f64).await, "{} sent, {} wait", sent(), waits());
        let status = limiter.shards().remove(0);
        assert_eq!((of(&limiter, "calls_in_flight", "s0"), waits()), (status.in_flight as f64, status.queued as f64));
        assert!(status.in_flight > 1 && status.queued > 0 && is_calm("s1"), "{status:?}");
        servers[0].resume().await;
    };
    let (answers, ()) = futures::join!(asking, watching);
    assert!(answers.iter().all(|answers| answers[0].degraded.is_none()));
    let [batches, checks, _, sent, calls] = since(before, "s0");
    assert_eq!((checks, sent, calls), (MANY as f64, MANY as f64, batches));
    assert!((8.0..=100.0).contains(&batches), "{batches} calls of at most 128 checks");
    assert!(await_until(RECOVERY, async || is_calm("s0")).await);

    assert_eq!(of(&limiter, "connections_total", "s0"), 1.0);
    servers[0].kill().await;
    assert!(await_until(RECOVERY, async || of(&limiter, "breaker", "s0") > 0.0).await);
    assert!(is_calm("s1"));
    servers[0].restart().await.expect("starts again");
    assert!(await_until(RECOVERY + Duration::from_secs(5), async || is_calm("s0")).await);
    assert_eq!((of(&limiter, "connections_total", "s0"), of(&limiter, "connections_total", "s1")), (2.0, 1.0));
}
