//! Refusals that still hold, so that an exhausted subject costs its shard next to nothing.
//!
//! What a shard refused is refused again without asking it: to the same counter, under the same bound, at the same cost or above, until the
//! retry-after is over, and for at most [`MOST`] at a time, so that what changes on the shard (a refund, another agent's reset) is seen
//! soon. A rule that changes brings another bound. It never allows, and it knows nothing of counters that were not asked.
//!
//! A table of fixed size. A counter has a few places; where all are taken by refusals that still hold, the one that ends first gives way.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_core::counter::{Action, CounterCall, CounterReply};
use weir_core::key::CounterKey;
use weir_core::limit::{Algorithm, Bound};
use weir_core::name::Name;
use xxhash_rust::xxh3::xxh3_64;

use super::LimitAnswer;

/// How long a refusal is repeated before the shard is asked again.
const MOST: Duration = Duration::from_millis(250);
/// Sets of places, each under its own lock; a power of two.
const SETS: usize = 4096;
/// Places that a counter can have.
const PLACES: usize = 4;

/// One refusal.
#[derive(Debug)]
struct Denial {
    key: CounterKey,
    bound: Bound,
    cost: u64,
    /// Until when it is repeated.
    until: Instant,
    reply: CounterReply,
    /// What the times in `reply` count from.
    since: Instant,
    shard: Name,
}

type Set = [Option<Denial>; PLACES];

/// Refusals by counter. Holds at most 16,384.
pub(super) struct DenyCache {
    sets: Box<[Mutex<Set>]>,
}

impl DenyCache {
    pub(super) fn new() -> Self {
        Self { sets: (0..SETS).map(|_| Mutex::default()).collect() }
    }

    /// Notes what `shard` said to a check that was made at `sent`, if it refused. What a look found is not noted: of another cost it would
    /// take the place of what checks are refused by.
    pub(super) fn note(&self, call: &CounterCall, reply: &CounterReply, shard: &Name, sent: Instant) {
        if reply.allowed || call.action != Action::Check || !is_repeatable(call.bound.algorithm) {
            return;
        }
        let until = sent + reply.retry_after_us.map_or(MOST, |us| MOST.min(Duration::from_micros(us)));
        let denial = Denial { key: call.key, bound: call.bound, cost: call.cost, until, reply: *reply, since: sent, shard: shard.clone() };
        let mut set = self.set(&call.key);
        let same = set.iter().position(|place| place.as_ref().is_some_and(|old| old.counts_like(call)));
        let place = same.or_else(|| (0..PLACES).min_by_key(|place| set[*place].as_ref().map(|old| old.until)));
        if let Some(place) = place {
            set[place] = Some(denial);
        }
    }

    /// The refusal of this call, if one still holds. Only a check is refused: whoever looks wants to see all limits, and what is recorded
    /// always passes.
    pub(super) fn find(&self, call: &CounterCall, now: Instant) -> Option<LimitAnswer> {
        if call.action != Action::Check {
            return None;
        }
        let set = self.set(&call.key);
        let denial = set.iter().flatten().find(|denial| denial.counts_like(call))?;
        (call.cost >= denial.cost && now < denial.until).then(|| denial.answer(now))
    }

    /// Forgets what was refused by this counter: it was reset, or given units back.
    pub(super) fn forget(&self, key: &CounterKey) {
        for place in self.set(key).iter_mut() {
            place.take_if(|denial| denial.key == *key);
        }
    }

    fn set(&self, key: &CounterKey) -> parking_lot::MutexGuard<'_, Set> {
        let hash = usize::try_from(xxh3_64(key.as_bytes()) & u64::from(u32::MAX)).unwrap_or_default();
        self.sets[hash % SETS].lock()
    }
}

impl Denial {
    fn counts_like(&self, call: &CounterCall) -> bool {
        self.key == call.key && self.bound == call.bound
    }

    /// What is left of the refusal; for a cost above its own the retry-after is a lower bound.
    fn answer(&self, now: Instant) -> LimitAnswer {
        let passed = u64::try_from(now.saturating_duration_since(self.since).as_micros()).unwrap_or(u64::MAX);
        let reply = CounterReply {
            reset_after_us: self.reply.reset_after_us.saturating_sub(passed),
            retry_after_us: self.reply.retry_after_us.map(|us| us.saturating_sub(passed).max(1)),
            replaced: false,
            ..self.reply
        };
        LimitAnswer { reply, degraded: None, shard: Some(self.shard.clone()) }
    }
}

/// Whether a refusal says something about the time until its retry-after.
const fn is_repeatable(algorithm: Algorithm) -> bool {
    match algorithm {
        Algorithm::TokenBucket | Algorithm::SlidingWindow | Algorithm::SlidingLog | Algorithm::FixedWindow => true,
        // A lease may be given back at any moment.
        Algorithm::Concurrency => false,
    }
}

