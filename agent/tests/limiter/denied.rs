//! What was refused a moment ago is refused again without asking the shard, and never for long.

use std::time::{Duration, Instant};

use weir_agent::limiter::{LimitAnswer, LimitQuery, Limiter};
use weir_core::failure::FailureMode;
use weir_core::limit::Algorithm;
use weir_testbed::{Redis, await_until};

use crate::support::*;

/// How late a change on the shard may be seen, and how late that may be noticed on a busy machine.
const CAP: Duration = Duration::from_millis(250);
const NOTICE: Duration = Duration::from_millis(100);

async fn ask(limiter: &Limiter, queries: &[LimitQuery]) -> Vec<Option<LimitAnswer>> {
    limiter.decide(queries, Instant::now() + LONG).await
}

async fn allowed(limiter: &Limiter, query: &LimitQuery) -> bool {
    ask(limiter, std::slice::from_ref(query)).await[0].as_ref().is_some_and(|answer| answer.reply.allowed)
}

/// Uses up `query`'s limit, which one check does.
async fn exhaust(limiter: &Limiter, query: &LimitQuery) {
    assert!(allowed(limiter, query).await);
    assert!(!allowed(limiter, query).await);
}

fn checks(limiter: &Limiter, shard: &str) -> f64 {
    metric(limiter, &format!("weir_shard_checks_total{{shard=\"{shard}\"}}"))
}

