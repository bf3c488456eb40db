//! What each counter had left when its shard was last heard, so that the local count starts from there.
//!
//! A table of fixed size in which a counter has one place: a newer counter takes the place of an older one. Then nothing is known, and the
//! local count starts full.

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
}

/// Units left by counter. Holds at most 65,536 counters.
pub(super) struct LastSeen {
    parts: Box<[Mutex<Box<[Place]>>]>,
}

impl LastSeen {
    pub(super) fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| Mutex::new(vec![Place::default(); PLACES].into_boxed_slice())).collect() }
    }

    /// A shard said that this counter has so much left.
    pub(super) fn note(&self, key: &CounterKey, remaining: u64) {
        let hash = hash(key);
        self.place(hash, |place| *place = Place { hash, remaining });
    }

    /// What the counter had left, if that is known and was not asked for since.
    pub(super) fn take(&self, key: &CounterKey) -> Option<u64> {
        let hash = hash(key);
        self.place(hash, |place| (place.hash == hash).then(|| std::mem::take(place).remaining))
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

    fn key(user: &str) -> CounterKey {
        let secret = HashSecret::built_in();
        counter_key(&secret, Tag::of_subject(&secret, "default", &Subject::parse(user).unwrap()), "rule", &[])
    }

    #[test]
    fn the_last_word_is_kept_once() {
        let seen = LastSeen::new();
        assert_eq!(seen.take(&key("a")), None);
        seen.note(&key("a"), 7);
        seen.note(&key("a"), 5);
        seen.note(&key("b"), 9);
        assert_eq!((seen.take(&key("a")), seen.take(&key("a")), seen.take(&key("b"))), (Some(5), None, Some(9)));
    }

    #[test]
    fn newer_counters_push_out_older_ones() {
        let seen = LastSeen::new();
        for user in 0..3 * PARTS * PLACES {
            seen.note(&key(&format!("u{user}")), 1);
        }
        let known = (0..3 * PARTS * PLACES).filter(|user| seen.take(&key(&format!("u{user}"))).is_some()).count();
        assert!(known <= PARTS * PLACES && known > PARTS * PLACES / 2, "{known}");
    }
}
