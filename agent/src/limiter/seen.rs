//! What each counter had left when its shard was last heard, so that the local count starts from there.
//!
//! A table of fixed size in which a counter has one place: a newer counter takes the place of an older one. Then nothing is known, and the
//! local count starts full; likewise once nothing that was seen would be consumed any more.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_core::key::CounterKey;
use xxhash_rust::xxh3::xxh3_64;

/// Locks, a power of two.
const PARTS: usize = 64;
/// Places under each lock, a power of two.
const PLACES: usize = 1024;

#[derive(Clone, Copy, Default)]
struct Place {
    /// Hash of the counter's key; 0: free.
    hash: u64,
    remaining: u64,
    /// When nothing is consumed any more, in milliseconds since the table was made.
    full_at: u64,
}

/// Units left by counter. Holds at most 65,536 counters.
pub(super) struct LastSeen {
    parts: Box<[Mutex<Box<[Place]>>]>,
    started: Instant,
}

impl LastSeen {
    pub(super) fn new(now: Instant) -> Self {
        let part = |_| Mutex::new(vec![Place::default(); PLACES].into_boxed_slice());
        Self { parts: (0..PARTS).map(part).collect(), started: now }
    }

    /// A shard said that this counter has so much left, and is full again after `reset`.
    pub(super) fn note(&self, key: &CounterKey, remaining: u64, reset: Duration, now: Instant) {
        let (hash, full_at) = (hash(key), self.ms(now + reset));
        self.place(hash, |place| *place = Place { hash, remaining, full_at });
    }

    /// Whether [`take`](Self::take) would find something.
    pub(super) fn knows(&self, key: &CounterKey, now: Instant) -> bool {
        let hash = hash(key);
        self.place(hash, |place| place.hash == hash && place.full_at > self.ms(now))
    }

    /// What the counter had left, if that is known, still means something and was not asked for since.
    pub(super) fn take(&self, key: &CounterKey, now: Instant) -> Option<u64> {
        let hash = hash(key);
        let place = self.place(hash, |place| (place.hash == hash).then(|| std::mem::take(place)))?;
        (place.full_at > self.ms(now)).then_some(place.remaining)
    }

    fn ms(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.started).as_millis()).unwrap_or(u64::MAX)
    }

    fn place<T>(&self, hash: u64, with: impl FnOnce(&mut Place) -> T) -> T {
        let hash = usize::try_from(hash >> 16 & u64::from(u32::MAX)).unwrap_or_default();
        let mut part = self.parts[hash % PARTS].lock();
        with(&mut part[hash / PARTS % PLACES])
    }
}

fn hash(key: &CounterKey) -> u64 {
    xxh3_64(key.as_bytes()).max(1)
}

impl std::fmt::Debug for LastSeen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LastSeen").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::key::{HashSecret, Tag, counter_key};
    use weir_core::subject::Subject;

    const MINUTE: Duration = Duration::from_secs(60);

    fn key(user: &str) -> CounterKey {
        let secret = HashSecret::built_in();
        counter_key(&secret, Tag::of_subject(&secret, "default", &Subject::parse(user).unwrap()), "rule", &[])
    }

    #[test]
    fn the_last_word_is_kept_once() {
        let now = Instant::now();
        let seen = LastSeen::new(now);
        assert_eq!((seen.knows(&key("a"), now), seen.take(&key("a"), now)), (false, None));
        seen.note(&key("a"), 7, MINUTE, now);
        seen.note(&key("a"), 5, MINUTE, now);
        seen.note(&key("b"), 9, MINUTE, now);
        assert!(seen.knows(&key("a"), now));
        assert_eq!((seen.take(&key("a"), now), seen.take(&key("a"), now), seen.take(&key("b"), now)), (Some(5), None, Some(9)));
    }

    #[test]
    fn what_would_be_full_by_now_is_not_known() {
        let now = Instant::now();
        let seen = LastSeen::new(now);
        seen.note(&key("a"), 0, MINUTE, now);
        assert!(seen.knows(&key("a"), now + MINUTE / 2) && !seen.knows(&key("a"), now + MINUTE));
        assert_eq!(seen.take(&key("a"), now + MINUTE), None);
    }

    #[test]
    fn newer_counters_push_out_older_ones() {
        let now = Instant::now();
        let seen = LastSeen::new(now);
        for user in 0..3 * PARTS * PLACES {
            seen.note(&key(&format!("u{user}")), 1, MINUTE, now);
        }
        let known = (0..3 * PARTS * PLACES).filter(|user| seen.take(&key(&format!("u{user}")), now).is_some()).count();
        assert!(known <= PARTS * PLACES && known > PARTS * PLACES / 2, "{known}");
    }
}
