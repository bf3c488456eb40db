//! The counter store in this process: for an agent without Redis, for the fallback while a shard is away, and for tests.

use std::sync::Arc;

use weir_core::clock::Clock;
use weir_core::counter::{CounterCall, CounterReply};
use weir_core::key::CounterKey;
use weir_core::limit::Bound;

use super::store::{CounterStore, Refund, StoreError};

/// A bounded table of counters on a monotonic clock.
pub struct MemoryStore {
    _clock: Arc<dyn Clock>,
}

impl MemoryStore {
    /// A store for at most `capacity` counters.
    #[must_use]
    pub fn new(_capacity: usize, clock: Arc<dyn Clock>) -> Self {
        Self { _clock: clock }
    }

    /// [`CounterStore::check`], without waiting for anything but short locks.
    #[must_use]
    pub fn check_now(&self, _requests: &[&[CounterCall]]) -> Vec<Vec<CounterReply>> {
        todo!()
    }

    /// [`CounterStore::refund`], without waiting for anything but short locks.
    pub fn refund_now(&self, _refunds: &[Refund]) -> Vec<u64> {
        todo!()
    }

    /// Starts a token bucket at `key` with `used` units consumed (at most the capacity), unless there is a live counter.
    /// Returns whether it did.
    pub fn start_bucket(&self, _key: CounterKey, _bound: &Bound, _used: u64) -> bool {
        todo!()
    }

    /// Forgets a counter.
    pub fn remove(&self, _key: &CounterKey) {
        todo!()
    }

    /// Counters held, expired ones not yet cleared away included.
    #[must_use]
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Whether no counter is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Live counters that were forgotten to make room, since the start.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        todo!()
    }
}

impl CounterStore for MemoryStore {
    async fn check(&self, requests: &[&[CounterCall]]) -> Result<Vec<Vec<CounterReply>>, StoreError> {
        Ok(self.check_now(requests))
    }

    async fn refund(&self, refunds: &[Refund]) -> Result<Vec<u64>, StoreError> {
        Ok(self.refund_now(refunds))
    }
}