impl std::fmt::Debug for DenyCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DenyCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::key::{HashSecret, Tag, counter_key};
    use weir_core::subject::Subject;

    const MS: Duration = Duration::from_millis(1);

    fn call(user: &str, cost: u64) -> CounterCall {
        let secret = HashSecret::built_in();
        let key = counter_key(&secret, Tag::of_subject(&secret, "default", &Subject::parse(user).unwrap()), "rule", &[]);
        let bound = Bound { algorithm: Algorithm::SlidingWindow, limit: 10, capacity: 10, window_us: 60_000_000, calendar: None };
        CounterCall::check(key, bound, cost)
    }

    fn refused(retry_after_us: Option<u64>) -> CounterReply {
        CounterReply {
            allowed: false,
            remaining: 0,
            reset_after_us: 30_000_000,
            retry_after_us,
            time_us: 7,
            replaced: true,
            uncounted: false,
        }
    }

    fn shard() -> Name {
        "s0".parse().unwrap()
    }

    /// A cache that heard one refusal of `call`, sent now.
    fn with(call: &CounterCall, retry_after_us: Option<u64>) -> (DenyCache, Instant) {
        let (cache, now) = (DenyCache::new(), Instant::now());
        cache.note(call, &refused(retry_after_us), &shard(), now);
        (cache, now)
    }

    #[test]
    fn a_refusal_is_repeated_until_its_retry_after() {
        let (cache, now) = with(&call("a", 1), Some(100_000));
        let again = cache.find(&call("a", 1), now + 40 * MS).unwrap();
        assert_eq!((again.degraded, again.shard), (None, Some(shard())));
        let reply = CounterReply { reset_after_us: 29_960_000, retry_after_us: Some(60_000), replaced: false, ..refused(None) };
        assert_eq!(again.reply, reply);
        assert!(cache.find(&call("a", 1), now + 99 * MS).is_some());
        assert_eq!(cache.find(&call("a", 1), now + 100 * MS), None);
        assert_eq!(cache.find(&call("b", 1), now), None);
    }

    #[test]
    fn a_refusal_is_repeated_for_at_most_a_quarter_of_a_second() {
        for retry_after_us in [Some(3_600_000_000), None] {
            let (cache, now) = with(&call("a", 1), retry_after_us);
            let again = cache.find(&call("a", 1), now + 249 * MS).unwrap();
            assert_eq!(again.reply.retry_after_us, retry_after_us.map(|us| us - 249_000));
            assert_eq!(cache.find(&call("a", 1), now + 250 * MS), None);
        }
    }

    #[test]
    fn a_lower_cost_may_pass_and_a_higher_one_cannot() {
        let (cache, now) = with(&call("a", 3), Some(1_000_000));
        let found = |cost| cache.find(&call("a", cost), now).is_some();
        assert_eq!([0, 1, 2, 3, 4, 10].map(found), [false, false, false, true, true, true]);
    }

    #[test]
    fn only_checks_are_refused() {
        let (cache, now) = with(&call("a", 1), Some(1_000_000));
        let found = |action| cache.find(&CounterCall { action, ..call("a", 1) }, now).is_some();
        assert_eq!([Action::Check, Action::Peek, Action::Record].map(found), [true, false, false]);
    }

    #[test]
    fn another_bound_is_another_question() {
        let (cache, now) = with(&call("a", 1), Some(1_000_000));
        let raised = |change: fn(&mut Bound)| {
            let mut call = call("a", 1);
            change(&mut call.bound);
            cache.find(&call, now)
        };
        assert_eq!(raised(|bound| bound.limit = 11), None);
        assert_eq!(raised(|bound| bound.capacity = 11), None);
        assert_eq!(raised(|bound| bound.window_us = 30_000_000), None);
        assert_eq!(raised(|bound| bound.algorithm = Algorithm::TokenBucket), None);
        assert!(raised(|_| ()).is_some());
    }

    #[test]
    fn the_last_word_holds_and_what_passes_is_not_kept() {
        let (cache, now) = with(&call("a", 1), Some(200_000));
        cache.note(&call("a", 5), &refused(Some(100_000)), &shard(), now);
        assert_eq!(cache.find(&call("a", 1), now), None);
        assert!(cache.find(&call("a", 5), now + 99 * MS).is_some());
        cache.note(&call("b", 1), &CounterReply::passed(0, 1, 7), &shard(), now);
        assert_eq!(cache.find(&call("b", 1), now), None);
    }

    #[test]
    fn a_counter_is_forgotten_under_every_bound() {
        let (cache, now) = with(&call("a", 1), Some(1_000_000));
        let mut other = call("a", 1);
        other.bound.limit = 20;
        cache.note(&other, &refused(None), &shard(), now);
        cache.note(&call("b", 1), &refused(None), &shard(), now);
        cache.forget(&call("a", 1).key);
        assert_eq!((cache.find(&call("a", 1), now), cache.find(&other, now)), (None, None));
        assert!(cache.find(&call("b", 1), now).is_some());
    }

    /// However many subjects are refused, so many are kept; those whose refusals hold longest stay.
    #[test]
    fn a_flood_neither_grows_it_nor_drives_out_what_holds_longer() {
        let (cache, now) = (DenyCache::new(), Instant::now());
        let blocked = 0..SETS / 16;
        for user in blocked.clone() {
            cache.note(&call(&format!("blocked-{user}"), 1), &refused(None), &shard(), now);
        }
        let flood = 0..4 * SETS * PLACES;
        for user in flood.clone() {
            cache.note(&call(&format!("u{user}"), 1), &refused(Some(100_000)), &shard(), now);
        }
        let kept = |users: std::ops::Range<usize>, name: &str| {
            users.filter(|user| cache.find(&call(&format!("{name}{user}"), 1), now).is_some()).count()
        };
        assert_eq!(kept(blocked.clone(), "blocked-"), blocked.len());
        let flooded = kept(flood, "u");
        assert!(flooded > SETS * PLACES / 2 && flooded <= SETS * PLACES - blocked.len(), "{flooded}");
    }
}
