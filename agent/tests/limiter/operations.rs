//! Refund, reset and release through the limiter: with its shards, without them, and in memory alone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_agent::limiter::store::{Refund, Release};
use weir_agent::limiter::{CountOn, LimitQuery, Limiter, LimiterSettings};
use weir_core::clock::SystemClock;
use weir_core::counter::CounterCall;
use weir_core::decision::Cause;
use weir_core::failure::FailureMode;
use weir_core::limit::Algorithm;
use weir_testbed::await_until;

use crate::support::*;

fn of(rule: &str, algorithm: Algorithm, limit: u64, mode: FailureMode) -> LimitQuery {
    let call = CounterCall::check(key("user", rule), bound(algorithm, limit, MINUTE * 60), 1);
    LimitQuery { call, on_failure: policy(mode), overflow: None }
}

fn deadline() -> Instant {
    Instant::now() + LONG
}

async fn acquire(limiter: &Limiter, query: &LimitQuery) -> (bool, Release) {
    let one = leased(query);
    let answer = decide(limiter, std::slice::from_ref(&one)).await.remove(0);
    (answer.reply.allowed, Release { key: one.call.key, lease: one.call.lease.expect("a lease") })
}

/// On shards and in memory: what is done to a counter is done to that one, and answered in order.
#[tokio::test(flavor = "multi_thread")]
async fn exact_operations_do_what_they_say() {
    let servers = redises(3).await;
    let alone = LimiterSettings { count_on: CountOn::Memory, ..LimiterSettings::default() };
    for limiter in [limiter(&servers).await, Arc::new(Limiter::new(alone, Arc::new(SystemClock)))] {
        let queries: Vec<LimitQuery> = (0..20)
            .map(|n| {
                let algorithm = [Algorithm::SlidingWindow, Algorithm::SlidingLog, Algorithm::FixedWindow][n % 3];
                let query = of("r", algorithm, 10, FailureMode::Closed);
                LimitQuery { call: CounterCall { key: key(&format!("user-{n}"), "r"), cost: 6, ..query.call.clone() }, ..query }
            })
            .collect();
        for query in &queries {
            assert!(decide(&limiter, std::slice::from_ref(query)).await[0].reply.allowed);
        }
        let refunds = queries.iter().enumerate().map(|(n, query)| Refund {
            key: query.call.key,
            bound: query.call.bound,
            units: n as u64,
            time_us: 0,
            lease: None,
        });
        let given = limiter.refund(refunds.collect(), deadline()).await;
        assert_eq!(given, (0..20u64).map(|n| Ok(n.min(6))).collect::<Vec<_>>());
        for (n, query) in queries.iter().enumerate() {
            assert_eq!(remaining(&limiter, query).await, 4 + (n as u64).min(6));
        }
        let mut keys: Vec<_> = queries.iter().map(|query| query.call.key).collect();
        keys.push(key("nobody", "r"));
        let mut cleared = vec![Ok(true); 20];
        cleared.push(Ok(false));
        // A counter of which nothing is used any more may be gone already.
        let said = limiter.reset(&keys, deadline()).await;
        assert_eq!(said.len(), 21);
        assert_eq!((&said[..6], &said[20]), (&cleared[..6], &cleared[20]));
        for query in &queries {
            assert_eq!(remaining(&limiter, query).await, 10);
        }

        let leases = of("leases", Algorithm::Concurrency, 2, FailureMode::Closed);
        let (first, second) = (acquire(&limiter, &leases).await, acquire(&limiter, &leases).await);
        assert_eq!((first.0, second.0, acquire(&limiter, &leases).await.0), (true, true, false));
        assert_eq!(limiter.release(&[first.1, first.1], deadline()).await, [Ok(true), Ok(false)]);
        assert!(acquire(&limiter, &leases).await.0);
        limiter.release_later(&[second.1]);
        let free = async || remaining(&limiter, &leases).await == 1;
        assert!(await_until(RECOVERY, free).await);
    }
}

/// A refusal that this agent remembers is forgotten with the counter.
#[tokio::test(flavor = "multi_thread")]
async fn denied_no_more_after_a_reset_or_a_refund() {
    let servers = redises(1).await;
    let limiter = limiter(&servers).await;
    let query = of("r", Algorithm::FixedWindow, 1, FailureMode::Closed);
    let allowed = async || {
        let answers = limiter.decide(std::slice::from_ref(&query), deadline()).await;
        answers[0].as_ref().is_some_and(|answer| answer.reply.allowed)
    };
    assert!(allowed().await && !allowed().await && !allowed().await);
    assert_eq!(limiter.reset(&[query.call.key], deadline()).await, [Ok(true)]);
    assert!(allowed().await && !allowed().await);
    let refund = Refund { key: query.call.key, bound: query.call.bound, units: 1, time_us: 0, lease: None };
    assert_eq!(limiter.refund(vec![refund], deadline()).await, [Ok(1)]);
    assert!(allowed().await && !allowed().await);
}

