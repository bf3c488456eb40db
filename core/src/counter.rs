//! One limit of one request on its way to a counter store, and the store's answer.

use crate::key::CounterKey;
use crate::limit::Bound;

/// One limit of one request, ready for a counter store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterCall {
    /// Where the counter lives.
    pub key: CounterKey,
    /// What may pass.
    pub bound: Bound,
    /// Units to take, at most [`crate::limit::MAX_UNITS`]; 0 looks without taking.
    pub cost: u64,
    /// A shadow limit never refuses the request; it is written only if the request is admitted.
    pub shadow: bool,
}

/// What a counter said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterReply {
    /// Whether this limit alone lets the cost pass (for a shadow limit: would).
    pub allowed: bool,
    /// Units left now (after the consume, if the request was admitted), never above the capacity.
    pub remaining: u64,
    /// Microseconds until nothing is consumed any more.
    pub reset_after_us: u64,
    /// Microseconds until the same cost would pass: 0 if it passed; `None` if it never can (cost above capacity).
    pub retry_after_us: Option<u64>,
    /// The store's clock at the call, in microseconds since the epoch (for `memory`: of its own monotonic clock). A refund carries it.
    pub time_us: u64,
    /// State under the key was unreadable and has been replaced by an empty counter.
    pub replaced: bool,
}

impl CounterReply {
    /// The reply to a call that passed.
    #[must_use]
    pub const fn passed(remaining: u64, reset_after_us: u64, time_us: u64) -> Self {
        Self { allowed: true, remaining, reset_after_us, retry_after_us: Some(0), time_us, replaced: false }
    }
}
