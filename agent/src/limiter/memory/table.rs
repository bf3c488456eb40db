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
    /// Used since the hand last passed.
    used: bool,
    /// Until when nothing passes, in the store's microseconds.
    exhausted_until: u64,
}

/// The most counters that are looked at to make room for one: a request waits for it, and so do others.
const MOST_LOOKS: usize = 64;

/// Counters in a vector, found through a map. The hand of a clock goes round the vector and takes the first idle counter it meets.
#[derive(Debug)]
pub(super) struct Table {
    index: HashMap<CounterKey, usize>,
    entries: Vec<Entry>,
    capacity: usize,
    hand: usize,
    evictions: u64,
}

impl Table {
    pub(super) fn new(capacity: usize) -> Self {
        Self { index: HashMap::new(), entries: Vec::new(), capacity: capacity.max(1), hand: 0, evictions: 0 }
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
        if let Some(at) = self.index.get(&key) {
            let entry = &mut self.entries[*at];
            entry.counter = Some(counter);
            entry.used = true;
            return;
        }
        if self.entries.len() >= self.capacity {
            self.make_room(now_us);
        }
        self.index.insert(key, self.entries.len());
        self.entries.push(Entry { key, counter: Some(counter), used: true, exhausted_until: 0 });
    }

    /// Notes until when a counter is exhausted.
    pub(super) fn mark(&mut self, key: &CounterKey, exhausted_until: u64) {
        if let Some(at) = self.index.get(key) {
            self.entries[*at].exhausted_until = exhausted_until;
        }
    }

    pub(super) fn remove(&mut self, key: &CounterKey) {
        if let Some(at) = self.index.remove(key) {
            self.entries.swap_remove(at);
            if let Some(moved) = self.entries.get(at) {
                self.index.insert(moved.key, at);
            }
        }
    }

    /// Removes the first expired or idle counter that the hand meets. After [`MOST_LOOKS`] it is one that was used not long ago, and if all of
    /// those are exhausted, the one that is so for the shortest time.
    fn make_room(&mut self, now_us: u64) {
        let mut best: Option<(u64, usize)> = None;
        for _ in 0..MOST_LOOKS.min(self.entries.len() * 2) {
            self.hand = (self.hand + 1) % self.entries.len();
            let entry = &mut self.entries[self.hand];
            if entry.counter.as_ref().is_some_and(|counter| counter.is_expired(now_us)) {
                let key = entry.key;
                self.remove(&key);
                return;
            }
            let exhausted = entry.exhausted_until > now_us;
            if !exhausted && !entry.used {
                best = Some((0, self.hand));
                break;
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
