//! The bounds of a counter whose limit changes, to which units are given back and recorded, on a clock that is set back: never more than the
//! largest of its limits allows, and what was given back.

use super::*;
use crate::counter::Action;

/// How far a clock is set back: less than the shortest window, or what is stored would be garbage.
const FURTHEST_BACK: u64 = SECOND - 1;

/// One event of a counter's life. Costs are in hundredths of the capacity, and bounds are meant by their place.
#[derive(Debug, Clone)]
enum Event {
    Wait(u64),
    /// The clock is set to so much before the latest time it has shown.
    Back(u64),
    Check {
        bound: usize,
        share: u64,
    },
    Record {
        bound: usize,
        share: u64,
    },
    Refund {
        bound: usize,
        share: u64,
        /// For `concurrency`: which of the leases acquired so far ends, counted from the last.
        lease: usize,
    },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let wait = prop_oneof![2 => 1..100u64, 6 => 1..200_000u64, 2 => 1..10 * SECOND, 1 => 1..90 * SECOND];
    let share = || prop_oneof![6 => Just(0u64), 2 => 1..=30u64, 1 => 90..=100u64];
    let event = prop_oneof![
        6 => wait.prop_map(Event::Wait),
        1 => (1..=FURTHEST_BACK).prop_map(Event::Back),
        16 => (0..3usize, share()).prop_map(|(bound, share)| Event::Check { bound, share }),
        1 => (0..3usize, share()).prop_map(|(bound, share)| Event::Record { bound, share }),
        2 => (0..3usize, share(), 0..8usize).prop_map(|(bound, share, lease)| Event::Refund { bound, share, lease }),
    ];
    prop::collection::vec(event, 1..200)
}

/// Three limits that one counter has by turns.
fn alternating(bound: impl Strategy<Value = Bound>) -> impl Strategy<Value = Vec<Bound>> {
    prop::collection::vec(bound, 3)
}

/// Something that happened to the units of a counter.
#[derive(Debug, Clone, Copy)]
struct Change {
    /// Microseconds that the clock has gone forward until then: what it is set back takes no time.
    elapsed: u64,
    /// Units that passed, or came back.
    units: i128,
    /// When the window ends in which they count, if the algorithm has such.
    end: u64,
    /// For `concurrency`: which lease.
    lease: usize,
}

/// What passed and what came back, in order.
fn changes(bounds: &[Bound], events: &[Event]) -> Vec<Change> {
    let (mut counter, mut changes) = (None, Vec::new());
    let (mut now, mut latest, mut elapsed) = (START, START, 0);
    let mut names = 0u128;
    let lease = |number: u128| LeaseId::new(number.to_be_bytes());
    let mut acquired: Vec<u128> = Vec::new();
    for event in events {
        match *event {
            Event::Wait(us) => {
                now += us;
                elapsed += us;
                latest = latest.max(now);
            }
            Event::Back(us) => now = now.min(latest - us),
            Event::Check { bound, share } | Event::Record { bound, share } => {
                let bound = bounds[bound];
                let action = if matches!(event, Event::Record { .. }) { Action::Record } else { Action::Check };
                names += 1;
                let units = (bound.capacity / 100 * share).max(1);
                let call = CounterCall { action, lease: Some(lease(names)), ..CounterCall::check(key(), bound, units) };
                let units = i128::from(call.units());
                let reply = decide(&[call], std::slice::from_mut(&mut counter), now)[0];
                if reply.allowed && action == Action::Check {
                    changes.push(Change { elapsed, units, end: now + reply.reset_after_us, lease: acquired.len() });
                    acquired.push(names);
                }
            }
            Event::Refund { bound, share, lease: back } => {
                let bound = bounds[bound];
                let ended = acquired.len().checked_sub(1 + back);
                let name = ended.map(|place| lease(acquired[place]));
                let units = (bound.capacity / 100 * share).max(1);
                let given = give_back(&mut counter, &bound, units, 0, name.as_ref(), now);
                changes.push(Change { elapsed, units: -i128::from(given), end: 0, lease: ended.unwrap_or(usize::MAX) });
            }
        }
    }
    changes
}

