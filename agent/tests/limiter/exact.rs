//! Counting is exact whatever the number of agents and shards.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_agent::limiter::{LimitQuery, Limiter, LimiterSettings};
use weir_core::clock::{Clock, SystemClock};
use weir_core::counter::CounterCall;
use weir_core::failure::FailureMode;
use weir_core::limit::Algorithm;
use weir_testbed::{Redis, await_until};

use crate::support::*;

/// BB-42: what one limit refuses is not counted by the others, whatever the order.
/// BB-54: a key that holds something else is replaced, and that is counted once, not for each request.
#[tokio::test(flavor = "multi_thread")]
async fn exact_bb_54_replaced_states_are_counted_once() {
    let servers = redises(1).await;
    let limiter = limiter(&servers).await;
    let replaced = || metric(&limiter, "weir_shard_replaced_states_total{shard=\"s0\"}");
    for (n, counter) in ["a", "b"].map(|user| key(user, "r")).into_iter().enumerate() {
        command(&servers[0], &["SET", counter.as_str(), "hello"]).await;
        let mut allowed = 0;
        for _ in 0..10 {
            allowed += usize::from(decide(&limiter, &[query(counter, 3)]).await[0].reply.allowed);
        }
        assert_eq!((allowed, replaced()), (3, (n + 1) as f64));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exact_bb_42_one_shard_counts_all_or_nothing() {
    let servers = redises(1).await;
    let limiter = limiter(&servers).await;
    for swapped in [false, true] {
        let subject = format!("user-{swapped}");
        let mut queries = vec![query(key(&subject, "narrow"), 9), query(key(&subject, "wide"), 100)];
        queries.iter_mut().for_each(|query| query.call.cost = 3);
        if swapped {
            queries.reverse();
        }
        let mut admitted = 0;
        for _ in 0..10 {
            let answers = decide(&limiter, &queries).await;
            assert!(answers.iter().all(|answer| answer.degraded.is_none()));
            admitted += u64::from(is_admitted(&queries, &answers));
        }
        assert_eq!(admitted, 3);
        let wide = &queries[usize::from(!swapped)];
        assert_eq!(remaining(&limiter, wide).await, 100 - 9);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exact_two_shards_count_all_or_nothing() {
    let servers = redises(2).await;
    let limiter = limiter(&servers).await;
    let narrow = query(key_on(&limiter, "s0", "narrow"), 3);
    let wide = query(key_on(&limiter, "s1", "wide"), 100);
    for queries in [[narrow.clone(), wide.clone()], [wide.clone(), narrow.clone()]] {
        for _ in 0..10 {
            let answers = decide(&limiter, &queries).await;
            assert!(answers.iter().all(|answer| answer.degraded.is_none() && answer.reply.remaining <= 100));
        }
    }
    assert_eq!(remaining(&limiter, &narrow).await, 0);
    // A refund follows the answer.
    let refunded = await_until(RECOVERY, async || remaining(&limiter, &wide).await == 97).await;
    assert!(refunded, "{} left", remaining(&limiter, &wide).await);
    assert_eq!(metric(&limiter, "weir_shard_refunds_total{shard=\"s1\"}"), 17.0);
    assert_eq!(metric(&limiter, "weir_shard_lost_refunds_total{shard=\"s1\"}"), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn exact_refused_requests_tell_what_is_left_after_the_refund() {
    let servers = redises(2).await;
    let limiter = limiter(&servers).await;
    let queries = [query(key_on(&limiter, "s0", "narrow"), 0), query(key_on(&limiter, "s1", "wide"), 100)];
    let answers = decide(&limiter, &queries).await;
    assert_eq!((answers[0].reply.allowed, answers[1].reply.allowed, answers[1].reply.remaining), (false, true, 100));
}

#[tokio::test(flavor = "multi_thread")]
async fn exact_a_shadow_limit_never_refuses_and_counts_only_what_passes() {
    let servers = redises(2).await;
    let limiter = limiter(&servers).await;
    let enforced = query(key_on(&limiter, "s0", "enforced"), 5);
    let mut shadow = query(key_on(&limiter, "s1", "shadow"), 3);
    shadow.call.shadow = true;
    let queries = [enforced, shadow.clone()];
    let mut answers = Vec::new();
    for _ in 0..8 {
        answers.push(decide(&limiter, &queries).await);
    }
    assert_eq!(answers.iter().filter(|a| is_admitted(&queries, a)).count(), 5);
    assert_eq!(answers.iter().filter(|a| a[1].reply.allowed).count(), 3);
    let mut wide = shadow;
    wide.call.bound = bound(Algorithm::SlidingWindow, 100, MINUTE);
    assert_eq!(remaining(&limiter, &wide).await, 97);
}

/// How many of `tasks * each` concurrent checks on both limiters pass; none may be degraded.
async fn hammer(limiters: &[Arc<Limiter>], query: &LimitQuery, tasks: usize, each: usize) -> u64 {
    let workers: Vec<_> = (0..tasks)
        .map(|task| {
            let (limiter, query) = (limiters[task % limiters.len()].clone(), query.clone());
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..each {
                    let answer = decide(&limiter, &[leased(&query)]).await.remove(0);
                    assert_eq!(answer.degraded, None);
                    admitted += u64::from(answer.reply.allowed);
                }
                admitted
            })
        })
        .collect();
    let mut admitted = 0;
    for worker in workers {
        admitted += worker.await.expect("no check panics");
    }
    admitted
}

/// A window of about an hour of which more than a few minutes are left.
fn roomy_window() -> Duration {
    let now = SystemClock.wall().as_secs();
    let seconds = (3600..).find(|seconds| seconds - now % seconds > 300).expect("one of them");
    Duration::from_secs(seconds)
}

/// Two agents, three shards, one key: the bound of each algorithm is never exceeded, and is reached.
#[tokio::test(flavor = "multi_thread")]
async fn exact_two_agents_hammer_one_key() {
    const LIMIT: u64 = 200;
    let servers = redises(3).await;
    let limiters = [limiter(&servers).await, limiter(&servers).await];
    for algorithm in Algorithm::ALL {
        let window = if algorithm == Algorithm::FixedWindow { roomy_window() } else { MINUTE };
        let call = CounterCall::check(key("hot", algorithm.as_str()), bound(algorithm, LIMIT, window), 1);
        let query = LimitQuery { call, on_failure: policy(FailureMode::Closed), overflow: None };
        let start = Instant::now();
        let admitted = hammer(&limiters, &query, 64, 20).await;
        let refill = match algorithm {
            Algorithm::TokenBucket => (LIMIT as f64 * start.elapsed().as_secs_f64() / window.as_secs_f64()).ceil() as u64,
            _ => 0,
        };
        assert!((LIMIT..=LIMIT + refill).contains(&admitted), "{algorithm:?}: {admitted} of {LIMIT} + {refill}");
    }
}

/// Checks of many subjects at once travel together.
#[tokio::test(flavor = "multi_thread")]
async fn exact_concurrent_checks_share_calls() {
    let servers = redises(1).await;
    let limiter = limiter(&servers).await;
    let queries: Vec<LimitQuery> = (0..500).map(|n| query(key(&format!("user-{n}"), "each"), 1)).collect();
    let checks = queries.iter().map(|query| decide(&limiter, std::slice::from_ref(query)));
    let answers = futures::future::join_all(checks).await;
    assert!(answers.iter().all(|a| a[0].reply.allowed && a[0].degraded.is_none()));
    let calls = metric(&limiter, "weir_shard_calls_total{shard=\"s0\"}");
    assert!((500.0 / 128.0..100.0).contains(&calls), "{calls} calls");
    assert_eq!(metric(&limiter, "weir_shard_checks_total{shard=\"s0\"}"), 500.0);
}

/// A caller that goes away before its check was sent takes it back.
#[tokio::test(flavor = "multi_thread")]
async fn exact_a_dropped_check_that_was_not_sent_never_counts() {
    let servers = redises(1).await;
    let settings = LimiterSettings { in_flight: 1, ..patient() };
    let limiter = limiter_with(settings, [servers[0].url().as_str()]).await;
    let (first, second) = (query(key("a", "r"), 10), query(key("b", "r"), 10));
    servers[0].pause().await;
    let sent = tokio::spawn({
        let (limiter, first) = (limiter.clone(), first.clone());
        async move { decide(&limiter, &[first]).await }
    });
    assert!(await_until(RECOVERY, async || limiter.shards()[0].in_flight == 1).await);
    let waiting = tokio::spawn({
        let (limiter, second) = (limiter.clone(), second.clone());
        async move { decide(&limiter, &[second]).await }
    });
    assert!(await_until(RECOVERY, async || limiter.shards()[0].queued == 1).await);
    waiting.abort();
    assert!(waiting.await.is_err());
    servers[0].resume().await;
    assert!(sent.await.expect("answers")[0].reply.allowed);
    assert_eq!((remaining(&limiter, &first).await, remaining(&limiter, &second).await), (9, 10));
}

/// A ring that changes keeps the shards that stay; counters that stay keep their units.
#[tokio::test(flavor = "multi_thread")]
async fn exact_a_new_ring_keeps_what_stays() {
    let servers = redises(2).await;
    let urls: Vec<String> = servers.iter().map(Redis::url).collect();
    let limiter = limiter(&servers).await;
    let stays = query(key_on(&limiter, "s0", "r"), 10);
    assert!(decide(&limiter, std::slice::from_ref(&stays)).await[0].reply.allowed);
    let mut smaller = ring([urls[0].as_str()]);
    smaller.version = 2;
    assert!(limiter.set_ring(smaller.clone()));
    assert_eq!((limiter.ring_version(), limiter.shards().len()), (2, 1));
    // One that comes late is not taken; that in use may come again, with other credentials.
    assert!(!limiter.set_ring(ring(urls.iter().map(String::as_str))));
    assert!(limiter.set_ring(smaller));
    assert_eq!((limiter.ring_version(), limiter.shards().len()), (2, 1));
    assert_eq!(remaining(&limiter, &stays).await, 9);
    assert_eq!(metric(&limiter, "weir_shard_connections_total{shard=\"s0\"}"), 1.0);
    limiter.shutdown().await;
    assert!(decide(&limiter, &[stays]).await[0].degraded.is_some());
}