/// Without its shard a `concurrency` limit is leases in this process: this agent's share of them, at least one, and they come back.
#[tokio::test(flavor = "multi_thread")]
async fn fault_leases_without_the_shard() {
    let mut servers = redises(1).await;
    let limiter = limiter_with(LimiterSettings { agents: 2, ..LimiterSettings::default() }, [servers[0].url().as_str()]).await;
    let (many, one) = (of("many", Algorithm::Concurrency, 5, FailureMode::Local), of("one", Algorithm::Concurrency, 1, FailureMode::Local));
    servers.clear();
    let away = async || decide(&limiter, &[leased(&of("x", Algorithm::Concurrency, 1, FailureMode::Open))]).await[0].degraded.is_some();
    assert!(await_until(RECOVERY, away).await);
    let mut held = Vec::new();
    for _ in 0..4 {
        let query = leased(&many);
        let answer = in_time(&limiter, &query).await;
        assert_eq!(answer.degraded.map(|degraded| degraded.mode), Some(FailureMode::Local));
        held.push((answer.reply.allowed, Release { key: query.call.key, lease: query.call.lease.expect("a lease") }));
    }
    assert_eq!(held.iter().map(|(allowed, _)| *allowed).collect::<Vec<_>>(), [true, true, false, false]);
    assert_eq!(limiter.release(&[held[0].1, held[2].1], Instant::now() + BUDGET).await[0], Ok(true));
    assert!(acquire(&limiter, &many).await.0);
    limiter.release_later(&[held[1].1]);
    assert!(acquire(&limiter, &many).await.0 && !acquire(&limiter, &many).await.0);
    assert!(acquire(&limiter, &one).await.0 && !acquire(&limiter, &one).await.0);
}

/// An operation on a shard that is away says so within its budget, and clears what this process counted all the same.
#[tokio::test(flavor = "multi_thread")]
async fn fault_operations_without_the_shard() {
    let mut servers = redises(1).await;
    let limiter = limiter_with(LimiterSettings::default(), [servers[0].url().as_str()]).await;
    let query = of("r", Algorithm::FixedWindow, 60, FailureMode::Local);
    servers.clear();
    let away = async || in_time(&limiter, &query).await.degraded.is_some();
    assert!(await_until(RECOVERY, away).await);
    while in_time(&limiter, &query).await.reply.allowed {}
    let start = Instant::now();
    let refund = Refund { key: query.call.key, bound: query.call.bound, units: 1, time_us: 0, lease: None };
    assert!(limiter.refund(vec![refund], start + BUDGET).await[0].is_err());
    assert!(limiter.reset(&[query.call.key], start + BUDGET).await[0].is_err());
    let unknown =
        Release { key: query.call.key, lease: leased(&of("l", Algorithm::Concurrency, 1, FailureMode::Local)).call.lease.expect("one") };
    assert!(limiter.release(&[unknown], start + BUDGET).await[0].is_err());
    assert!(start.elapsed() < (BUDGET + MARGIN) * 3);
    assert!(in_time(&limiter, &query).await.reply.allowed, "the local count began anew");
}

/// Above 85 % of its memory a shard gets no counters for subjects that it does not know: they share one of their rule here. Those that it knows are
/// counted as before. What such a request takes elsewhere goes back if the shared count refuses.
#[tokio::test(flavor = "multi_thread")]
async fn promise_8_nothing_grows_on_a_full_shard() {
    let servers = redises(1).await;
    let limiter = limiter(&servers).await;
    let overflow = Some(key("nobody", "overflow"));
    let of = |subject: &str| {
        let query = of("per-user", Algorithm::SlidingWindow, 60, FailureMode::Closed);
        LimitQuery { call: CounterCall { key: key(subject, "per-user"), ..query.call.clone() }, overflow, ..query }
    };
    let known = of("known");
    assert!(decide(&limiter, std::slice::from_ref(&known)).await[0].reply.allowed);
    // A rule whose counters nobody can invent is not held back, whatever the shard's memory.
    let global = LimitQuery { call: CounterCall { key: key("all", "global"), ..known.call.clone() }, overflow: None, ..known.clone() };

    let guarded = || limiter.shards()[0].memory.guarded;
    set_memory(&servers[0], Some(90)).await;
    assert!(await_until(Duration::from_secs(20), async || guarded()).await, "the guard never came");
    let mut admitted = 0;
    for n in 0..200 {
        let queries = [of(&format!("invented-{n}")), known.clone(), global.clone()];
        let answers = decide(&limiter, &queries).await;
        let causes: Vec<_> = answers.iter().map(|answer| answer.degraded.map(|degraded| (degraded.mode, degraded.cause))).collect();
        assert_eq!(causes, [Some((FailureMode::Local, Cause::NewCounters)), None, None]);
        admitted += u64::from(is_admitted(&queries, &answers));
    }
    // The known one had 59 left, and the shared bucket holds a minute's refill of one an hour per unit: one.
    assert_eq!(admitted, 1);
    let settled = async || remaining(&limiter, &known).await == 58 && remaining(&limiter, &global).await == 59;
    assert!(await_until(RECOVERY, settled).await, "{} left", remaining(&limiter, &known).await);
    for n in 0..200 {
        let redis::Value::Int(there) = command(&servers[0], &["EXISTS", of(&format!("invented-{n}")).call.key.as_str()]).await else {
            panic!("no number")
        };
        assert_eq!(there, 0);
    }

    set_memory(&servers[0], None).await;
    assert!(await_until(Duration::from_secs(20), async || !guarded()).await, "the guard never went");
    assert_eq!(decide(&limiter, &[of("invented-0")]).await[0].degraded, None);
}

/// Sets a server's memory limit so that it is full to this percentage; or takes the limit away.
async fn set_memory(server: &weir_testbed::Redis, percent: Option<u64>) {
    let redis::Value::BulkString(info) = command(server, &["INFO", "memory"]).await else { panic!("no text") };
    let info = String::from_utf8(info).expect("text");
    let used: u64 = info.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok()).expect("a number");
    let limit = percent.map_or(0, |percent| used * 100 / percent);
    command(server, &["CONFIG", "SET", "maxmemory", &limit.to_string()]).await;
}
