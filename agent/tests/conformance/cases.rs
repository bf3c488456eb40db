//! Fault cases from the field that are about counting, on every store whose clock can be set.

use weir_agent::limiter::memory::MemoryStore;
use weir_core::counter::CounterReply;
use weir_core::limit::{Algorithm, Bound, MAX_UNITS};

use crate::calls::{DAY, HOUR, MINUTE, SECOND, allowed, bucket, call, each, each_large, fixed, key, key_of, log, sliding};
use crate::clocked::{Clocked, ManualClock, State};

const MILLISECOND: u64 = 1_000;

async fn times(store: &mut Clocked, us: u64, subject: &str, bound: Bound, count: usize) -> Vec<CounterReply> {
    let one = [call(key(subject), bound, 1)];
    let batch = vec![one.as_slice(); count];
    store.check_batch(us, &batch).await.into_iter().flatten().collect()
}

#[tokio::test]
async fn bb_02_refill_is_not_lost() {
    for mut store in Clocked::each().await {
        let mut left = Vec::new();
        for second in 0..=10 {
            let reply = store.check(second * SECOND, call(key("a"), bucket(10, 10, 30 * SECOND), 1)).await;
            assert!(reply.allowed, "{} at {second}", store.name());
            left.push(reply.remaining);
        }
        // One third of a unit comes back per second; where a whole one is due, rounding against the client may withhold it.
        let exact = [9, 8, 7, 7, 6, 5, 5, 4, 3, 3, 2];
        let fair = left.iter().zip(exact).enumerate().all(|(k, (left, exact))| *left == exact || (k % 3 == 0 && *left + 1 == exact));
        assert!(fair, "{}: {left:?}", store.name());
    }
}

#[tokio::test]
async fn bb_02_a_period_does_not_end_with_a_whole_refill() {
    for mut store in Clocked::each().await {
        let mut replies = Vec::new();
        for hit in 0..100 {
            replies.push(store.check(hit * 100 * MILLISECOND, call(key("a"), bucket(3, 3, SECOND), 1)).await);
        }
        let passed = allowed(&replies);
        assert!((31..=32).contains(&passed), "{}: {passed}", store.name());
        let jump = replies.windows(2).any(|pair| pair[0].remaining == 0 && pair[1].remaining >= 2);
        assert!(!jump, "{}", store.name());
    }
}

/// Refusals neither keep a client out nor are kept: what a server holds is bounded by the limit, each second of a minute at twice the pace.
#[tokio::test]
async fn bb_04_refusals_do_not_extend_the_lock_out() {
    for mut store in Clocked::each().await {
        for bound in each(10, 10 * SECOND) {
            let counter = key_of("a", bound.algorithm.as_str());
            let (mut passed, mut last) = (0, 0);
            for half in 0..120 {
                let now = half * SECOND / 2;
                if let Some(State { size, ttl_ms }) = store.state(now, &counter).await {
                    let most = if bound.algorithm == Algorithm::SlidingWindow { 62 } else { 20 };
                    assert!(size <= most, "{} {:?}: {size}", store.name(), bound.algorithm);
                    assert!((1..=12_000).contains(&ttl_ms), "{} {:?}: {ttl_ms} ms", store.name(), bound.algorithm);
                }
                if store.check(now, call(counter, bound, 1)).await.allowed {
                    passed += 1;
                    last = now;
                }
                assert!(now - last < 10 * SECOND, "{} {:?}: nothing since {last}", store.name(), bound.algorithm);
            }
            // A full bucket lets its capacity through once more.
            let most = if bound.algorithm == Algorithm::TokenBucket { 70 } else { 65 };
            assert!((55..=most).contains(&passed), "{} {:?}: {passed}", store.name(), bound.algorithm);
        }
    }
}

#[tokio::test]
async fn bb_07_a_clock_that_steps_back_takes_nothing_away() {
    for mut store in Clocked::each().await.into_iter().filter(Clocked::can_step_back) {
        let bound = bucket(60, 10, MINUTE);
        let start = 10 * HOUR;
        assert_eq!(allowed(&times(&mut store, start, "a", bound, 3).await), 3);
        let reply = store.check(start - 11 * SECOND, call(key("a"), bound, 1)).await;
        assert_eq!((reply.allowed, reply.remaining), (true, 6), "{}", store.name());
        // Far back: stored time is later than now + window, so it is garbage, and no wait grows with the step.
        assert_eq!(allowed(&times(&mut store, start, "a", bound, 20).await), 6);
        let reply = store.check(start - 300 * SECOND, call(key("a"), bound, 1)).await;
        assert!(reply.allowed && reply.replaced, "{}", store.name());
        // Far ahead: a full bucket, never more.
        assert_eq!(allowed(&times(&mut store, start + HOUR, "a", bound, 30).await), 10);
    }
}

