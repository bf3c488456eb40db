//! What is done on a shard besides checks, for some who wait for it; those of one kind share a call.

use std::time::Instant;

use tokio::sync::oneshot;
use weir_core::decision::Cause;
use weir_core::key::CounterKey;

use super::batch::MAX_COUNTERS;
use super::slots::slot_of;
use super::store::Refund;

/// What is done besides checks. On a cluster all of it is in one slot.
#[derive(Debug)]
pub(super) enum Work {
    /// Units to give back, and leases to end.
    Refunds(Vec<Refund>),
    Resets(Vec<CounterKey>),
}

/// Work for some who wait for what comes of it: units given back and counters cleared, in order.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) work: Work,
    pub(super) askers: Vec<Asker>,
    /// It was sent to a node of a cluster that it is not for.
    pub(super) moved: bool,
}

/// One who waits for part of an operation.
#[derive(Debug)]
pub(super) struct Asker {
    /// How many counters of the work are its own.
    pub(super) counters: usize,
    /// When it stops waiting.
    pub(super) deadline: Instant,
    pub(super) answer: oneshot::Sender<Result<Vec<u64>, Cause>>,
}

impl Work {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Refunds(refunds) => refunds.len(),
            Self::Resets(keys) => keys.len(),
        }
    }

    /// The slot of its counters.
    pub(super) fn slot(&self) -> Option<u16> {
        let first = match self {
            Self::Refunds(refunds) => &refunds.first()?.key,
            Self::Resets(keys) => keys.first()?,
        };
        Some(slot_of(first.tag()))
    }
}

impl Operation {
    pub(super) fn new(work: Work, asker: Asker) -> Self {
        Self { work, askers: vec![asker], moved: false }
    }

    pub(super) fn is_wanted(&self, now: Instant) -> bool {
        self.askers.iter().any(|asker| asker.deadline > now && !asker.answer.is_closed())
    }

    /// Takes another in, to go in the same call; gives it back if it cannot.
    pub(super) fn join(&mut self, other: Self, by_slot: bool) -> Option<Self> {
        if self.work.len() + other.work.len() > MAX_COUNTERS || by_slot && self.work.slot() != other.work.slot() {
            return Some(other);
        }
        match (&mut self.work, other.work) {
            (Work::Refunds(refunds), Work::Refunds(more)) => refunds.extend(more),
            (Work::Resets(keys), Work::Resets(more)) => keys.extend(more),
            (_, work) => return Some(Self { work, ..other }),
        }
        self.askers.extend(other.askers);
        self.moved |= other.moved;
        None
    }

    /// Tells everybody who waits what came of it.
    pub(super) fn tell(self, mut outcome: Result<Vec<u64>, Cause>) {
        for asker in self.askers {
            let own = outcome.as_mut().map(|counts| counts.drain(..asker.counters.min(counts.len())).collect());
            // It may have stopped waiting.
            let _ = asker.answer.send(own.map_err(|cause| *cause));
        }
    }
}
