//! Natural batching: requests that arrive while calls are in flight wait here, and leave together as one call.
//!
//! Nothing waits for company: whoever finds a free call goes at once. What waits is bounded, and what has waited past its deadline is
//! never sent, so it never counts.

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use weir_core::counter::{CounterCall, CounterReply};
use weir_core::decision::Cause;

use super::slots::slot_of;
use super::store::Refund;
use super::work::Operation;

/// The most counters in one call, which takes a server half a millisecond. A request has at most half as many.
pub(super) const MAX_COUNTERS: usize = 128;
/// The most requests that wait for one shard.
pub(super) const MAX_WAITING: usize = 1024;
/// How many of those that wait are looked at for company, where not all can share a call.
const LOOK: usize = 64;
/// The most refunds that wait for one shard; further ones are lost, which strands their units until they would have left anyway.
const MAX_REFUNDS: usize = 4096;
/// The most operations that wait for one shard.
const MAX_OPERATIONS: usize = 1024;

/// What the shard said about one request, or why it said nothing.
pub(super) type Answer = Result<Vec<CounterReply>, Cause>;

/// One request on its way to a shard.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) calls: Vec<CounterCall>,
    /// When its caller stops waiting.
    pub(super) deadline: Instant,
    pub(super) answer: oneshot::Sender<Answer>,
    /// It went once, with calendar windows that were not those of the shard's clock, and did not count.
    pub(super) repeated: bool,
    pub(super) way: Way,
}

/// Units on their way back, for which nobody waits.
#[derive(Debug, Default)]
pub(super) struct Refunds {
    pub(super) refunds: Vec<Refund>,
    /// One of them was sent to a node of a cluster that it is not for.
    pub(super) moved: bool,
}

/// How a request finds its counters on a cluster; nothing elsewhere. Only requests that go the same way share a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Way {
    /// The slot of its counters.
    pub(super) slot: Option<u16>,
    /// The slot is on its way to the node, which must be told that this is known.
    pub(super) asking: bool,
    /// It goes in a call of its own.
    pub(super) alone: bool,
    /// How often it was sent to a node that did not serve it.
    pub(super) hops: u8,
}

impl Way {
    /// Whether requests of both ways may share a call.
    fn joins(self, other: Self) -> bool {
        self.slot == other.slot && self.asking == other.asking && !self.alone && !other.alone
    }
}

impl Waiting {
    /// Whether somebody still wants the answer.
    pub(super) fn is_wanted(&self, now: Instant) -> bool {
        self.deadline > now && !self.answer.is_closed()
    }
}

/// What waits for one shard.
#[derive(Debug, Default)]
pub(super) struct Queue {
    requests: Mutex<VecDeque<Waiting>>,
    /// Each with whether it was sent to a node that it is not for.
    refunds: Mutex<VecDeque<(Refund, bool)>>,
    operations: Mutex<VecDeque<Operation>>,
    arrival: Notify,
}

impl Queue {
    /// Adds a request; gives it back if too many wait.
    pub(super) fn push(&self, request: Waiting, now: Instant) -> Result<(), Waiting> {
        let mut requests = self.requests.lock();
        if requests.len() >= MAX_WAITING {
            requests.retain(|waiting| waiting.is_wanted(now));
            if requests.len() >= MAX_WAITING {
                return Err(request);
            }
        }
        requests.push_back(request);
        drop(requests);
        self.arrival.notify_one();
        Ok(())
    }

    /// Adds refunds; returns how many had no room.
    pub(super) fn push_refunds(&self, new: Refunds) -> usize {
        let mut refunds = self.refunds.lock();
        let room = MAX_REFUNDS.saturating_sub(refunds.len()).min(new.refunds.len());
        let lost = new.refunds.len() - room;
        refunds.extend(new.refunds.into_iter().take(room).map(|refund| (refund, new.moved)));
        drop(refunds);
        self.arrival.notify_one();
        lost
    }

    /// Adds an operation; gives it back if too many wait.
    pub(super) fn push_operation(&self, operation: Operation) -> Result<(), Operation> {
        let mut operations = self.operations.lock();
        if operations.len() >= MAX_OPERATIONS {
            return Err(operation);
        }
        operations.push_back(operation);
        drop(operations);
        self.arrival.notify_one();
        Ok(())
    }

