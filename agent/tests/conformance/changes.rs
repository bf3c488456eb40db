//! Limits, windows and algorithms that change under live counters.

use weir_core::limit::Bound;

use crate::calls::{HOUR, MINUTE, SECOND, allowed, bucket, call, each, fixed, key, key_of, sliding};
use crate::clocked::Clocked;

async fn consume(store: &mut Clocked, us: u64, subject: &str, bound: Bound, count: usize) -> usize {
    let one = [call(key(subject), bound, 1)];
    let replies = store.check_batch(us, &vec![one.as_slice(); count]).await;
    replies.iter().filter(|replies| allowed(replies) == 1).count()
}

#[tokio::test]
async fn a_raised_limit_keeps_what_was_consumed() {
    for mut store in Clocked::each().await {
        for (place, (free, paid)) in each(100, MINUTE).into_iter().zip(each(1_000, MINUTE)).enumerate() {
            let subject = format!("user{place}");
            assert_eq!(consume(&mut store, 0, &subject, free, 150).await, 100, "{}", store.name());
            let reply = store.check(0, call(key(&subject), paid, 0)).await;
            assert_eq!((reply.allowed, reply.remaining), (true, 900), "{} {:?}", store.name(), paid.algorithm);
        }
    }
}

#[tokio::test]
async fn bb_32_a_lowered_limit_refuses_until_enough_has_gone() {
    for mut store in Clocked::each().await {
        for (place, (high, low)) in each(100, MINUTE).into_iter().zip(each(2, MINUTE)).enumerate() {
            let subject = format!("user{place}");
            assert_eq!(consume(&mut store, 0, &subject, high, 50).await, 50);
            let reply = store.check(0, call(key(&subject), low, 1)).await;
            assert_eq!((reply.allowed, reply.remaining), (false, 0), "{} {:?}", store.name(), low.algorithm);
            let wait = reply.retry_after_us.expect("the cost is below the limit");
            assert!(!store.check(wait - 33, call(key(&subject), low, 1)).await.allowed, "{} {:?}", store.name(), low.algorithm);
            assert!(store.check(wait, call(key(&subject), low, 1)).await.allowed, "{} {:?}", store.name(), low.algorithm);
        }
    }
}

/// 50 units drain in 25 minutes at 2 per minute, but the key was written under 100 per minute and expires after 30 s and a second.
#[tokio::test]
async fn a_bucket_above_its_capacity_waits_for_its_key_to_expire_at_the_latest() {
    for mut store in Clocked::each().await {
        assert_eq!(consume(&mut store, 0, "a", bucket(100, 100, MINUTE), 50).await, 50);
        let wait = store.check(0, call(key("a"), bucket(2, 2, MINUTE), 1)).await.retry_after_us;
        assert_eq!(wait, Some(31 * SECOND + 1_000), "{}", store.name());
    }
}

#[tokio::test]
async fn bb_32_refused_tries_are_not_held_against_a_raised_limit() {
    for mut store in Clocked::each().await {
        for (place, (low, high)) in each(10, HOUR).into_iter().zip(each(20, HOUR)).enumerate() {
            let subject = format!("user{place}");
            assert_eq!(consume(&mut store, 0, &subject, low, 50).await, 10);
            assert_eq!(consume(&mut store, 0, &subject, high, 15).await, 10, "{} {:?}", store.name(), high.algorithm);
        }
    }
}

/// Two limits that alternate on one counter: neither cuts what the other counted.
#[tokio::test]
async fn alternating_limits_share_one_count() {
    for mut store in Clocked::each().await {
        let (small, large) = (call(key("a"), bucket(10, 10, HOUR), 1), call(key("a"), bucket(100, 100, HOUR), 20));
        assert_eq!(store.check(0, &large).await.remaining, 80, "{}", store.name());
        assert!(!store.check(0, &small).await.allowed);
        assert_eq!(store.check(0, &large).await.remaining, 60, "{}", store.name());
        assert!(!store.check(0, &small).await.allowed);
    }
}

#[tokio::test]
async fn bb_32_a_changed_window_sorts_the_units_anew() {
    for mut store in Clocked::each().await {
        // 5 units a long time ago, 3 just now: a shorter window has forgotten the first.
        assert_eq!(consume(&mut store, 0, "a", sliding(10, HOUR), 5).await, 5);
        assert_eq!(consume(&mut store, 30 * MINUTE, "a", sliding(10, HOUR), 3).await, 3);
        let reply = store.check(30 * MINUTE, call(key("a"), sliding(10, MINUTE), 8)).await;
        assert_eq!((reply.allowed, reply.remaining), (false, 7), "{}", store.name());
        assert_eq!(reply.retry_after_us, Some(61 * SECOND), "{}", store.name());
        // The refused check has rewritten it: the slots of the new window apply, also after a change back.
        let reply = store.check(30 * MINUTE + 30 * SECOND, call(key("a"), sliding(10, HOUR), 1)).await;
        assert_eq!((reply.remaining, reply.reset_after_us), (6, 61 * MINUTE - 30 * SECOND), "{}", store.name());

        // A longer fixed window holds all that the shorter one had counted when it began.
        assert_eq!(consume(&mut store, 2 * HOUR + 90 * SECOND, "b", fixed(5, MINUTE), 9).await, 5);
        let reply = store.check(2 * HOUR + 90 * SECOND, call(key("b"), fixed(5, HOUR), 1)).await;
        assert_eq!((reply.allowed, reply.retry_after_us), (false, Some(HOUR - 90 * SECOND)), "{}", store.name());
        assert_eq!(consume(&mut store, 3 * HOUR, "b", fixed(5, HOUR), 9).await, 5, "{}", store.name());
    }
}

#[tokio::test]
async fn bb_32_a_changed_algorithm_starts_with_the_units_stored() {
    for mut store in Clocked::each().await {
        for before in each(10, MINUTE) {
            for after in each(10, MINUTE) {
                let counter = key_of(before.algorithm.as_str(), after.algorithm.as_str());
                assert!(store.check(0, call(counter, before, 7)).await.allowed);
                let pair = format!("{}: {:?} to {:?}", store.name(), before.algorithm, after.algorithm);
                // A refusal converts, a peek does not; either way nothing is gained or lost.
                assert_eq!(store.check(SECOND / 2, call(counter, after, 0)).await.remaining, 3, "{pair}");
                let reply = store.check(SECOND / 2, call(counter, after, 4)).await;
                assert_eq!((reply.allowed, reply.remaining, reply.replaced), (false, 3, false), "{pair}");
                let wait = reply.retry_after_us.expect("the cost is below the limit");
                assert!(store.check(SECOND / 2 + wait, call(counter, after, 4)).await.allowed, "{pair}");
            }
        }
    }
}