/// For each interval from one consume to another: its length, and what passed in it beyond what was given back.
fn intervals(changes: &[Change]) -> impl Iterator<Item = (u64, i128)> + '_ {
    (0..changes.len()).filter(|from| changes[*from].units > 0).flat_map(move |from| {
        let sums = changes[from..].iter().scan(0, move |sum, change| {
            *sum += change.units;
            Some((change.elapsed - changes[from].elapsed, *sum))
        });
        sums.zip(&changes[from..]).filter(|(_, change)| change.units > 0).map(|(interval, _)| interval)
    })
}

fn largest(bounds: &[Bound]) -> i128 {
    bounds.iter().map(|bound| i128::from(bound.capacity)).max().unwrap_or_default()
}

fn shortest(bounds: &[Bound]) -> u64 {
    bounds.iter().map(|bound| bound.window_us).min().unwrap_or_default()
}

/// Of another algorithm of these two, or blocked for a while.
fn window_or_log() -> impl Strategy<Value = Bound> {
    prop_oneof![8 => bound(Algorithm::SlidingWindow), 8 => bound(Algorithm::SlidingLog), 1 => bound(Algorithm::SlidingLog).prop_map(blocked)]
}

const fn blocked(bound: Bound) -> Bound {
    Bound { limit: 0, capacity: 0, ..bound }
}

proptest! {
    /// At most max(capacity) + max(rate) * d, d rounded up to 16 µs, and what was given back in the interval.
    #[test]
    fn a_changing_token_bucket_never_exceeds_its_bound(bounds in alternating(bound(Algorithm::TokenBucket)), events in events()) {
        let (capacity, changes) = (largest(&bounds), changes(&bounds, &events));
        for (interval, units) in intervals(&changes) {
            let interval = i128::from(interval.div_ceil(16) * 16 + 16);
            let fits = bounds.iter().any(|bound| (units - capacity) * i128::from(bound.window_us) <= i128::from(bound.limit) * interval);
            prop_assert!(fits, "{units} in {interval} µs of at most {capacity}");
        }
    }

    /// At most max(limit) in any interval shorter than the shortest window, and what was given back in it.
    #[test]
    fn a_changing_window_or_log_never_exceeds_its_limit(bounds in alternating(window_or_log()), events in events()) {
        let (limit, window, changes) = (largest(&bounds), shortest(&bounds), changes(&bounds, &events));
        for (_, units) in intervals(&changes).filter(|(interval, _)| *interval < window) {
            prop_assert!(units <= limit, "{units} of {limit}");
        }
    }

    /// At most max(limit) in each window, and what was given back in the meantime. The answer says in which window units count.
    #[test]
    fn a_changing_fixed_window_never_exceeds_its_limit(bounds in alternating(bound(Algorithm::FixedWindow)), events in events()) {
        let bounds: Vec<Bound> = bounds.iter().map(|bound| Bound { window_us: 7 * SECOND, ..*bound }).collect();
        let (limit, changes) = (largest(&bounds), changes(&bounds, &events));
        for (place, last) in changes.iter().enumerate().filter(|(_, change)| change.units > 0) {
            let of_window = |change: &&Change| change.units > 0 && change.end == last.end;
            let first = changes.iter().position(|change| of_window(&change)).unwrap_or(place);
            let passed: i128 = changes[..=place].iter().filter(of_window).map(|change| change.units).sum();
            let back: i128 = changes[first..=place].iter().filter(|change| change.units < 0).map(|change| -change.units).sum();
            prop_assert!(passed <= limit + back, "{passed} of {limit} + {back}");
        }
    }

    /// Of the leases acquired within the shortest window and not given back, at most max(limit).
    #[test]
    fn a_changing_number_of_leases_is_never_exceeded(bounds in alternating(bound(Algorithm::Concurrency)), events in events()) {
        let bounds: Vec<Bound> = bounds.iter().map(|bound| {
            let limit = bound.limit.min(8);
            Bound { limit, capacity: limit, ..*bound }
        }).collect();
        let (limit, window, changes) = (largest(&bounds), shortest(&bounds), changes(&bounds, &events));
        for (place, last) in changes.iter().enumerate().filter(|(_, change)| change.units > 0) {
            let ended = |lease: usize| changes[..place].iter().any(|change| change.units < 0 && change.lease == lease);
            let held = changes[..=place].iter().filter(|change| change.units > 0 && last.elapsed - change.elapsed < window && !ended(change.lease));
            let held = i128::try_from(held.count()).unwrap_or(i128::MAX);
            prop_assert!(held <= limit, "{held} of {limit}");
        }
    }
}
