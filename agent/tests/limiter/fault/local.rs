//! The local count under load, while its shard is in trouble.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use weir_agent::limiter::{LimitQuery, LimiterSettings};
use weir_core::counter::CounterCall;
use weir_core::failure::FailureMode;
use weir_core::limit::Algorithm;
use weir_testbed::Mode;

use super::bed::Bed;
use crate::support::*;

/// 500 checks a second of a limit of 60 a second that two agents share: answers are in time, and 30 a second pass after the first 30.
#[tokio::test(flavor = "multi_thread")]
async fn fault_bb_13_the_share_holds_under_load() {
    const SHARE: f64 = 30.0;
    const RUN: Duration = Duration::from_millis(1_500);
    let settings = LimiterSettings { agents: 2, ..LimiterSettings::default() };
    let bed = Bed::with(settings, |server, proxy| server.url_through(proxy.addr())).await;
    for mode in [Mode::Blackhole, Mode::AcceptSilent, Mode::Refuse, Mode::ResetMidReply] {
        let bound = bound(Algorithm::TokenBucket, 60, Duration::from_secs(1));
        let call = CounterCall::check(key_on(&bed.limiter, "s0", &format!("{mode:?}")), bound, 1);
        let question = LimitQuery { call, on_failure: policy(FailureMode::Local), overflow: None };
        bed.proxy.set_mode(mode).await;
        if mode == Mode::AcceptSilent {
            bed.proxy.cut().await;
        }
        let mut checks = JoinSet::new();
        let mut pace = tokio::time::interval(Duration::from_millis(2));
        let start = Instant::now();
        while start.elapsed() < RUN {
            pace.tick().await;
            let (limiter, question) = (bed.limiter.clone(), question.clone());
            checks.spawn(async move { timed(&limiter, &question).await });
        }
        let answers = checks.join_all().await;
        let length = start.elapsed().as_secs_f64();
        assert!(answers.iter().all(|(answer, _)| answer.degraded.is_some_and(|degraded| degraded.mode == FailureMode::Local)), "{mode:?}");
        let mut took: Vec<Duration> = answers.iter().map(|(_, took)| *took).collect();
        took.sort_unstable();
        assert!(took[took.len() * 99 / 100] <= BUDGET + MARGIN, "{mode:?}: {took:?}");
        let passed = answers.iter().filter(|(answer, _)| answer.reply.allowed).count() as f64;
        assert!((SHARE * length..=SHARE * (1.0 + length) + 1.0).contains(&passed), "{mode:?}: {passed} in {length} s");
        bed.proxy.set_mode(Mode::Forward).await;
        bed.recovers().await;
    }
}
