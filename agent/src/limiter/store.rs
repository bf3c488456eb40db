//! What a counter store is, and how it fails.
//!
//! Two real stores implement [`CounterStore`]: [`RedisStore`](super::script::RedisStore) (a shard) and
//! [`MemoryStore`](super::memory::MemoryStore) (this process). One conformance suite runs over both.

use std::future::Future;

use weir_core::counter::{CounterCall, CounterReply};
use weir_core::key::CounterKey;
use weir_core::lease::LeaseId;
use weir_core::limit::{Algorithm, Bound};

/// Counts units and decides, atomically.
pub trait CounterStore: Send + Sync {
    /// Decides each request in order: all or nothing over its limits that are not shadow. One reply per limit, in order. The keys of one
    /// request are distinct; requests may share keys, and each sees what the one before it wrote.
    ///
    /// # Errors
    /// [`StoreError`] if the store did not answer, or not with an answer that can be believed; never a decision.
    fn check(&self, requests: &[&[CounterCall]]) -> impl Future<Output = Result<Vec<Vec<CounterReply>>, StoreError>> + Send;

    /// Gives back what requests consumed, at most once each. Returns the units that each refund really gave back: none where the counter
    /// is gone, counts by another algorithm now, or has begun another fixed window.
    ///
    /// # Errors
    /// [`StoreError`] if the store did not answer; the units may then be stranded until they would have left anyway.
    fn refund(&self, refunds: &[Refund]) -> impl Future<Output = Result<Vec<u64>, StoreError>> + Send;

    /// Clears counters. Returns whether there was one.
    ///
    /// # Errors
    /// [`StoreError`] if the store did not answer.
    fn reset(&self, keys: &[CounterKey]) -> impl Future<Output = Result<Vec<bool>, StoreError>> + Send;

    /// Ends leases. Returns whether each was there.
    ///
    /// # Errors
    /// [`StoreError`] if the store did not answer; a lease expires by itself.
    fn release(&self, releases: &[Release]) -> impl Future<Output = Result<Vec<bool>, StoreError>> + Send;
}

/// Units on their way back: their request did not happen, or another shard refused it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refund {
    /// The counter.
    pub key: CounterKey,
    /// What the units were taken under.
    pub bound: Bound,
    /// How many.
    pub units: u64,
    /// [`CounterReply::time_us`] of the consume: a fixed window that is over gets nothing back. 0 if nobody knows: now.
    pub time_us: u64,
    /// Of `concurrency`: the lease that ends.
    pub lease: Option<LeaseId>,
}

/// A lease of `concurrency` that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// The counter.
    pub key: CounterKey,
    /// The lease.
    pub lease: LeaseId,
}

impl Refund {
    /// Gives back what `call` took, by the store's own word in `reply`.
    #[must_use]
    pub const fn of(call: &CounterCall, reply: &CounterReply) -> Self {
        Self { key: call.key, bound: call.bound, units: call.units(), time_us: reply.time_us, lease: call.lease }
    }
}

impl From<Release> for Refund {
    /// The same as units that go back: under any bound, since a lease ends whatever the limit.
    fn from(release: Release) -> Self {
        let bound = Bound { algorithm: Algorithm::Concurrency, limit: 1, capacity: 1, window_us: 1_000_000, calendar: None };
        Self { key: release.key, bound, units: 1, time_us: 0, lease: Some(release.lease) }
    }
}

/// Why a store gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The server answered with an error, or the connection broke.
    #[error("{0}")]
    Redis(#[from] redis::RedisError),
    /// The server answered something that the script cannot have said.
    #[error("the script's reply is unreadable: {0}")]
    Reply(&'static str),
}
