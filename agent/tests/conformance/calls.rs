//! Short words for keys, bounds and calls.

use weir_core::counter::{CounterCall, CounterReply};
use weir_core::key::{CounterKey, HashSecret, Tag, counter_key};
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

/// The same limit under each algorithm.
pub(crate) const fn each(limit: u64, window_us: u64) -> [Bound; 3] {
    [bucket(limit, limit, window_us), sliding(limit, window_us), fixed(limit, window_us)]
}

pub(crate) const fn call(key: CounterKey, bound: Bound, cost: u64) -> CounterCall {
    CounterCall::check(key, bound, cost)
}

/// How many of these replies allowed.
pub(crate) fn allowed(replies: &[CounterReply]) -> usize {
    replies.iter().filter(|reply| reply.allowed).count()
}
