//! Promise 2, when the refund of a refused request is lost: its units are stranded until they would have left anyway, never added, and the
//! refund is never sent again.

use std::time::{Duration, Instant};

use weir_agent::limiter::LimiterSettings;
use weir_testbed::{Mode, Proxy, await_until};

use crate::support::*;

/// How long a call may take.
const CALL: Duration = Duration::from_millis(800);
const LIMIT: u64 = 100;

/// `s0` refuses a request late, after `s1` has counted it; between the two the way to `s1` changes to `trouble`. Returns what is left on `s1`
/// of 100 units of which 5 were consumed before, 1 by the refused request, and 1 by another after the trouble is over.
async fn left_after(trouble: Mode) -> u64 {
    let servers = redises(2).await;
    let (late, broken) = (
        Proxy::start(servers[0].addr().expect("TCP")).await.expect("a port"),
        Proxy::start(servers[1].addr().expect("TCP")).await.expect("a port"),
    );
    let urls = [servers[0].url_through(late.addr()), servers[1].url_through(broken.addr())];
    let settings = LimiterSettings { call_timeout: CALL, ..patient() };
    let limiter = limiter_with(settings, urls.iter().map(String::as_str)).await;
    let witness = crate::support::limiter(&servers).await;

    let (narrow, wide) = (query(key_on(&limiter, "s0", "narrow"), 1), query(key_on(&limiter, "s1", "wide"), LIMIT));
    assert!(decide(&limiter, std::slice::from_ref(&narrow)).await[0].reply.allowed);
    let mut five = wide.clone();
    five.call.cost = 5;
    assert!(decide(&limiter, &[five]).await[0].reply.allowed);

    late.set_mode(Mode::Delay(CALL / 4)).await;
    let both = [narrow, wide.clone()];
    let refused = async {
        let answers = limiter.decide(&both, Instant::now() + LONG).await;
        let allowed = |answer: &Option<weir_agent::limiter::LimitAnswer>| {
            let answer = answer.as_ref().expect("both were asked");
            assert_eq!(answer.degraded, None);
            answer.reply.allowed
        };
        assert_eq!(answers.iter().map(allowed).collect::<Vec<_>>(), [false, true]);
    };
    let breaks = async {
        assert!(await_until(RECOVERY, async || remaining(&witness, &wide).await == LIMIT - 6).await);
        // The answer of `s1` has had time to arrive.
        tokio::time::sleep(CALL / 16).await;
        broken.set_mode(trouble).await;
    };
    futures::join!(refused, breaks);

    let count = |name: &str| metric(&limiter, &format!("weir_shard_{name}_total{{shard=\"s1\"}}"));
    assert!(await_until(RECOVERY, async || count("lost_refunds") == 1.0).await, "{trouble:?}: it was not noticed");
    broken.set_mode(Mode::Forward).await;
    let counted = async || {
        let answer = limiter.decide(std::slice::from_ref(&wide), Instant::now() + LONG).await.remove(0).expect("the only limit");
        answer.degraded.is_none()
    };
    assert!(await_until(RECOVERY, counted).await, "{:?}", limiter.shards());
    // What came back has gone nowhere else, and nothing is sent again with later calls.
    assert_eq!((count("lost_refunds"), count("refunds")), (1.0, 0.0), "{trouble:?}");
    remaining(&witness, &wide).await
}

/// It never got there: what the refused request took stays taken.
#[tokio::test(flavor = "multi_thread")]
async fn promise_2_a_lost_refund_strands_and_never_adds() {
    for trouble in [Mode::AcceptSilent, Mode::Refuse] {
        assert_eq!(left_after(trouble).await, LIMIT - 7, "{trouble:?}");
    }
}

/// It got there, and the answer was lost: it gives back once.
#[tokio::test(flavor = "multi_thread")]
async fn promise_2_a_refund_without_an_answer_is_not_sent_again() {
    assert_eq!(left_after(Mode::ResetMidReply).await, LIMIT - 6);
}
