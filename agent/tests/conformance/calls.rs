//! Short words for keys, bounds and calls.

use weir_core::calendar::{Calendar, CalendarUnit, Zone};
use weir_core::counter::{CounterCall, CounterReply};
use weir_core::key::{CounterKey, HashSecret, Tag, counter_key};
use weir_core::lease::LeaseId;
use weir_core::limit::{Algorithm, Bound};
use weir_core::subject::Subject;

pub(crate) const SECOND: u64 = 1_000_000;
pub(crate) const MINUTE: u64 = 60 * SECOND;
pub(crate) const HOUR: u64 = 60 * MINUTE;
pub(crate) const DAY: u64 = 24 * HOUR;

/// Midnight: where test time starts.
pub(crate) const START: u64 = 1_795_996_800 * SECOND;

/// The counter of a subject in one rule.
pub(crate) fn key_of(subject: &str, rule: &str) -> CounterKey {
    let secret = HashSecret::built_in();
    let subject = Subject::parse(subject).expect("a subject");
    counter_key(&secret, Tag::of_subject(&secret, "default", &subject), rule, &[])
}

pub(crate) fn key(subject: &str) -> CounterKey {
    key_of(subject, "rule")
}

pub(crate) const fn bucket(limit: u64, capacity: u64, window_us: u64) -> Bound {
    Bound { algorithm: Algorithm::TokenBucket, limit, capacity, window_us, calendar: None }
}

pub(crate) const fn sliding(limit: u64, window_us: u64) -> Bound {
    Bound { algorithm: Algorithm::SlidingWindow, limit, capacity: limit, window_us, calendar: None }
}

pub(crate) const fn fixed(limit: u64, window_us: u64) -> Bound {
    Bound { algorithm: Algorithm::FixedWindow, limit, capacity: limit, window_us, calendar: None }
}

pub(crate) const fn log(limit: u64, window_us: u64) -> Bound {
    Bound { algorithm: Algorithm::SlidingLog, limit, capacity: limit, window_us, calendar: None }
}

pub(crate) const fn leases(limit: u64, window_us: u64) -> Bound {
    Bound { algorithm: Algorithm::Concurrency, limit, capacity: limit, window_us, calendar: None }
}

/// A fixed window that follows a calendar.
pub(crate) fn calendar(limit: u64, unit: CalendarUnit, zone: &str) -> Bound {
    let calendar = Calendar { unit, zone: Zone::new(zone).expect("a zone") };
    Bound { calendar: Some(calendar), ..fixed(limit, unit.longest_us()) }
}

/// The same limit, of at most 10,000, under each algorithm that counts units.
pub(crate) const fn each(limit: u64, window_us: u64) -> [Bound; 4] {
    [bucket(limit, limit, window_us), sliding(limit, window_us), log(limit, window_us), fixed(limit, window_us)]
}

/// Of any size, under those that count any.
pub(crate) const fn each_large(limit: u64, window_us: u64) -> [Bound; 3] {
    [bucket(limit, limit, window_us), sliding(limit, window_us), fixed(limit, window_us)]
}

/// The lease of this number.
pub(crate) const fn lease(number: u128) -> LeaseId {
    LeaseId::new(number.to_be_bytes())
}

/// Acquires a lease.
pub(crate) const fn acquire(key: CounterKey, bound: Bound, number: u128) -> CounterCall {
    CounterCall { lease: Some(lease(number)), ..CounterCall::check(key, bound, 1) }
}

pub(crate) const fn call(key: CounterKey, bound: Bound, cost: u64) -> CounterCall {
    CounterCall::check(key, bound, cost)
}

/// How many of these replies allowed.
pub(crate) fn allowed(replies: &[CounterReply]) -> usize {
    replies.iter().filter(|reply| reply.allowed).count()
}
