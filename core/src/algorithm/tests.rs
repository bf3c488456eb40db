//! What the models promise, on random histories: the bounds, and that waiting as told is enough and hardly more than needed.

mod bounds;

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::calendar::{Calendar, CalendarUnit, Zone};
use crate::key::{CounterKey, HashSecret, Tag, counter_key};

const START: u64 = 1_795_996_800_000_000;
const SECOND: u64 = 1_000_000;

fn key() -> CounterKey {
    let secret = HashSecret::built_in();
    counter_key(&secret, Tag::of_rule(&secret, "d", "r", &[]), "r", &[])
}

/// The algorithms that count units.
const COUNTING: [Algorithm; 4] = [Algorithm::TokenBucket, Algorithm::SlidingWindow, Algorithm::SlidingLog, Algorithm::FixedWindow];

/// Each check acquires another lease.
fn check(counter: &mut Option<Counter>, bound: Bound, cost: u64, now: u64) -> CounterReply {
    static LEASES: AtomicU64 = AtomicU64::new(0);
    let lease = Some(LeaseId::new(u128::from(LEASES.fetch_add(1, Ordering::Relaxed)).to_be_bytes()));
    let call = CounterCall { lease, ..CounterCall::check(key(), bound, cost) };
    decide(&[call], std::slice::from_mut(counter), now)[0]
}

fn bound(algorithm: Algorithm) -> impl Strategy<Value = Bound> {
    let units = || prop_oneof![1..=5u64, 1..=1_000u64, 1..=5_000_000_000u64];
    let window = prop_oneof![Just(SECOND), 1_000..=5_000u64, 1..=60u64].prop_map(|n| if n > 60 { n * 1_000 } else { n * SECOND });
    (units(), prop::option::of(units()), window).prop_map(move |(limit, burst, window_us)| {
        let limit = limit.min(algorithm.max_limit());
        // Not so much that it drains for centuries: waits end at 2^53 µs.
        let capacity = if algorithm == Algorithm::TokenBucket { burst.unwrap_or(limit).min(limit * 2_000) } else { limit };
        Bound { algorithm, limit, capacity, window_us: window_us.max(SECOND), calendar: None }
    })
}

/// Times between calls, and costs as shares of the capacity.
fn history() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let pause = prop_oneof![3 => Just(0u64), 3 => 1..100u64, 6 => 1..200_000u64, 1 => 1..90 * SECOND];
    let share = prop_oneof![6 => Just(0u64), 2 => 1..=30u64, 1 => 90..=100u64];
    prop::collection::vec((pause, share), 1..200)
}

/// A fixed window that follows a calendar, short enough for histories to cross its edges.
fn calendar_bound() -> impl Strategy<Value = Bound> {
    let unit = prop::sample::select(vec![CalendarUnit::Minute, CalendarUnit::Hour]);
    let zone = prop::sample::select(vec!["UTC", "Asia/Kathmandu", "Australia/Lord_Howe"]);
    (1..=1_000u64, unit, zone).prop_map(|(limit, unit, zone)| {
        let calendar = Zone::new(zone).map(|zone| Calendar { unit, zone });
        Bound { algorithm: Algorithm::FixedWindow, limit, capacity: limit, window_us: unit.longest_us(), calendar }
    })
}

fn any_bound() -> impl Strategy<Value = Bound> {
    prop_oneof![5 => prop::sample::select(Algorithm::ALL.to_vec()).prop_flat_map(bound), 1 => calendar_bound()]
}

/// The consumes of a history: when, and how much.
fn admitted(bound: Bound, history: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut counter, mut now, mut consumed) = (None, START, Vec::new());
    for (pause, share) in history {
        now += pause;
        let cost = (bound.capacity / 100 * share).max(1);
        if check(&mut counter, bound, cost, now).allowed {
            consumed.push((now, cost));
        }
    }
    consumed
}

