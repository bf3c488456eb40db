//! Promise 3: a check is one round trip per shard, to all shards at once.

use std::time::{Duration, Instant};

use weir_agent::limiter::LimitQuery;
use weir_core::calendar::{Calendar, CalendarUnit, Zone};
use weir_core::limit::{Algorithm, Bound};
use weir_testbed::{Mode, Proxy};

use super::{longest, of};
use crate::support::*;

/// A check is one call of the script per shard, whatever the limits of the request: algorithms mixed, a calendar among them.
#[tokio::test(flavor = "multi_thread")]
async fn promise_3_one_round_trip_per_shard() {
    const CHECKS: u64 = 200;
    let servers = redises(2).await;
    let limiter = limiter(&servers).await;
    let calendar = Calendar { unit: CalendarUnit::Month, zone: Zone::new("Europe/Zurich").expect("a zone") };
    let mut queries = Vec::new();
    for shard in ["s0", "s1"] {
        for algorithm in Algorithm::ALL {
            queries.push(of(key_on(&limiter, shard, algorithm.as_str()), longest(algorithm, 10_000), 1));
        }
        let monthly = Bound { calendar: Some(calendar), ..longest(Algorithm::FixedWindow, 10_000) };
        queries.push(of(key_on(&limiter, shard, "monthly"), monthly, 1));
    }
    let before = [calls_of(&servers[0], "evalsha").await, calls_of(&servers[1], "evalsha").await];
    let start = Instant::now();
    for _ in 0..CHECKS {
        let queries: Vec<LimitQuery> = queries.iter().map(leased).collect();
        let answers = decide(&limiter, &queries).await;
        assert!(is_admitted(&queries, &answers));
    }
    // An idle shard is probed once a second.
    let probes = start.elapsed().as_secs() + 1;
    for (server, before) in servers.iter().zip(before) {
        let made = calls_of(server, "evalsha").await - before;
        assert!((CHECKS..=CHECKS + probes).contains(&made), "{made} calls for {CHECKS} checks");
    }
}

/// All shards are asked at once: two that answer after 30 ms each have both answered well before 60.
#[tokio::test(flavor = "multi_thread")]
async fn promise_3_shards_are_asked_at_once() {
    const DELAY: Duration = Duration::from_millis(30);
    let servers = redises(2).await;
    let (mut proxies, mut urls) = (Vec::new(), Vec::new());
    for server in &servers {
        let proxy = Proxy::start(server.addr().expect("TCP")).await.expect("a port");
        urls.push(server.url_through(proxy.addr()));
        proxies.push(proxy);
    }
    let limiter = limiter_with(patient(), urls.iter().map(String::as_str)).await;
    let queries = ["s0", "s1"].map(|shard| query(key_on(&limiter, shard, "r"), 1_000));
    for proxy in &proxies {
        proxy.set_mode(Mode::Delay(DELAY)).await;
    }
    let mut took = Vec::new();
    for _ in 0..15 {
        let start = Instant::now();
        let answers = decide(&limiter, &queries).await;
        took.push(start.elapsed());
        assert!(is_admitted(&queries, &answers) && answers.iter().all(|answer| answer.degraded.is_none()));
    }
    took.sort_unstable();
    assert!(took[0] >= DELAY && took[took.len() / 2] < DELAY * 5 / 3, "{took:?}");
}