#[tokio::test]
async fn bb_07_windows_do_not_go_back() {
    for mut store in Clocked::each().await.into_iter().filter(Clocked::can_step_back) {
        for bound in [sliding(10, MINUTE), log(10, MINUTE), fixed(10, MINUTE)] {
            let (name, key) = (store.name(), key_of("a", bound.algorithm.as_str()));
            for (us, expected) in [(10 * HOUR, true), (10 * HOUR - 11 * SECOND, true), (10 * HOUR, false), (10 * HOUR - 11 * SECOND, false)]
            {
                let reply = store.check(us, call(key, bound, 5)).await;
                assert_eq!(reply.allowed, expected, "{name} {:?} at {us}", bound.algorithm);
                let wait = reply.retry_after_us.expect("the cost is below the limit");
                assert!(wait <= MINUTE + 12 * SECOND + SECOND, "{name}: {wait}");
            }
        }
    }
}

/// Five minutes back: what was stored lies further ahead than any window reaches, so it is garbage; no wait grows with the step.
#[tokio::test]
async fn bb_07_a_window_far_ahead_is_garbage() {
    for mut store in Clocked::each().await.into_iter().filter(Clocked::can_step_back) {
        for bound in [sliding(10, MINUTE), log(10, MINUTE), fixed(10, MINUTE)] {
            let (name, counter, back) = (store.name(), key_of("a", bound.algorithm.as_str()), 10 * HOUR - 300 * SECOND);
            for _ in 0..12 {
                store.check(10 * HOUR, call(counter, bound, 1)).await;
            }
            let replies = [store.check(back, call(counter, bound, 1)).await, store.check(back, call(counter, bound, 9)).await];
            assert_eq!(replies.map(|reply| (reply.allowed, reply.replaced)), [(true, true), (true, false)], "{name} {:?}", bound.algorithm);
            let refused = store.check(back, call(counter, bound, 1)).await;
            // The window, and for a sliding one at most one of its 60 slots more.
            let most = if bound.algorithm == Algorithm::SlidingWindow { MINUTE + SECOND } else { MINUTE };
            let wait = refused.retry_after_us.expect("the cost is below the limit");
            assert!(!refused.allowed && wait > 0 && wait <= most, "{name} {:?}: {wait}", bound.algorithm);
        }
    }
}

/// The wall clock of a machine is set while its monotonic one runs on: a store in memory looks at the first only once.
#[test]
fn bb_07_memory_does_not_follow_the_wall_clock() {
    let clock = ManualClock::new();
    let store = MemoryStore::new(100, clock.clone());
    let check = |bound: Bound| store.check_now(&[&[call(key_of("a", bound.algorithm.as_str()), bound, 1)]])[0][0];
    for bound in each(10, MINUTE) {
        for left in [9, 8, 7] {
            assert_eq!(check(bound).remaining, left);
        }
        clock.set_wall_back(11);
        let reply = check(bound);
        assert_eq!((reply.allowed, reply.remaining), (true, 6), "{:?}", bound.algorithm);
        while check(bound).allowed {}
        clock.set_wall_back(300);
        let wait = check(bound).retry_after_us.expect("the cost is below the limit");
        assert!(wait > 0 && wait <= MINUTE + SECOND, "{:?}: {wait}", bound.algorithm);
        clock.set_wall_back(-3_600);
        assert!((0..30).all(|_| !check(bound).allowed), "{:?}: only the wall clock has moved", bound.algorithm);
        clock.set_wall_back(0);
    }
    clock.set(HOUR);
    for bound in each(10, MINUTE) {
        assert_eq!((0..30).filter(|_| check(bound).allowed).count(), 10, "{:?}", bound.algorithm);
    }
}

