//! BB-54 through the limiter: garbage beside healthy counters costs nobody an answer.

use weir_agent::limiter::LimitQuery;
use weir_core::counter::CounterCall;
use weir_core::failure::FailureMode;
use weir_core::limit::Algorithm;

use crate::support::*;

fn of(subject: &str, algorithm: Algorithm) -> LimitQuery {
    let call = CounterCall::check(key(subject, algorithm.as_str()), bound(algorithm, 10, MINUTE * 600), 1);
    LimitQuery { call, on_failure: policy(FailureMode::Closed), overflow: None }
}

/// Requests of one call, some of them with a limit whose key holds something else: all are decided by the shard, to the unit.
#[tokio::test(flavor = "multi_thread")]
async fn exact_bb_54_garbage_beside_healthy_counters_in_one_request() {
    const SUBJECTS: usize = 40;
    let servers = redises(1).await;
    let limiter = limiter(&servers).await;
    for algorithm in Algorithm::ALL {
        let subject = |n: usize| format!("{}-{n}", algorithm.as_str());
        let healthy = |n: usize| leased(&of(&format!("healthy-{}", subject(n)), algorithm));
        for n in 0..SUBJECTS {
            assert_eq!(decide(&limiter, &[healthy(n)]).await[0].reply.remaining, 9);
            command(&servers[0], &["SADD", of(&subject(n), algorithm).call.key.as_str(), "garbage"]).await;
        }
        let replaced = || metric(&limiter, "weir_shard_replaced_states_total{shard=\"s0\"}");
        let before = replaced();
        let requests: Vec<[LimitQuery; 3]> = (0..SUBJECTS)
            .map(|n| [healthy(n), leased(&of(&subject(n), algorithm)), leased(&of(&format!("new-{}", subject(n)), algorithm))])
            .collect();
        let calls = metric(&limiter, "weir_shard_calls_total{shard=\"s0\"}");
        let answers = futures::future::join_all(requests.iter().map(|queries| decide(&limiter, queries))).await;
        for answers in answers {
            let said: Vec<_> = answers.iter().map(|answer| (answer.degraded, answer.reply.allowed, answer.reply.remaining)).collect();
            assert_eq!(said, [(None, true, 8), (None, true, 9), (None, true, 9)], "{algorithm:?}");
        }
        assert_eq!(replaced() - before, SUBJECTS as f64, "{algorithm:?}");
        assert!(metric(&limiter, "weir_shard_calls_total{shard=\"s0\"}") - calls < SUBJECTS as f64, "they share calls");
    }
    assert_eq!(metric(&limiter, "weir_shard_errors_total{shard=\"s0\",cause=\"error\"}"), 0.0);
}
