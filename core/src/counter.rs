//! One limit of one request on its way to a counter store, and the store's answer.

use crate::key::CounterKey;
use crate::lease::LeaseId;
use crate::limit::{Algorithm, Bound};

/// What is done with a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Action {
    /// Decide, and consume if the whole request passes.
    #[default]
    Check,
    /// Decide, and write nothing at all: no counter comes to be, none is brought into order.
    Peek,
    /// Consume without deciding: the cost is known only afterwards. It always passes. The counter may go past its limit by at most one
    /// further capacity; what would be beyond that is not counted.
    Record,
}

/// One limit of one request, ready for a counter store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterCall {
    /// Where the counter lives.
    pub key: CounterKey,
    /// What may pass.
    pub bound: Bound,
    /// Units to take, at most [`crate::limit::MAX_UNITS`]; 0 looks without taking. A `concurrency` limit takes one lease for any cost.
    pub cost: u64,
    /// A shadow limit never refuses the request; it is written only if the request is admitted.
    pub shadow: bool,
    /// What is done.
    pub action: Action,
    /// For `concurrency`: the name of the lease to acquire; without one it is only decided. Acquired again under the same name, a lease stays as
    /// it is.
    pub lease: Option<LeaseId>,
    /// Whether a counter may come to be where there is none. If not, nothing is written where there is none, and
    /// [`CounterReply::uncounted`] says so.
    pub may_create: bool,
}

impl CounterCall {
    /// A check of `cost` units that can refuse.
    #[must_use]
    pub const fn check(key: CounterKey, bound: Bound, cost: u64) -> Self {
        Self { key, bound, cost, shadow: false, action: Action::Check, lease: None, may_create: true }
    }

    /// Whether it writes if it passes.
    #[must_use]
    pub const fn writes(&self) -> bool {
        let leaseless = matches!(self.bound.algorithm, Algorithm::Concurrency) && self.lease.is_none();
        self.cost > 0 && !matches!(self.action, Action::Peek) && !leaseless
    }

    /// The units that it takes, or asks about.
    #[must_use]
    pub const fn units(&self) -> u64 {
        match self.bound.algorithm {
            Algorithm::Concurrency if self.cost > 1 => 1,
            _ => self.cost,
        }
    }
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
    /// There is no counter, and the call may not create one: it passed within its request, but nothing was decided or written here.
    pub uncounted: bool,
}

impl CounterReply {
    /// The reply to a call that passed.
    #[must_use]
    pub const fn passed(remaining: u64, reset_after_us: u64, time_us: u64) -> Self {
        Self { allowed: true, remaining, reset_after_us, retry_after_us: Some(0), time_us, replaced: false, uncounted: false }
    }
}