#[tokio::test]
async fn bb_10_count_and_window_change_together() {
    for mut store in Clocked::each().await {
        let bound = fixed(1_000, SECOND);
        let mut previous: Option<(u64, CounterReply)> = None;
        for hit in 0..1_500 {
            let now = hit * 2 * MILLISECOND;
            let reply = store.check(now, call(key("a"), bound, 1)).await;
            assert!(reply.allowed, "{} at {now}", store.name());
            let end = now + reply.reset_after_us;
            if let Some((previous_end, last)) = previous {
                let expected = if end == previous_end { last.remaining - 1 } else { 999 };
                assert_eq!(reply.remaining, expected, "{} at {now}", store.name());
            }
            previous = Some((end, reply));
        }
    }
}

#[tokio::test]
async fn bb_21_two_rules_of_one_user_count_apart() {
    for mut store in Clocked::each().await {
        let (monthly, hourly) = (fixed(10, 30 * DAY), bucket(5, 5, HOUR));
        for _ in 0..5 {
            assert!(store.check(0, call(key_of("a", "hourly"), hourly, 1)).await.allowed);
        }
        let reply = store.check(0, call(key_of("a", "monthly"), monthly, 1)).await;
        assert_eq!((reply.allowed, reply.remaining), (true, 9), "{}", store.name());
        assert!(!store.check(0, call(key_of("a", "hourly"), hourly, 1)).await.allowed);
        // One request under both: what the minute refuses is not charged to the day.
        let both = [call(key_of("b", "minute"), sliding(3, MINUTE), 1), call(key_of("b", "day"), sliding(30, DAY), 1)];
        let mut left = Vec::new();
        for _ in 0..5 {
            let replies = store.check_batch(0, &[&both]).await.remove(0);
            left.push((replies[0].allowed, replies[0].remaining, replies[1].remaining));
        }
        let expected = [(true, 2, 29), (true, 1, 28), (true, 0, 27), (false, 0, 27), (false, 0, 27)];
        assert_eq!(left, expected, "{}", store.name());
    }
}

#[tokio::test]
async fn bb_25_the_wait_is_what_is_left_of_it() {
    for mut store in Clocked::each().await {
        let name = store.name();
        assert_eq!(allowed(&times(&mut store, 0, "a", fixed(2, 20 * SECOND), 2).await), 2);
        let reply = store.check(19 * SECOND, call(key("a"), fixed(2, 20 * SECOND), 1)).await;
        assert_eq!((reply.allowed, reply.retry_after_us), (false, Some(SECOND)), "{name}");

        assert!(store.check(20 * SECOND, call(key("b"), bucket(1, 1, SECOND), 1)).await.allowed);
        let reply = store.check(20 * SECOND + 200 * MILLISECOND, call(key("b"), bucket(1, 1, SECOND), 1)).await;
        assert_eq!((reply.allowed, reply.retry_after_us), (false, Some(800 * MILLISECOND)), "{name}");

        for bound in each(3, MINUTE) {
            let key = key_of("c", bound.algorithm.as_str());
            let reply = store.check(20 * SECOND + 1, call(key, bound, 4)).await;
            assert_eq!((reply.allowed, reply.remaining, reply.retry_after_us), (false, 3, None), "{name}");
            let reply = store.check(20 * SECOND + 1, call(key, bound, 1)).await;
            assert_eq!((reply.allowed, reply.remaining), (true, 2), "{name}");
            let reply = store.check(20 * SECOND + 1, call(key, bound, 4)).await;
            assert_eq!((reply.allowed, reply.remaining, reply.retry_after_us), (false, 2, None), "{name}");
        }
    }
}

#[tokio::test]
async fn bb_46_no_pair_switches_the_limiter_off() {
    for mut store in Clocked::each().await {
        for rate in [1, 2, 3, 7] {
            for capacity in [1, 2, 5] {
                let key = key_of("a", &format!("{rate}-{capacity}"));
                let mut passed = 0;
                for hit in 0..20 {
                    let reply = store.check(hit * 5 * MILLISECOND, call(key, bucket(rate, capacity, SECOND), 1)).await;
                    passed += u64::from(reply.allowed);
                }
                assert!(passed * 10 <= capacity * 10 + rate, "{}: {passed} of {rate}/s, {capacity}", store.name());
                assert!(passed >= capacity);
            }
        }
        for bound in each(0, SECOND) {
            let key = key_of("b", bound.algorithm.as_str());
            for hit in 0..20 {
                let reply = store.check(hit * SECOND, call(key, bound, 1)).await;
                assert_eq!((reply.allowed, reply.remaining, reply.retry_after_us), (false, 0, None));
            }
        }
    }
}

