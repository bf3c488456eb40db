//! What each failure policy does while a shard is away.

use std::sync::Arc;
use std::time::Duration;

use weir_agent::limiter::{LimitAnswer, LimitQuery, Limiter, LimiterSettings};
use weir_core::decision::Cause;
use weir_core::failure::{Escalation, FailureMode, FailurePolicy};
use weir_core::name::Name;
use weir_core::span::Span;
use weir_testbed::{Redis, await_until, free_port};

use crate::support::*;

/// A limiter whose only shard is not there.
async fn lonely(settings: LimiterSettings) -> Arc<Limiter> {
    let url = format!("redis://127.0.0.1:{}", free_port().expect("a port"));
    limiter_with(settings, [url.as_str()]).await
}

fn question(rule: &str, limit: u64, on_failure: FailurePolicy) -> LimitQuery {
    LimitQuery { on_failure, ..query(key("user", rule), limit) }
}

async fn hundred(limiter: &Limiter, query: &LimitQuery) -> Vec<LimitAnswer> {
    let checks = (0..100).map(|_| async { in_time(limiter, query).await });
    futures::future::join_all(checks).await
}

fn allowed(answers: &[LimitAnswer]) -> usize {
    answers.iter().filter(|answer| answer.reply.allowed).count()
}

/// BB-12: local lets exactly the limit through, open everything, closed nothing; all of it marked.
#[tokio::test(flavor = "multi_thread")]
async fn fault_bb_12_each_mode_does_what_it_says() {
    let limiter = lonely(LimiterSettings::default()).await;
    for (mode, expected) in [(FailureMode::Local, 3), (FailureMode::Open, 100), (FailureMode::Closed, 0)] {
        let answers = hundred(&limiter, &question(mode.as_str(), 3, policy(mode))).await;
        assert_eq!(allowed(&answers), expected, "{mode:?}");
        for answer in answers {
            let degraded = answer.degraded.expect("marked");
            assert_eq!(degraded.mode, mode);
            assert!(matches!(degraded.cause, Cause::BreakerOpen | Cause::Error), "{degraded:?}");
            assert_eq!(answer.shard.as_ref().map(Name::as_str), Some("s0"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_no_shards_at_all() {
    let limiter = limiter_with(LimiterSettings::default(), []).await;
    let answers = hundred(&limiter, &question("r", 3, policy(FailureMode::Local))).await;
    assert_eq!(allowed(&answers), 3);
    assert!(answers.iter().all(|answer| answer.degraded.is_some_and(|d| d.cause == Cause::NoShards) && answer.shard.is_none()));
}

/// A limit that escalates does first what its mode says, after a while what it escalates to, and counts on its shard again once that is back.
#[tokio::test(flavor = "multi_thread")]
async fn fault_bb_12_a_policy_escalates_and_recovers() {
    let servers: Vec<Redis> = redises(1).await;
    let limiter = limiter_with(LimiterSettings::default(), [servers[0].url().as_str()]).await;
    let modes = [FailureMode::Local, FailureMode::Closed, FailureMode::Open];
    let questions: Vec<_> = (0..3)
        .map(|n| {
            let escalate = Some(Escalation { after: Span::from_millis(700), to: modes[(n + 1) % 3] });
            question(&format!("billing-{n}"), 1_000, FailurePolicy { mode: modes[n], escalate, ..FailurePolicy::default() })
        })
        .collect();
    let now = async || {
        let answers = futures::future::join_all(questions.iter().map(|question| in_time(&limiter, question))).await;
        answers.iter().map(|answer| answer.degraded.map(|degraded| (degraded.mode, answer.reply.allowed))).collect::<Vec<_>>()
    };
    let as_said =
        |first: usize| (0..3).map(|n| Some((modes[(first + n) % 3], modes[(first + n) % 3] != FailureMode::Closed))).collect::<Vec<_>>();
    assert_eq!(now().await, [None; 3]);
    servers[0].kill().await;
    assert!(await_until(RECOVERY, async || now().await == as_said(0)).await);
    assert!(await_until(RECOVERY, async || now().await == as_said(1)).await);
    servers[0].restart().await.expect("starts again");
    assert!(await_until(RECOVERY, async || now().await == [None; 3]).await);
}

/// BB-13: agents share the limit between them.
#[tokio::test(flavor = "multi_thread")]
async fn fault_bb_13_agents_share_the_limit() {
    let question = question("r", 30, policy(FailureMode::Local));
    let mut total = 0;
    for _ in 0..2 {
        let limiter = lonely(LimiterSettings { agents: 2, ..LimiterSettings::default() }).await;
        total += allowed(&hundred(&limiter, &question).await);
    }
    assert_eq!(total, 30);
    let limiter = lonely(LimiterSettings::default()).await;
    limiter.set_live_agents(3);
    assert_eq!(allowed(&hundred(&limiter, &question).await), 10);
}

/// What the shard had left when it was last heard is where the local count starts.
#[tokio::test(flavor = "multi_thread")]
async fn fault_bb_13_the_local_count_starts_from_what_was_left() {
    let servers = redises(1).await;
    let limiter = limiter(&servers).await;
    let mut question = question("r", 100, policy(FailureMode::Local));
    question.call.cost = 90;
    assert!(decide(&limiter, std::slice::from_ref(&question)).await[0].reply.allowed);
    servers[0].kill().await;
    question.call.cost = 1;
    let away = question_of(&question);
    assert!(await_until(RECOVERY, async || in_time(&limiter, &away).await.degraded.is_some()).await);
    let admitted = allowed(&hundred(&limiter, &question).await);
    assert!((10..=11).contains(&admitted), "{admitted}");
}

/// Another counter of the same shard, to see that it is away.
fn question_of(query: &LimitQuery) -> LimitQuery {
    LimitQuery { call: weir_core::counter::CounterCall { key: key("user", "other"), ..query.call.clone() }, ..query.clone() }
}

/// One limit is refused without its shard: the other shards get back what they counted.
#[tokio::test(flavor = "multi_thread")]
async fn fault_a_refusal_without_a_shard_refunds_the_others() {
    let servers = redises(2).await;
    let limiter = limiter(&servers).await;
    let (lost, counted) = (query(key_on(&limiter, "s0", "lost"), 10), query(key_on(&limiter, "s1", "counted"), 10));
    servers[0].kill().await;
    assert!(await_until(RECOVERY, async || in_time(&limiter, &lost).await.degraded.is_some()).await);
    let answers = decide(&limiter, &[lost, counted.clone()]).await;
    assert_eq!((answers[0].reply.allowed, answers[1].reply.allowed, answers[1].degraded), (false, true, None));
    let refunded = await_until(Duration::from_secs(5), async || remaining(&limiter, &counted).await == 10).await;
    assert!(refunded);
}
