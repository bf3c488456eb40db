//! All or nothing, shadow limits, repeats within a batch, refunds.

use weir_agent::limiter::store::Refund;
use weir_core::counter::CounterCall;
use weir_core::key::CounterKey;
use weir_core::limit::Bound;

use crate::calls::{MINUTE, SECOND, START, bucket, call, each, fixed, key, key_of, sliding};
use crate::clocked::Clocked;

const fn shadow(key: CounterKey, bound: Bound) -> CounterCall {
    CounterCall { shadow: true, ..CounterCall::check(key, bound, 1) }
}

#[tokio::test]
async fn a_refusing_limit_leaves_the_others_untouched() {
    for mut store in Clocked::everywhere().await {
        let wide = each(100, MINUTE);
        for (place, narrow) in each(2, MINUTE).into_iter().enumerate() {
            let subject = format!("user{place}");
            let mut calls: Vec<CounterCall> =
                wide.iter().map(|bound| call(key_of(&subject, bound.algorithm.as_str()), *bound, 1)).collect();
            // The refusing limit comes first, in the middle, and last.
            calls.insert(place, call(key_of(&subject, "narrow"), narrow, 1));
            for round in 0..4 {
                let replies = store.check_batch(0, &[&calls]).await.remove(0);
                let left: Vec<u64> = replies.iter().map(|reply| reply.remaining).collect();
                let expected = 100 - u64::min(round + 1, 2);
                let mut expected = vec![expected; 4];
                expected.insert(place, 1u64.saturating_sub(round));
                assert_eq!(left, expected, "{} round {round}", store.name());
                let passed: Vec<bool> = replies.iter().map(|reply| reply.allowed).collect();
                assert!(passed.iter().enumerate().all(|(k, passed)| *passed == (k != place || round < 2)));
            }
        }
    }
}

#[tokio::test]
async fn a_shadow_limit_never_refuses_and_is_written_only_with_the_request() {
    for mut store in Clocked::everywhere().await {
        let (enforced, shadowed) = (call(key_of("a", "enforced"), fixed(3, MINUTE), 1), shadow(key_of("a", "shadow"), sliding(2, MINUTE)));
        let mut seen = Vec::new();
        for _ in 0..5 {
            let replies = store.check_batch(0, &[&[shadowed.clone(), enforced.clone()]]).await.remove(0);
            seen.push(((replies[0].allowed, replies[0].remaining), (replies[1].allowed, replies[1].remaining)));
        }
        let expected =
            [((true, 1), (true, 2)), ((true, 0), (true, 1)), ((false, 0), (true, 0)), ((false, 0), (false, 0)), ((false, 0), (false, 0))];
        assert_eq!(seen, expected, "{}", store.name());
        // A shadow limit that would pass is not charged for a refused request.
        let other = shadow(key_of("a", "other"), bucket(9, 9, MINUTE));
        let replies = store.check_batch(0, &[&[other, enforced]]).await.remove(0);
        assert_eq!((replies[0].allowed, replies[0].remaining), (true, 9), "{}", store.name());
    }
}

#[tokio::test]
async fn each_request_of_a_batch_sees_what_the_one_before_wrote() {
    for mut store in Clocked::everywhere().await {
        // The same key under three algorithms in one batch: converted each time, so the units stay.
        let [bucket, sliding, log, fixed] = each(9, MINUTE).map(|bound| [call(key("a"), bound, 1)]);
        let batch: [&[CounterCall]; 10] = [&bucket, &sliding, &fixed, &sliding, &log, &bucket, &log, &fixed, &log, &bucket];
        let left: Vec<u64> = store.check_batch(0, &batch).await.iter().map(|replies| replies[0].remaining).collect();
        assert_eq!(left, [8, 7, 6, 5, 4, 3, 2, 1, 0, 0], "{}", store.name());
    }
}

#[tokio::test]
async fn an_empty_request_is_answered_with_nothing() {
    for mut store in Clocked::everywhere().await {
        let one = [call(key("a"), bucket(1, 1, MINUTE), 1)];
        let replies = store.check_batch(0, &[&[], &one, &[]]).await;
        assert_eq!(replies.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 0], "{}", store.name());
        assert!(replies[1][0].allowed);
    }
}

#[tokio::test]
async fn what_one_shard_took_comes_back_when_another_refuses() {
    for mut store in Clocked::everywhere().await {
        for bound in each(5, MINUTE) {
            let taken = call(key_of("a", bound.algorithm.as_str()), bound, 2);
            let reply = store.check(0, &taken).await;
            assert_eq!(reply.remaining, 3);
            assert_eq!(store.refund(1_000, &[Refund::of(&taken, &reply)]).await, [2], "{} {:?}", store.name(), bound.algorithm);
            let full = store.check(1_000, call(taken.key, bound, 0)).await;
            assert_eq!((full.remaining, full.reset_after_us), (5, 0), "{} {:?}", store.name(), bound.algorithm);
            // Sent twice by mistake, it finds nothing to give.
            assert_eq!(store.refund(1_000, &[Refund::of(&taken, &reply)]).await, [0], "{} {:?}", store.name(), bound.algorithm);
        }
    }
}

#[tokio::test]
async fn a_refund_creates_no_key_and_drops_out_of_a_window_that_is_over() {
    for mut store in Clocked::everywhere().await {
        let bound = fixed(5, MINUTE);
        let taken = call(key("a"), bound, 2);
        let refund = Refund { key: taken.key, bound, units: 2, time_us: START, lease: None };
        assert_eq!(store.refund(0, std::slice::from_ref(&refund)).await, [0], "{}", store.name());
        assert_eq!(store.check(0, call(taken.key, bound, 0)).await.remaining, 5);

        let reply = store.check(59 * SECOND, &taken).await;
        assert!(store.check(61 * SECOND, &taken).await.allowed);
        assert_eq!(store.refund(61 * SECOND, &[Refund::of(&taken, &reply)]).await, [0], "{}", store.name());
        assert_eq!(store.check(61 * SECOND, call(taken.key, bound, 0)).await.remaining, 3, "{}", store.name());
    }
}

#[tokio::test]
async fn a_sliding_window_gives_back_from_the_newest_slot() {
    for mut store in Clocked::everywhere().await {
        let bound = sliding(10, MINUTE);
        for (us, cost) in [(0, 3), (10 * SECOND, 2), (20 * SECOND, 1)] {
            assert!(store.check(us, call(key("a"), bound, cost)).await.allowed);
        }
        let refund = Refund { key: key("a"), bound, units: 2, time_us: START, lease: None };
        assert_eq!(store.refund(20 * SECOND, &[refund]).await, [2], "{}", store.name());
        // Left: 3 of the first second and 1 of the tenth. Once the first has left, 1 is used.
        let reply = store.check(20 * SECOND, call(key("a"), bound, 9)).await;
        assert_eq!((reply.remaining, reply.retry_after_us), (6, Some(41 * SECOND)), "{}", store.name());
        assert_eq!(store.check(61 * SECOND, call(key("a"), bound, 9)).await.remaining, 0, "{}", store.name());
    }
}