proptest! {
    /// In any interval of length d, rounded up to 16 µs, at most capacity + rate * d units pass. Computed in whole numbers.
    #[test]
    fn a_token_bucket_never_exceeds_its_bound(bound in bound(Algorithm::TokenBucket), history in history()) {
        let consumed = admitted(bound, &history);
        for (from, (start, _)) in consumed.iter().enumerate() {
            let mut units: u128 = 0;
            for (now, cost) in &consumed[from..] {
                units += u128::from(*cost);
                let interval = u128::from(now / 16 * 16 - start / 16 * 16);
                let over = units.saturating_sub(u128::from(bound.capacity)) * u128::from(bound.window_us);
                prop_assert!(over <= u128::from(bound.limit) * interval, "{units} in {interval} µs");
            }
        }
    }

    /// At most `limit` units in any interval shorter than the window.
    #[test]
    fn a_sliding_window_never_exceeds_its_limit(bound in prop_oneof![bound(Algorithm::SlidingWindow), bound(Algorithm::SlidingLog)], history in history()) {
        let consumed = admitted(bound, &history);
        for (from, (start, _)) in consumed.iter().enumerate() {
            let within = consumed[from..].iter().take_while(|(now, _)| now - start < bound.window_us);
            prop_assert!(within.map(|(_, cost)| cost).sum::<u64>() <= bound.limit);
        }
    }

    /// At most `limit` units in each window that is aligned to the epoch.
    #[test]
    fn a_fixed_window_never_exceeds_its_limit(bound in bound(Algorithm::FixedWindow), history in history()) {
        let consumed = admitted(bound, &history);
        for (now, _) in &consumed {
            let window = now / bound.window_us;
            let within = consumed.iter().filter(|(other, _)| other / bound.window_us == window);
            prop_assert!(within.map(|(_, cost)| cost).sum::<u64>() <= bound.limit);
        }
    }

    /// At most `limit` units in each window of a calendar.
    #[test]
    fn a_calendar_window_never_exceeds_its_limit(bound in calendar_bound(), history in history()) {
        let consumed = admitted(bound, &history);
        let window = |time: u64| bound.calendar.map(|calendar| calendar.edges(time));
        for (now, _) in &consumed {
            let within = consumed.iter().filter(|(other, _)| window(*other) == window(*now));
            prop_assert!(within.map(|(_, cost)| cost).sum::<u64>() <= bound.limit);
        }
    }

    /// Waiting exactly retry-after passes; waiting one resolution (a step, for the windows a microsecond) and a rounding less does not.
    #[test]
    fn retry_after_is_enough_and_hardly_more(bound in any_bound(), history in history()) {
        let (mut counter, mut now) = (None, START);
        for (pause, share) in history {
            now += pause;
            let cost = (bound.capacity / 100 * share).max(1);
            let reply = check(&mut counter, bound, cost, now);
            let Some(retry) = reply.retry_after_us else { unreachable!("no cost is above the capacity") };
            prop_assert_eq!(reply.allowed, retry == 0);
            if !reply.allowed {
                prop_assert!(check(&mut counter.clone(), bound, cost, now + retry).allowed, "too short");
                let slack = if bound.algorithm == Algorithm::TokenBucket { 32 } else { 1 };
                let early = check(&mut counter.clone(), bound, cost, now + retry.saturating_sub(slack));
                prop_assert!(retry <= slack || !early.allowed, "too long");
                prop_assert!(reply.reset_after_us >= retry);
            }
        }
    }

    /// BB-23: while a client waits and asks every 50 ms, what it is told never moves away; it passes at the time that it was told, and
    /// not before. The header's whole seconds are at least 1 and at most a second too long.
    #[test]
    fn bb_23_a_wait_only_shrinks_and_is_true(
        algorithm in prop::sample::select(Algorithm::ALL.to_vec()),
        (limit, window) in prop::sample::select(vec![(1u64, 1u64), (7, 10), (100, 60)]),
        phase in 0..60 * SECOND,
    ) {
        let bound = Bound { algorithm, limit, capacity: limit, window_us: window * SECOND, calendar: None };
        // A token bucket counts in steps of 16 µs and rounds against the client.
        let slack = if algorithm == Algorithm::TokenBucket { 32 } else { 1 };
        let (mut counter, start) = (None, START + phase);
        while check(&mut counter, bound, 1, start).allowed {}
        let told = check(&mut counter, bound, 1, start).retry_after_us.unwrap_or_default();
        // A sliding window counts whole slots, the current one besides the sixty of the window.
        prop_assert!(told > 0 && told <= 61 * bound.window_us.div_ceil(60), "{told}");
        let header = told.div_ceil(SECOND);
        prop_assert!(header >= 1 && header * SECOND < told + SECOND);
        let (mut last, mut now) = (told, start);
        while now + 50_000 + slack < start + told {
            now += 50_000;
            let reply = check(&mut counter, bound, 1, now);
            let wait = reply.retry_after_us.unwrap_or_default();
            prop_assert!(!reply.allowed && wait > 0 && wait <= last, "{wait} after {last}");
            prop_assert!(now + wait <= start + told, "it moves away");
            last = wait;
        }
        prop_assert!(check(&mut counter, bound, 1, start + told).allowed);
    }

    /// After exactly reset-after nothing is consumed any more, and the counter has not expired before.
    #[test]
    fn reset_after_is_when_nothing_is_consumed(bound in any_bound(), history in history()) {
        let (mut counter, mut now) = (None, START);
        for (pause, share) in history {
            now += pause;
            let reply = check(&mut counter, bound, (bound.capacity / 100 * share).max(1), now);
            let left = check(&mut counter.clone(), bound, 0, now + reply.reset_after_us);
            prop_assert_eq!(left.remaining, bound.capacity);
            prop_assert_eq!(left.reset_after_us, 0);
            let kept = counter.as_ref().is_some_and(|counter| !counter.is_expired(now + reply.reset_after_us));
            prop_assert!(kept, "expired too early");
        }
    }

    /// A refund gives back at most what is used, and never more than asked.
    #[test]
    fn a_refund_restores_no_more_than_was_taken(bound in any_bound(), history in history(), units in 0..100u64) {
        let (mut counter, mut now) = (None, START);
        for (pause, share) in history {
            now += pause;
            let cost = (bound.capacity / 100 * share).max(1);
            let before = check(&mut counter, bound, cost, now);
            let given = give_back(&mut counter, &bound, units, now, None, now);
            let after = check(&mut counter.clone(), bound, 0, now);
            prop_assert!(given <= units && after.remaining <= bound.capacity);
            // What has drained in part counts as given back whole.
            let more = after.remaining - before.remaining;
            prop_assert!(more <= given && more + 1 >= given);
        }
    }
}