    /// The next operations that fit into one call, as one; `by_slot`: only those of one slot. What nobody wants any more is dropped.
    pub(super) fn take_operation(&self, now: Instant, by_slot: bool) -> Option<Operation> {
        let mut operations = self.operations.lock();
        let mut next = || std::iter::from_fn(|| operations.pop_front()).find(|operation| operation.is_wanted(now));
        let mut taken = next()?;
        let mut left = None;
        while left.is_none()
            && let Some(other) = next()
        {
            left = taken.join(other, by_slot);
        }
        if let Some(left) = left {
            operations.push_front(left);
        }
        Some(taken)
    }

    /// Adds a request again, before those that wait: it was sent and did not count.
    pub(super) fn push_again(&self, request: Waiting) {
        self.requests.lock().push_front(request);
        self.arrival.notify_one();
    }

    /// Resolves once something may have arrived.
    pub(super) async fn arrival(&self) {
        self.arrival.notified().await;
    }

    /// The next requests that fit into one call; what nobody wants any more is dropped.
    pub(super) fn take(&self, now: Instant) -> Vec<Waiting> {
        let mut requests = self.requests.lock();
        let mut batch: Vec<Waiting> = Vec::with_capacity(requests.len().min(MAX_COUNTERS));
        let mut counters = 0;
        while let Some(next) = requests.front() {
            if !next.is_wanted(now) {
                requests.pop_front();
                continue;
            }
            if batch.first().is_some_and(|first| first.way.slot.is_some()) {
                break;
            }
            counters += next.calls.len();
            if !batch.is_empty() && counters > MAX_COUNTERS {
                break;
            }
            batch.extend(requests.pop_front());
        }
        if let Some(way) = batch.first().map(|first| first.way).filter(|way| way.slot.is_some()) {
            gather(&mut requests, &mut batch, way);
        }
        batch
    }

    /// All requests that wait.
    pub(super) fn take_all(&self) -> VecDeque<Waiting> {
        std::mem::take(&mut *self.requests.lock())
    }

    /// The next refunds that fit into one call; `by_slot`: only those of one slot.
    pub(super) fn take_refunds(&self, by_slot: bool) -> Refunds {
        let mut refunds = self.refunds.lock();
        let slot = |(refund, _): &(Refund, bool)| slot_of(refund.key.tag());
        let first = refunds.front().filter(|_| by_slot).map(slot);
        let alike = refunds.iter().take(MAX_COUNTERS).take_while(|next| first.is_none_or(|first| slot(next) == first)).count();
        let mut taken = Refunds::default();
        for (refund, moved) in refunds.drain(..alike) {
            taken.refunds.push(refund);
            taken.moved |= moved;
        }
        taken
    }

    /// Everything else that waits.
    pub(super) fn take_others(&self) -> (VecDeque<Operation>, VecDeque<(Refund, bool)>) {
        (std::mem::take(&mut *self.operations.lock()), std::mem::take(&mut *self.refunds.lock()))
    }

    /// Requests that wait.
    pub(super) fn len(&self) -> usize {
        self.requests.lock().len()
    }

    /// Tells everybody who waits that there will be no answer. Refunds are lost too; their count is returned.
    pub(super) fn give_up(&self, cause: Cause) -> usize {
        for waiting in std::mem::take(&mut *self.requests.lock()) {
            // Nobody listens any more: fine.
            let _ = waiting.answer.send(Err(cause));
        }
        for operation in std::mem::take(&mut *self.operations.lock()) {
            operation.tell(Err(cause));
        }
        std::mem::take(&mut *self.refunds.lock()).len()
    }
}

/// Takes more requests of this way into a call for one slot, as far as one looks.
fn gather(requests: &mut VecDeque<Waiting>, batch: &mut Vec<Waiting>, way: Way) {
    let (mut counters, mut at) = (batch.iter().map(|waiting| waiting.calls.len()).sum::<usize>(), 0);
    while at < requests.len().min(LOOK) {
        let joins = requests[at].way.joins(way) && counters + requests[at].calls.len() <= MAX_COUNTERS;
        match joins.then(|| requests.remove(at)).flatten() {
            Some(waiting) => {
                counters += waiting.calls.len();
                batch.push(waiting);
            }
            None => at += 1,
        }
    }
}

#[cfg(test)]
mod tests;