fn from_cache(limiter: &Limiter) -> f64 {
    metric(limiter, "weir_denied_from_cache_total")
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_again_without_a_call() {
    let servers = redises(1).await;
    let limiter = limiter(&servers).await;
    let repeatable = Algorithm::ALL.into_iter().filter(|algorithm| *algorithm != Algorithm::Concurrency);
    for (n, algorithm) in repeatable.enumerate() {
        let mut query = query(key("user", algorithm.as_str()), 1);
        // Long enough that no window ends meanwhile.
        query.call.bound = bound(algorithm, 1, Duration::from_secs(366 * 86_400));
        assert!(allowed(&limiter, &query).await);
        let first = decide(&limiter, std::slice::from_ref(&query)).await.remove(0);
        let asked = checks(&limiter, "s0");
        let again = ask(&limiter, std::slice::from_ref(&query)).await.remove(0).expect("the only limit");
        assert_eq!((again.degraded, &again.shard, again.reply.allowed), (None, &first.shard, false), "{algorithm:?}");
        assert!(again.reply.retry_after_us < first.reply.retry_after_us && again.reply.retry_after_us > Some(1_000_000));
        assert_eq!((checks(&limiter, "s0"), from_cache(&limiter)), (asked, (n + 1) as f64));
    }
}

/// A lease may be given back at any moment: the shard is asked each time.
#[tokio::test(flavor = "multi_thread")]
async fn denied_leases_are_asked_for_again() {
    let servers = redises(1).await;
    let limiter = limiter(&servers).await;
    let mut query = query(key("user", "leases"), 1);
    query.call.bound = bound(Algorithm::Concurrency, 1, MINUTE);
    assert!(decide(&limiter, &[leased(&query)]).await[0].reply.allowed);
    for asked in 2..4 {
        assert!(!allowed(&limiter, &leased(&query)).await);
        assert_eq!((checks(&limiter, "s0"), from_cache(&limiter)), (f64::from(asked), 0.0));
    }
}

/// A limit raised is another bound, and a counter reset through this agent is forgotten: both are seen at once.
#[tokio::test(flavor = "multi_thread")]
async fn denied_no_more_once_the_limit_is_raised_or_the_counter_reset_here() {
    let servers = redises(1).await;
    let limiter = limiter(&servers).await;
    let one = query(key("user", "raised"), 1);
    exhaust(&limiter, &one).await;
    assert!(allowed(&limiter, &query(one.call.key, 2)).await);
    let two = query(key("user", "reset"), 1);
    exhaust(&limiter, &two).await;
    command(&servers[0], &["DEL", two.call.key.as_str()]).await;
    limiter.forget_denials(&two.call.key);
    assert!(allowed(&limiter, &two).await);
}

/// What another agent or another hand changes on the shard is seen within a quarter of a second, by each agent.
#[tokio::test(flavor = "multi_thread")]
async fn denied_for_at_most_the_cap_whoever_reset_the_counter() {
    let servers = redises(1).await;
    let limiters = [limiter(&servers).await, limiter(&servers).await];
    let mut query = query(key("user", "r"), 2);
    query.call.bound = bound(Algorithm::SlidingWindow, 2, MINUTE);
    query.call.cost = 2;
    exhaust(&limiters[0], &query).await;
    assert!(!allowed(&limiters[1], &query).await);
    command(&servers[0], &["DEL", query.call.key.as_str()]).await;
    query.call.cost = 1;
    assert!(allowed(&limiters[1], &query).await, "a lower cost was never refused");
    query.call.cost = 2;
    command(&servers[0], &["DEL", query.call.key.as_str()]).await;
    assert!(await_until(CAP + NOTICE, async || allowed(&limiters[0], &query).await).await);
    command(&servers[0], &["DEL", query.call.key.as_str()]).await;
    assert!(await_until(CAP + NOTICE, async || allowed(&limiters[1], &query).await).await);
}

/// Nothing is consumed anywhere, and nothing is said of what was not asked: on one shard or on two.
#[tokio::test(flavor = "multi_thread")]
async fn denied_requests_leave_out_what_was_not_asked() {
    let servers = redises(2).await;
    let limiter = limiter(&servers).await;
    let used = query(key_on(&limiter, "s0", "used"), 1);
    exhaust(&limiter, &used).await;
    for shard in ["s0", "s1"] {
        let roomy = query(key_on(&limiter, shard, "roomy"), 10);
        limiter.forget_denials(&used.call.key);
        assert!(!allowed(&limiter, &used).await);
        for queries in [[used.clone(), roomy.clone()], [roomy.clone(), used.clone()]] {
            let asked = checks(&limiter, "s0") + checks(&limiter, "s1");
            let known: Vec<bool> = ask(&limiter, &queries).await.iter().map(Option::is_some).collect();
            assert_eq!(known, queries.map(|query| query.call.key == used.call.key));
            assert_eq!(checks(&limiter, "s0") + checks(&limiter, "s1"), asked);
        }
        assert_eq!(remaining(&limiter, &roomy).await, 10);
    }
}

/// A shadow limit that is known to refuse is told, and the limits beside it are asked all the same.
#[tokio::test(flavor = "multi_thread")]
async fn denied_by_a_shadow_limit_only_counts() {
    let servers = redises(2).await;
    let limiter = limiter(&servers).await;
    let mut shadow = query(key_on(&limiter, "s0", "shadow"), 1);
    exhaust(&limiter, &shadow).await;
    shadow.call.shadow = true;
    let enforced = query(key_on(&limiter, "s1", "enforced"), 10);
    let asked = checks(&limiter, "s0");
    let queries = [shadow, enforced.clone()];
    let answers: Vec<LimitAnswer> = ask(&limiter, &queries).await.into_iter().map(|answer| answer.expect("known or asked")).collect();
    assert!(is_admitted(&queries, &answers) && !answers[0].reply.allowed);
    assert_eq!((answers[1].reply.remaining, checks(&limiter, "s0"), from_cache(&limiter)), (9, asked, 0.0));
    assert_eq!(ask(&limiter, &queries[..1]).await[0].as_ref().map(|answer| answer.reply.allowed), Some(false));
}

/// A refusal without the shard is this agent's own: the shard is asked as soon as it is back.
#[tokio::test(flavor = "multi_thread")]
async fn denied_without_the_shard_is_not_remembered() {
    let servers = redises(1).await;
    let urls: Vec<String> = servers.iter().map(Redis::url).collect();
    let limiter = limiter_with(patient(), urls.iter().map(String::as_str)).await;
    servers[0].stop().await;
    let mut query = query(key("user", "r"), 1);
    query.on_failure = policy(FailureMode::Closed);
    let refused = async || ask(&limiter, std::slice::from_ref(&query)).await[0].as_ref().is_some_and(|answer| answer.degraded.is_some());
    assert!(await_until(RECOVERY, refused).await);
    servers[0].restart().await.expect("starts");
    assert!(await_until(RECOVERY, async || allowed(&limiter, &query).await).await);
    assert_eq!(from_cache(&limiter), 0.0);
}
