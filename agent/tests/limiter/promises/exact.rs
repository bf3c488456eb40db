//! Promise 1: never more than the limit, whatever the number of agents and the order of arrival.

use std::time::{Duration, Instant};

use weir_agent::limiter::store::Release;
use weir_core::calendar::{Calendar, CalendarUnit, Zone};
use weir_core::clock::{Clock as _, SystemClock};
use weir_core::limit::{Algorithm, Bound};
use weir_testbed::Redis;

use super::{agents, of};
use crate::support::*;

/// How long agents send.
const RUN: Duration = Duration::from_millis(2_500);

/// One consume that passed: the shard's clock when it did, and its units.
type Passed = (u64, u64);

/// What passed while all agents asked for one counter as fast as they could, with costs of 1 to `most`; by the shard's time.
async fn history(servers: &[Redis], bound: Bound, most: u64) -> Vec<Passed> {
    let counter = key("hot", bound.algorithm.as_str());
    let mut tasks = Vec::new();
    for (agent, limiter) in agents(servers).await.into_iter().enumerate() {
        for task in 0..4 {
            let limiter = limiter.clone();
            tasks.push(tokio::spawn(async move {
                let (end, mut passed, mut turn) = (Instant::now() + RUN, Vec::new(), agent as u64 * 7 + task);
                while Instant::now() < end {
                    turn += 1;
                    let query = of(counter, bound, turn % most + 1);
                    let answer = decide(&limiter, std::slice::from_ref(&query)).await.remove(0);
                    assert_eq!(answer.degraded, None);
                    if answer.reply.allowed {
                        passed.push((answer.reply.time_us, query.call.cost));
                    }
                }
                passed
            }));
        }
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.expect("no check panics"));
    }
    all.sort_unstable();
    all
}

/// The most units in any interval from one consume to another that is shorter than `us`.
fn most_within(history: &[Passed], us: u64) -> u64 {
    let within = |from: usize| history[from..].iter().take_while(|(time, _)| time - history[from].0 < us).map(|(_, units)| units).sum();
    (0..history.len()).map(within).max().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_1_exact_token_bucket() {
    let servers = [redis().await];
    let bound = Bound { capacity: 50, ..bound(Algorithm::TokenBucket, 200, Duration::from_secs(1)) };
    let history = history(&servers, bound, 5).await;
    for (from, (start, _)) in history.iter().enumerate() {
        let mut units = 0;
        for (time, cost) in &history[from..] {
            units += cost;
            // Rounded up to steps of 16 µs; in millionths of a unit.
            let interval = (time / 16 - start / 16) * 16;
            assert!(units * 1_000_000 <= bound.capacity * 1_000_000 + bound.limit * interval, "{units} units in {interval} µs");
        }
    }
    let sum: u64 = history.iter().map(|(_, units)| units).sum();
    assert!(sum >= bound.capacity + bound.limit * 2, "{sum} units: the bound is reached too");
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_1_exact_sliding_window_and_log() {
    for algorithm in [Algorithm::SlidingWindow, Algorithm::SlidingLog] {
        let servers = [redis().await];
        let bound = bound(algorithm, 100, Duration::from_secs(1));
        let history = history(&servers, bound, 5).await;
        let most = most_within(&history, bound.window_us);
        assert!((96..=100).contains(&most), "{algorithm:?}: {most}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_1_exact_fixed_window() {
    let servers = [redis().await];
    let bound = bound(Algorithm::FixedWindow, 100, Duration::from_secs(1));
    let history = history(&servers, bound, 5).await;
    let windows: Vec<u64> =
        history.chunk_by(|a, b| a.0 / 1_000_000 == b.0 / 1_000_000).map(|window| window.iter().map(|(_, units)| units).sum()).collect();
    assert!(windows.iter().all(|units| *units <= 100) && windows.contains(&100), "{windows:?}");
}

/// The same on a minute of a calendar, whose edges come from agents.
#[tokio::test(flavor = "multi_thread")]
async fn promise_1_exact_calendar_window() {
    let servers = [redis().await];
    let calendar = Calendar { unit: CalendarUnit::Minute, zone: Zone::new("Asia/Kathmandu").expect("a zone") };
    let bound = Bound { calendar: Some(calendar), ..bound(Algorithm::FixedWindow, 100, MINUTE) };
    let history = history(&servers, bound, 5).await;
    for window in history.chunk_by(|a, b| calendar.edges(a.0) == calendar.edges(b.0)) {
        assert_eq!(window.iter().map(|(_, units)| units).sum::<u64>(), 100);
    }
}

/// A lease is certainly in flight from the shard's time of its answer until whoever holds it begins to give it back.
#[tokio::test(flavor = "multi_thread")]
async fn promise_1_exact_concurrency() {
    const LIMIT: u64 = 5;
    let servers = [redis().await];
    let query = of(key("hot", "leases"), bound(Algorithm::Concurrency, LIMIT, MINUTE), 1);
    let mut tasks = Vec::new();
    for limiter in agents(&servers).await {
        for task in 0..6u64 {
            let (limiter, query) = (limiter.clone(), query.clone());
            tasks.push(tokio::spawn(async move {
                let (end, mut held) = (Instant::now() + RUN, Vec::new());
                while Instant::now() < end {
                    let acquire = leased(&query);
                    let answer = decide(&limiter, std::slice::from_ref(&acquire)).await.remove(0);
                    assert_eq!(answer.degraded, None);
                    if !answer.reply.allowed {
                        tokio::task::yield_now().await;
                        continue;
                    }
                    tokio::time::sleep(Duration::from_millis(task)).await;
                    let until = u64::try_from(SystemClock.wall().as_micros()).expect("it fits");
                    let release = Release { key: acquire.call.key, lease: acquire.call.lease.expect("a lease") };
                    assert_eq!(limiter.release(&[release], Instant::now() + LONG).await, [Ok(true)]);
                    held.push((answer.reply.time_us, until));
                }
                held
            }));
        }
    }
    let mut changes = Vec::new();
    for task in tasks {
        for (from, until) in task.await.expect("no task panics") {
            changes.extend([(from, 1i64), (until, -1)]);
        }
    }
    // At the same moment the end of one comes before the beginning of another.
    changes.sort_unstable();
    let mut in_flight = 0;
    let most = changes.iter().map(|(_, change)| {
        in_flight += change;
        in_flight
    });
    assert_eq!(most.max(), Some(i64::try_from(LIMIT).expect("it fits")), "of {} leases", changes.len() / 2);
    // Nothing is left of them.
    assert_eq!(remaining(&agents(&servers).await[0], &query).await, LIMIT);
}
