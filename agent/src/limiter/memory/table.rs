//! One bounded table of counters, and who goes when it is full: expired counters first, then idle ones, and one that is exhausted only
//! when all are. Otherwise a client could have its exhausted counter forgotten by inventing subjects.

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

/// Counters in a vector, found through a map. The hand of a clock goes round the vector and takes the first idle counter it meets.
#[derive(Debug)]
pub(super) struct Table {
    index: HashMap<CounterKey, usize>,
    entries: Vec<Entry>,
    capacity: usize,
    hand: usize,
    /// No counter expires before this millisecond.
    first_expiry_ms: u64,
    evictions: u64,
}

impl Table {
    pub(super) fn new(capacity: usize) -> Self {
        Self { index: HashMap::new(), entries: Vec::new(), capacity: capacity.max(1), hand: 0, first_expiry_ms: u64::MAX, evictions: 0 }
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
        self.first_expiry_ms = self.first_expiry_ms.min(counter.expires_ms.unwrap_or(u64::MAX));
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

    fn make_room(&mut self, now_us: u64) {
        if self.first_expiry_ms < now_us / 1000 {
            self.drop_expired(now_us);
        }
        if self.entries.len() >= self.capacity {
            let victim = self.victim(now_us);
            let key = self.entries[victim].key;
            self.remove(&key);
            self.evictions += 1;
        }
    }

    /// Drops every expired counter, so the walk over the whole table is paid for by what it frees.
    fn drop_expired(&mut self, now_us: u64) {
        self.first_expiry_ms = u64::MAX;
        let mut at = 0;
        while let Some(entry) = self.entries.get(at) {
            if entry.counter.as_ref().is_some_and(|counter| counter.is_expired(now_us)) {
                let key = entry.key;
                self.remove(&key);
            } else {
                let expiry = entry.counter.as_ref().and_then(|counter| counter.expires_ms).unwrap_or(u64::MAX);
                self.first_expiry_ms = self.first_expiry_ms.min(expiry);
                at += 1;
            }
        }
    }

    /// The next idle counter that is not exhausted; if all are exhausted, the one that is so for the shortest time.
    fn victim(&mut self, now_us: u64) -> usize {
        for _ in 0..self.entries.len() * 2 {
            self.hand = (self.hand + 1) % self.entries.len();
            let entry = &mut self.entries[self.hand];
            if entry.exhausted_until > now_us {
                continue;
            }
            if !entry.used {
                return self.hand;
            }
            entry.used = false;
        }
        let shortest = self.entries.iter().enumerate().min_by_key(|(_, entry)| entry.exhausted_until);
        shortest.map_or(0, |(at, _)| at)
    }
}
