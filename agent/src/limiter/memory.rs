//! The counter store in this process: for an agent without Redis, for the fallback while a shard is away, and for tests.
//!
//! A fixed number of tables, each behind its own lock and each bounded. All counters of one subject are in one table, so a request mostly
//! takes one lock. Where a table is full, `table` says who goes.

mod table;

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use weir_core::algorithm::{self, Counter};
use weir_core::clock::Clock;
use weir_core::counter::{CounterCall, CounterReply};
use weir_core::key::CounterKey;
use weir_core::limit::Bound;

use self::table::Table;
use super::store::{CounterStore, Refund, Release, StoreError};

/// The most tables there are; fewer where each would hold less than [`FULL_TABLE`] counters.
const MAX_TABLES: usize = 64;
const FULL_TABLE: usize = 1024;

/// A bounded table of counters on a monotonic clock.
///
/// Its time is the wall clock at its start, so that fixed windows are aligned to the epoch, and runs on monotonically from there.
pub struct MemoryStore {
    tables: Box<[Mutex<Table>]>,
    clock: Arc<dyn Clock>,
    started: Instant,
    started_us: u64,
}

impl MemoryStore {
    /// A store for at most `capacity` counters (at least one).
    #[must_use]
    pub fn new(capacity: usize, clock: Arc<dyn Clock>) -> Self {
        let count = (capacity / FULL_TABLE).clamp(1, MAX_TABLES);
        let tables = (0..count).map(|_| Mutex::new(Table::new(capacity / count))).collect();
        let started_us = u64::try_from(clock.wall().as_micros()).unwrap_or_default();
        Self { tables, started: clock.now(), started_us, clock }
    }

    /// [`CounterStore::check`], without waiting for anything but short locks.
    #[must_use]
    pub fn check_now(&self, requests: &[&[CounterCall]]) -> Vec<Vec<CounterReply>> {
        let now = self.now_us();
        requests.iter().map(|calls| self.decide(calls, now)).collect()
    }

    /// [`CounterStore::refund`], without waiting for anything but short locks.
    pub fn refund_now(&self, refunds: &[Refund]) -> Vec<u64> {
        let now = self.now_us();
        let give = |refund: &Refund| {
            let mut table = self.table_of(&refund.key).lock();
            let mut counter = table.take(&refund.key);
            let given = algorithm::give_back(&mut counter, &refund.bound, refund.units, refund.time_us, refund.lease.as_ref(), now);
            table.put(refund.key, counter, now);
            given
        };
        refunds.iter().map(give).collect()
    }

    /// Starts a token bucket at `key` with `used` units consumed (at most the capacity), unless there is a live counter.
    /// Returns whether it did.
    pub fn start_bucket(&self, key: CounterKey, bound: &Bound, used: u64) -> bool {
        let now = self.now_us();
        let mut table = self.table_of(&key).lock();
        let counter = table.take(&key).filter(|counter| !counter.is_expired(now));
        let starts = counter.is_none() && bound.limit > 0;
        let counter = if starts { Some(algorithm::token_bucket::bucket(bound, used, now)) } else { counter };
        table.put(key, counter, now);
        starts
    }

    /// [`CounterStore::reset`], without waiting for anything but short locks.
    pub fn reset_now(&self, keys: &[CounterKey]) -> Vec<bool> {
        let now = self.now_us();
        let reset = |key: &CounterKey| {
            let mut table = self.table_of(key).lock();
            let live = table.take(key).is_some_and(|counter| !counter.is_expired(now));
            table.remove(key);
            live
        };
        keys.iter().map(reset).collect()
    }

    /// [`CounterStore::release`], without waiting for anything but short locks.
    pub fn release_now(&self, releases: &[Release]) -> Vec<bool> {
        let now = self.now_us();
        let end = |release: &Release| {
            let mut table = self.table_of(&release.key).lock();
            let mut counter = table.take(&release.key);
            let ended = algorithm::release(&mut counter, &release.lease, now);
            table.put(release.key, counter, now);
            ended
        };
        releases.iter().map(end).collect()
    }

    /// Forgets a counter.
    pub fn remove(&self, key: &CounterKey) {
        self.table_of(key).lock().remove(key);
    }

    /// Counters held, expired ones not yet cleared away included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tables.iter().map(|table| table.lock().len()).sum()
    }

    /// Whether no counter is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Live counters that were forgotten to make room, since the start.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.tables.iter().map(|table| table.lock().evictions()).sum()
    }

    fn now_us(&self) -> u64 {
        let elapsed = self.clock.now().saturating_duration_since(self.started);
        self.started_us + u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX >> 12)
    }

    fn decide(&self, calls: &[CounterCall], now: u64) -> Vec<CounterReply> {
        let mut locked = Locked::new(self, calls);
        let mut counters: Vec<Option<Counter>> = calls.iter().map(|call| locked.table(self.place_of(&call.key)).take(&call.key)).collect();
        let replies = algorithm::decide(calls, &mut counters, now);
        for ((call, counter), reply) in calls.iter().zip(counters).zip(&replies) {
            let table = locked.table(self.place_of(&call.key));
            table.put(call.key, counter, now);
            table.mark(&call.key, exhausted_until(reply));
        }
        replies
    }

    fn place_of(&self, key: &CounterKey) -> usize {
        // The tag is a hash in base64url: multiply its bytes into the high bits, and scale those to the number of tables.
        let hash = key.tag().iter().fold(0u32, |hash, byte| (hash.rotate_left(7) ^ u32::from(*byte)).wrapping_mul(0x9E37_79B1));
        ((u64::from(hash) * self.tables.len() as u64) >> 32) as usize
    }

    fn table_of(&self, key: &CounterKey) -> &Mutex<Table> {
        &self.tables[self.place_of(key)]
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").field("tables", &self.tables.len()).field("counters", &self.len()).finish_non_exhaustive()
    }
}

/// Until when nothing at all passes, in the store's microseconds; 0 if something does.
fn exhausted_until(reply: &CounterReply) -> u64 {
    match reply.retry_after_us {
        _ if reply.remaining > 0 => 0,
        Some(retry) if !reply.allowed => reply.time_us + retry,
        _ => reply.time_us + reply.reset_after_us,
    }
}

/// The tables of one request, locked in ascending order so that two requests never wait for each other.
struct Locked<'a> {
    tables: Vec<(usize, MutexGuard<'a, Table>)>,
}

impl<'a> Locked<'a> {
    fn new(store: &'a MemoryStore, calls: &[CounterCall]) -> Self {
        let mut places: Vec<usize> = calls.iter().map(|call| store.place_of(&call.key)).collect();
        places.sort_unstable();
        places.dedup();
        Self { tables: places.into_iter().map(|place| (place, store.tables[place].lock())).collect() }
    }

    fn table(&mut self, place: usize) -> &mut Table {
        let at = self.tables.partition_point(|(other, _)| *other < place);
        &mut self.tables[at].1
    }
}

impl CounterStore for MemoryStore {
    async fn check(&self, requests: &[&[CounterCall]]) -> Result<Vec<Vec<CounterReply>>, StoreError> {
        Ok(self.check_now(requests))
    }

    async fn refund(&self, refunds: &[Refund]) -> Result<Vec<u64>, StoreError> {
        Ok(self.refund_now(refunds))
    }

    async fn reset(&self, keys: &[CounterKey]) -> Result<Vec<bool>, StoreError> {
        Ok(self.reset_now(keys))
    }

    async fn release(&self, releases: &[Release]) -> Result<Vec<bool>, StoreError> {
        Ok(self.release_now(releases))
    }
}

#[cfg(test)]
mod tests;