#[tokio::test]
async fn bb_51_long_idle_time_is_a_full_bucket() {
    for mut store in Clocked::each().await {
        let bound = bucket(1_000_000, 1_000_000, HOUR);
        for us in [0, 12 * HOUR, 12 * HOUR + 400 * DAY] {
            let reply = store.check(us, call(key("a"), bound, 1)).await;
            assert_eq!((reply.allowed, reply.remaining), (true, 999_999), "{}", store.name());
        }
        let (rare, start) = (bucket(1, 10, 30 * DAY), 500 * DAY);
        for (us, left) in [(start, 9), (start + 29 * DAY, 8), (start + 60 * DAY + HOUR, 9), (start + 91 * DAY + HOUR, 9)] {
            let reply = store.check(us, call(key("b"), rare, 1)).await;
            assert_eq!((reply.allowed, reply.remaining), (true, left), "{} at {us}", store.name());
        }
    }
}

#[tokio::test]
async fn bb_52_more_than_a_thousand_per_second() {
    for mut store in Clocked::each().await {
        let name = store.name();
        for (subject, bound, count, expected) in [
            ("a", bucket(1_000, 1_000, MINUTE), 1_200, 1_000),
            ("b", bucket(2_000, 20, SECOND), 100, 20),
            ("c", sliding(1_500, SECOND), 1_600, 1_500),
        ] {
            let mut passed = 0;
            for _ in 0..count / 100 {
                passed += allowed(&times(&mut store, 0, subject, bound, 100).await);
            }
            assert_eq!(passed, expected, "{name} {subject}");
        }
        for limit in [1_001, 2_000, 999_999, 1_000_001, u64::from(u32::MAX)] {
            for algorithm in [Algorithm::TokenBucket, Algorithm::SlidingWindow, Algorithm::SlidingLog, Algorithm::FixedWindow] {
                if limit > algorithm.max_limit() {
                    continue;
                }
                // Four times the limit, in twentieths of it, over five seconds; the bucket starts full.
                let bound = Bound { algorithm, limit, capacity: limit, window_us: SECOND, calendar: None };
                let (key, cost) = (key_of("d", &format!("{limit}-{}", algorithm.as_str())), limit / 20);
                let mut passed = 0;
                for step in 0..400 {
                    passed += u64::from(store.check(step * 12_500, call(key, bound, cost)).await.allowed) * cost;
                }
                let (most, percent) = if algorithm == Algorithm::TokenBucket { (6 * limit, 99) } else { (5 * limit, 97) };
                assert!(passed <= most && passed >= most * percent / 100, "{name} {algorithm:?} {limit}: {passed}");
            }
        }
    }
}

#[tokio::test]
async fn the_largest_limits_count_exactly() {
    for mut store in Clocked::each().await {
        for bound in each_large(MAX_UNITS, 366 * DAY) {
            let key = key_of("a", bound.algorithm.as_str());
            let reply = store.check(0, call(key, bound, MAX_UNITS - 1)).await;
            assert_eq!((reply.allowed, reply.remaining), (true, 1), "{} {:?}", store.name(), bound.algorithm);
            let reply = store.check(0, call(key, bound, 2)).await;
            assert!(!reply.allowed && reply.retry_after_us.is_some(), "{} {:?}", store.name(), bound.algorithm);
            let reply = store.check(0, call(key, bound, 1)).await;
            assert_eq!((reply.allowed, reply.remaining), (true, 0), "{} {:?}", store.name(), bound.algorithm);
            assert!(!store.check(0, call(key, bound, 1)).await.allowed);
        }
    }
}

#[tokio::test]
async fn a_hundred_requests_at_one_clock_reading_at_a_sliding_window_of_10_admit_10() {
    for mut store in Clocked::each().await {
        for bound in each(10, MINUTE) {
            let one = [call(key_of("a", bound.algorithm.as_str()), bound, 1)];
            let replies: Vec<CounterReply> = store.check_batch(5, &vec![one.as_slice(); 100]).await.into_iter().flatten().collect();
            assert_eq!(allowed(&replies), 10, "{} {:?}", store.name(), bound.algorithm);
            assert!(replies[..10].iter().zip((0..10).rev()).all(|(reply, left)| reply.remaining == left));
        }
    }
}
