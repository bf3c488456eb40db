//! Promise 8: a flood of subjects that nobody knows fills neither the shard nor the agent, and blocks nobody's refusal.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use weir_agent::limiter::{LimitAnswer, LimitQuery, Limiter, LimiterSettings};
use weir_core::counter::CounterCall;
use weir_core::decision::Cause;
use weir_core::failure::FailureMode;
use weir_core::limit::Algorithm;
use weir_testbed::{Flavor, Redis, RedisSettings, await_until};

use crate::support::*;

/// New subjects a second, at most: a busy machine takes longer for them.
const RATE: usize = 10_000;
/// New subjects in each hundredth of a second.
const ROUND: usize = RATE / 100;
const SECONDS: usize = 3;
/// The memory of the shard, in bytes, and what is taken of it before the flood: about 10,000 counters fit in until the guard comes.
const MEMORY: u64 = 16 << 20;
const BALLAST: usize = 11;
/// The most memory, in bytes, that the agent may take meanwhile.
const GROWTH: u64 = 48 << 20;
/// Counters held in the agent.
const HELD: usize = 1_000;

fn of(subject: &str, limit: u64) -> LimitQuery {
    let hour = Duration::from_secs(3_600);
    let call = CounterCall::check(key(subject, "per-user"), bound(Algorithm::TokenBucket, limit, hour), 1);
    LimitQuery { call, on_failure: policy(FailureMode::Local), overflow: Some(key("nobody", "overflow")) }
}

/// Asks for new subjects in this place of the flood, and for the two who are refused whatever happens.
async fn round(limiter: &Limiter, number: usize, refused: &[LimitQuery; 2]) -> Vec<LimitAnswer> {
    let new: Vec<LimitQuery> = (0..ROUND).map(|n| of(&format!("invented-{number}-{n}"), 2)).collect();
    let answers = futures::future::join_all(new.iter().map(|query| decide(limiter, std::slice::from_ref(query)))).await;
    for query in refused {
        let answer = limiter.decide(std::slice::from_ref(query), std::time::Instant::now() + LONG).await.remove(0);
        let answer = answer.expect("the only limit");
        assert!(!answer.reply.allowed, "round {number}: {answer:?}");
    }
    answers.into_iter().flatten().collect()
}

async fn used(server: &Redis) -> u64 {
    let info = server.ask(&["INFO", "memory"]).await.expect("answers");
    info.text().lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok()).expect("a number")
}

/// Ten thousand new subjects a second for some seconds. The shard keeps out what is new before it is full; then it goes away.
#[tokio::test(flavor = "multi_thread")]
async fn promise_8_a_flood_fills_neither_the_shard_nor_the_agent() {
    let extra = vec![("maxmemory".to_owned(), MEMORY.to_string())];
    let flavor = Flavor::available().expect("a server");
    let server = Redis::start(RedisSettings { flavor, extra, ..RedisSettings::default() }).await.expect("starts");
    for n in 0..BALLAST {
        server.ask(&["SET", &format!("ballast-{n}"), &"x".repeat((1 << 20) - 64)]).await.expect("stored");
    }
    let settings = LimiterSettings { memory_counters: HELD, ..patient() };
    let limiter: Arc<Limiter> = limiter_with(settings, [server.url().as_str()]).await;
    // One has used what it may, and one may nothing.
    let refused = [of("exhausted", 1), of("blocked", 0)];
    assert!(decide(&limiter, &refused[..1]).await[0].reply.allowed);

    let before = resident();
    let mut pace = interval(Duration::from_millis(10));
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut counted, mut shared) = (0, 0);
    for number in 0..SECONDS * 100 {
        pace.tick().await;
        for answer in round(&limiter, number, &refused).await {
            match answer.degraded.map(|degraded| degraded.cause) {
                None => counted += 1,
                Some(Cause::NewCounters) => shared += 1,
                Some(cause) => panic!("{cause:?}"),
            }
        }
    }
    let used = used(&server).await;
    assert!(used < MEMORY, "{used} bytes");
    assert!(counted > RATE / 10 && shared > RATE / 2, "{counted} counted, {shared} not");

    drop(server);
    let away = async || decide(&limiter, &[of("somebody", 5)]).await[0].degraded.is_some();
    assert!(await_until(RECOVERY, away).await);
    for number in SECONDS * 100..SECONDS * 200 {
        let answers = round(&limiter, number, &refused).await;
        assert!(answers.iter().all(|answer| answer.degraded.is_some() && answer.reply.allowed), "{number}");
    }
    let (held, gone) = (metric(&limiter, "weir_local_counters"), metric(&limiter, "weir_local_evictions_total"));
    assert!(held <= HELD as f64 && gone >= (SECONDS * RATE - HELD) as f64, "{held} held, {gone} gone");
    let grown = resident().saturating_sub(before);
    assert!(grown < GROWTH, "{grown} bytes");
}
