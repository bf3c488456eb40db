//! Promise 4: a check answers within its budget, whatever its shard does.

use std::time::{Duration, Instant};

use weir_agent::limiter::{LimitQuery, Limiter, LimiterSettings};
use weir_testbed::{Flavor, Mode, Proxy, Sentineled};

use crate::support::*;

/// The default budget.
const DEFAULT: Duration = Duration::from_millis(5);
/// Checks in each trouble, one after the other.
const CHECKS: usize = 150;

/// Asks under the default budget, and asserts that answers come within it: half of them on a busy machine, the others with its pauses.
async fn assert_within_the_budget(limiter: &Limiter, question: &LimitQuery, what: &str) {
    let mut took = Vec::with_capacity(CHECKS);
    for _ in 0..CHECKS {
        let start = Instant::now();
        let answers = limiter.decide(std::slice::from_ref(question), start + DEFAULT).await;
        took.push(start.elapsed());
        assert!(answers[0].is_some());
    }
    took.sort_unstable();
    let (median, p99) = (took[CHECKS / 2], took[CHECKS * 99 / 100]);
    assert!(median <= DEFAULT && p99 <= DEFAULT + MARGIN, "{what}: {median:?}, {p99:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_4_never_slower_than_the_deadline() {
    let server = redis().await;
    let proxy = Proxy::start(server.addr().expect("TCP")).await.expect("a port");
    let limiter = limiter_with(LimiterSettings::default(), [server.url_through(proxy.addr()).as_str()]).await;
    let question = query(key("user", "r"), 1_000_000);
    assert_within_the_budget(&limiter, &question, "all is well").await;
    for mode in [
        Mode::Refuse,
        Mode::Blackhole,
        Mode::AcceptSilent,
        Mode::Delay(DEFAULT * 4),
        Mode::Jitter(DEFAULT * 2),
        Mode::ResetMidReply,
        Mode::Forward,
    ] {
        proxy.set_mode(mode).await;
        assert_within_the_budget(&limiter, &question, &format!("{mode:?}")).await;
    }
    proxy.cut().await;
    assert_within_the_budget(&limiter, &question, "cut connections").await;
    for _ in 0..3 {
        server.ask(&["SCRIPT", "FLUSH"]).await.expect("flushes");
        assert_within_the_budget(&limiter, &question, "a lost script").await;
    }
    server.pause().await;
    assert_within_the_budget(&limiter, &question, "a stalled process").await;
    server.resume().await;
    server.kill().await;
    assert_within_the_budget(&limiter, &question, "a killed process").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_4_holds_while_a_primary_fails_over() {
    let watched = Sentineled::start(Flavor::available().expect("a server"), 1, None).await.expect("starts");
    let address = format!("redis+sentinel://{}/{}", watched.addrs().expect("TCP"), watched.name());
    let limiter = limiter_with(LimiterSettings::default(), [address.as_str()]).await;
    let question = query(key("user", "r"), 1_000_000);
    let over = async {
        watched.fail_over().await.expect("fails over");
    };
    let asked = async {
        loop {
            assert_within_the_budget(&limiter, &question, "a failover").await;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = over => {}
        () = asked => {}
    }
    assert_within_the_budget(&limiter, &question, "after a failover").await;
}
