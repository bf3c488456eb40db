//! One bounded table of counters, and who goes when it is full: of those that are looked at an expired counter, else an idle one, and one that
//! is exhausted only when all are. Otherwise a client could have its exhausted counter forgotten by inventing subjects.

use hashbrown::HashMap;
use weir_core::algorithm::Counter;
use weir_core::key::CounterKey;

#[derive(Debug)]
struct Entry {
    key: CounterKey,
    /// `None` only while a request works on it.
    counter: Option<Counter>,
    /// Used again, since it came or the hand last passed.
    used: bool,
    /// Until when nothing passes, in the store's microseconds.
    exhausted_until: u64,
    /// Of the counter when it was last put here.
    weight: usize,
}

/// The most counters that are looked at to make room for one: a request waits for it, and so do others.
const MOST_LOOKS: usize = 64;
/// The most that are looked at for an expired one once there is an idle one.
const MOST_LOOKS_FURTHER: usize = 16;
/// So many entries of a log, slots or leases take the memory of one counter.
const ENTRIES_OF_ONE: usize = 8;

/// The memory that a counter takes, in plain counters: promises are about memory, and a log grows.
fn weight(counter: &Counter) -> usize {
    1 + counter.entries() / ENTRIES_OF_ONE
}

/// Counters in a vector, found through a map. The hand of a clock goes round the vector and takes the first idle counter it meets.
#[derive(Debug)]
pub(super) struct Table {
    index: HashMap<CounterKey, usize>,
    entries: Vec<Entry>,
    /// The weight of all, and the most that is allowed. One counter alone may weigh more.
    weight: usize,
    capacity: usize,
    hand: usize,
    evictions: u64,
}

impl Table {
    pub(super) fn new(capacity: usize) -> Self {
        Self { index: HashMap::new(), entries: Vec::new(), weight: 0, capacity: capacity.max(1), hand: 0, evictions: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) const fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Takes the counter out, to be [`put`](Self::put) back under the same lock.
    pub(super) fn take(&mut self, key: &CounterKey) -> Option<Counter> {
        let at = *self.index.get(key)?;
        self.entries[at].counter.take()
    }

    /// Puts a counter back or in; `None` removes it.
    pub(super) fn put(&mut self, key: CounterKey, counter: Option<Counter>, now_us: u64) {
        let Some(counter) = counter else {
            self.remove(&key);
            return;
        };
        let weight = weight(&counter);
        self.weight += weight;
        if let Some(at) = self.index.get(&key) {
            let entry = &mut self.entries[*at];
            self.weight -= entry.weight;
            (entry.counter, entry.used, entry.weight) = (Some(counter), true, weight);
        } else {
            self.index.insert(key, self.entries.len());
            self.entries.push(Entry { key, counter: Some(counter), used: false, exhausted_until: 0, weight });
        }
        while self.weight > self.capacity && self.entries.len() > 1 {
            self.make_room(&key, now_us);
        }
    }

    /// Notes until when a counter is exhausted.
    pub(super) fn mark(&mut self, key: &CounterKey, exhausted_until: u64) {
        if let Some(at) = self.index.get(key) {
            self.entries[*at].exhausted_until = exhausted_until;
        }
    }

    pub(super) fn remove(&mut self, key: &CounterKey) {
        if let Some(at) = self.index.remove(key) {
            self.weight -= self.entries.swap_remove(at).weight;
            if let Some(moved) = self.entries.get(at) {
                self.index.insert(moved.key, at);
            }
        }
    }

    /// Removes the first expired counter that the hand meets, of at least two and never the one that room is made for; else the first idle one.
    /// After [`MOST_LOOKS`] it is one that was used not long ago, and if all of those are exhausted, the one that is so for the shortest time.
    fn make_room(&mut self, keep: &CounterKey, now_us: u64) {
        let (mut best, mut idle): (Option<(u64, usize)>, _) = (None, false);
        let mut looks = MOST_LOOKS.min(self.entries.len() * 2);
        while looks > 0 {
            looks -= 1;
            self.hand = (self.hand + 1) % self.entries.len();
            let entry = &mut self.entries[self.hand];
            if entry.key == *keep {
                continue;
            }
            if entry.counter.as_ref().is_some_and(|counter| counter.is_expired(now_us)) {
                let key = entry.key;
                self.remove(&key);
                return;
            }
            if idle {
                continue;
            }
            let exhausted = entry.exhausted_until > now_us;
            if !exhausted && !entry.used {
                (best, idle, looks) = (Some((0, self.hand)), true, looks.min(MOST_LOOKS_FURTHER));
                continue;
            }
            entry.used &= exhausted;
            let until = if exhausted { entry.exhausted_until } else { 0 };
            if best.is_none_or(|(shortest, _)| until < shortest) {
                best = Some((until, self.hand));
            }
        }
        if let Some((_, victim)) = best {
            let key = self.entries[victim].key;
            self.remove(&key);
            self.evictions += 1;
        }
    }
}
