//! The promises about counting, each by its number, on real servers and in real time: several agents, histories recorded as they happen.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_agent::limiter::store::Release;
use weir_agent::limiter::{LimitQuery, Limiter};
use weir_core::calendar::{Calendar, CalendarUnit, Zone};
use weir_core::clock::{Clock as _, SystemClock};
use weir_core::counter::CounterCall;
use weir_core::failure::FailureMode;
use weir_core::key::CounterKey;
use weir_core::limit::{Algorithm, Bound, MAX_WINDOW};
use weir_testbed::{Redis, await_until};

use crate::support::*;

const AGENTS: usize = 3;
/// How long agents send.
const RUN: Duration = Duration::from_millis(2_500);

/// One consume that passed: the shard's clock when it did, and its units.
type Passed = (u64, u64);

fn of(key: CounterKey, bound: Bound, cost: u64) -> LimitQuery {
    let call = CounterCall::check(key, bound, cost);
    LimitQuery { call, on_failure: policy(FailureMode::Closed), overflow: None }
}

fn longest(algorithm: Algorithm, limit: u64) -> Bound {
    bound(algorithm, limit, MAX_WINDOW.as_duration())
}

async fn agents(servers: &[Redis]) -> Vec<Arc<Limiter>> {
    let mut limiters = Vec::new();
    for _ in 0..AGENTS {
        limiters.push(limiter(servers).await);
    }
    limiters
}

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
    let before = [calls(&servers[0]).await, calls(&servers[1]).await];
    let start = Instant::now();
    for _ in 0..CHECKS {
        let queries: Vec<LimitQuery> = queries.iter().map(leased).collect();
        let answers = decide(&limiter, &queries).await;
        assert!(is_admitted(&queries, &answers));
    }
    // An idle shard is probed once a second.
    let probes = start.elapsed().as_secs() + 1;
    for (server, before) in servers.iter().zip(before) {
        let made = calls(server).await - before;
        assert!((CHECKS..=CHECKS + probes).contains(&made), "{made} calls for {CHECKS} checks");
    }
}

/// Calls of the script that a server has seen.
async fn calls(server: &Redis) -> u64 {
    let redis::Value::BulkString(info) = command(server, &["INFO", "commandstats"]).await else { panic!("no text") };
    let info = String::from_utf8(info).expect("text");
    let line = info.lines().find(|line| line.starts_with("cmdstat_evalsha:")).expect("calls were made");
    line.split([':', ',']).find_map(|part| part.strip_prefix("calls=")?.parse().ok()).expect("a number")
}

/// BB-08: a flood of invented subjects, under every algorithm and from all agents: no key is ever without a TTL, and all go by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn promise_8_nothing_grows_without_an_end() {
    let servers = [redis().await];
    let tasks: Vec<_> = agents(&servers)
        .await
        .into_iter()
        .enumerate()
        .map(|(agent, limiter)| {
            tokio::spawn(async move {
                for round in 0..60 {
                    let queries: Vec<LimitQuery> = (0..25)
                        .map(|n| {
                            let algorithm = Algorithm::ALL[n % 5];
                            let counter = key(&format!("invented-{agent}-{}", round * 20 + n), algorithm.as_str());
                            leased(&of(counter, bound(algorithm, 2, Duration::from_secs(1)), 1))
                        })
                        .collect();
                    let requests = queries.iter().map(|query| decide(&limiter, std::slice::from_ref(query)));
                    futures::future::join_all(requests).await;
                }
            })
        })
        .collect();
    let mut most = 0;
    while !tasks.iter().all(tokio::task::JoinHandle::is_finished) {
        most = most.max(assert_all_expire(&servers[0]).await);
    }
    assert!(most > 100, "the flood was seen: {most} keys");
    for task in tasks {
        task.await.expect("no task panics");
    }
    let gone = async || assert_all_expire(&servers[0]).await <= 1;
    assert!(await_until(Duration::from_secs(15), gone).await, "keys are left");
}

/// Every key has a TTL; returns how many there are. The probe's key is among them.
async fn assert_all_expire(server: &Redis) -> usize {
    let client = redis::Client::open(server.url()).expect("an address");
    let mut connection = client.get_multiplexed_async_connection().await.expect("connects");
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("{*").query_async(&mut connection).await.expect("answers");
    if keys.is_empty() {
        return 0;
    }
    let mut pipe = redis::pipe();
    for key in &keys {
        pipe.cmd("PTTL").arg(key);
    }
    let ttls: Vec<i64> = pipe.query_async(&mut connection).await.expect("answers");
    assert!(ttls.iter().all(|ttl| *ttl != -1), "a key without a TTL");
    keys.len()
}