#[test]
fn a_refund_creates_nothing() {
    for algorithm in Algorithm::ALL {
        let mut counter = None;
        let bound = Bound { algorithm, limit: 5, capacity: 5, window_us: SECOND, calendar: None };
        assert_eq!((give_back(&mut counter, &bound, 3, START, None, START), counter), (0, None));
    }
}

#[test]
fn a_peek_changes_nothing_and_creates_nothing() {
    for algorithm in COUNTING {
        let bound = Bound { algorithm, limit: 5, capacity: 5, window_us: SECOND, calendar: None };
        let mut counter = None;
        let reply = check(&mut counter, bound, 0, START);
        assert_eq!((reply.allowed, reply.remaining, &counter), (true, 5, &None));
        check(&mut counter, bound, 2, START);
        let before = counter.clone();
        assert_eq!(check(&mut counter, bound, 0, START + 100).remaining, 3);
        assert_eq!(counter, before);
    }
}

/// A counter that lost its TTL gets one at the next call, also when that call is refused.
#[test]
fn bb_08_a_lost_ttl_is_healed() {
    for algorithm in Algorithm::ALL {
        let bound = Bound { algorithm, limit: 1, capacity: 1, window_us: SECOND, calendar: None };
        let mut counter = None;
        assert!(check(&mut counter, bound, 1, START).allowed);
        counter.as_mut().unwrap().expires_ms = None;
        assert!(!check(&mut counter, bound, 1, START + 1).allowed);
        assert!(counter.unwrap().expires_ms.is_some(), "{algorithm:?}");
    }
}
