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
use weir_core::key::CounterKey;

use super::slots::slot_of;
use super::store::Refund;

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

    fn is_wanted(&self, now: Instant) -> bool {
        self.askers.iter().any(|asker| asker.deadline > now && !asker.answer.is_closed())
    }

    /// Takes another in, to go in the same call; gives it back if it cannot.
    fn join(&mut self, other: Self, by_slot: bool) -> Option<Self> {
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
mod tests {
    use std::time::Duration;

    use super::*;
    use weir_core::key::{HashSecret, Tag, counter_key};
    use weir_core::limit::{Algorithm, Bound};

    fn call() -> CounterCall {
        let key = counter_key(&HashSecret::built_in(), Tag::of_rule(&HashSecret::built_in(), "d", "r", &[]), "r", &[]);
        let bound = Bound { algorithm: Algorithm::TokenBucket, limit: 1, capacity: 1, window_us: 1_000_000, calendar: None };
        CounterCall::check(key, bound, 1)
    }

    fn push(queue: &Queue, limits: usize, deadline: Instant) -> Option<oneshot::Receiver<Answer>> {
        let (answer, receiver) = oneshot::channel();
        let waiting = Waiting { calls: vec![call(); limits], deadline, answer, repeated: false, way: Way::default() };
        queue.push(waiting, Instant::now()).ok().map(|()| receiver)
    }

    #[test]
    fn on_a_cluster_a_call_stays_within_one_slot() {
        let (queue, now) = (Queue::default(), Instant::now());
        let later = now + Duration::from_secs(60);
        let way = |slot, asking, alone| Way { slot: Some(slot), asking, alone, hops: 0 };
        let ways = [
            way(1, false, false),
            way(2, false, false),
            way(1, false, false),
            way(1, true, false),
            way(1, false, true),
            way(2, false, false),
        ];
        let receivers: Vec<_> = ways
            .into_iter()
            .map(|way| {
                let (answer, receiver) = oneshot::channel();
                assert!(queue.push(Waiting { calls: vec![call()], deadline: later, answer, repeated: false, way }, now).is_ok());
                receiver
            })
            .collect();
        let batches = std::iter::repeat_with(|| queue.take(now)).take_while(|batch| !batch.is_empty());
        let seen: Vec<_> = batches.map(|batch| (batch.len(), batch[0].way)).collect();
        assert_eq!(seen, [(2, ways[0]), (2, ways[1]), (1, ways[3]), (1, ways[4])]);
        drop(receivers);
        let refund = |subject: u8| {
            let tag = Tag::of_rule(&HashSecret::built_in(), "d", &subject.to_string(), &[]);
            Refund { key: counter_key(&HashSecret::built_in(), tag, "r", &[]), bound: call().bound, units: 1, time_us: 0, lease: None }
        };
        queue.push_refunds(Refunds { refunds: vec![refund(1), refund(1), refund(2)], moved: false });
        assert_eq!([(); 2].map(|()| queue.take_refunds(true).refunds.len()), [2, 1]);
        let (one, other) = (operation(Work::Refunds(vec![refund(1)]), later), operation(Work::Refunds(vec![refund(2)]), later));
        assert!(queue.push_operation(one.0).is_ok() && queue.push_operation(other.0).is_ok());
        assert_eq!([(); 2].map(|()| queue.take_operation(now, true).map(|operation| operation.work.len())), [Some(1); 2]);
    }

    fn operation(work: Work, deadline: Instant) -> (Operation, oneshot::Receiver<Result<Vec<u64>, Cause>>) {
        let (answer, receiver) = oneshot::channel();
        let asker = Asker { counters: work.len(), deadline, answer };
        (Operation::new(work, asker), receiver)
    }

    #[test]
    fn operations_of_a_kind_go_together_and_each_hears_its_own() {
        let (queue, now) = (Queue::default(), Instant::now());
        let later = now + Duration::from_secs(60);
        let mut receivers = Vec::new();
        let mut push = |work, deadline| {
            let (operation, receiver) = operation(work, deadline);
            assert!(queue.push_operation(operation).is_ok());
            receivers.push(receiver);
        };
        let key = call().key;
        push(Work::Resets(vec![key; 2]), later);
        push(Work::Resets(vec![key]), now);
        push(Work::Resets(vec![key; 3]), later);
        push(Work::Refunds(Vec::new()), later);
        push(Work::Resets(vec![key; MAX_COUNTERS - 4]), later);
        push(Work::Resets(vec![key; 5]), later);
        let taken = queue.take_operation(now, false).unwrap();
        assert_eq!(taken.work.len(), 5);
        taken.tell(Ok(vec![1, 2, 3, 4, 5]));
        assert_eq!((receivers[0].try_recv(), receivers[2].try_recv()), (Ok(Ok(vec![1, 2])), Ok(Ok(vec![3, 4, 5]))));
        assert!(receivers[1].try_recv().is_err(), "nobody wanted it any more");
        let sizes = [(); 4].map(|()| queue.take_operation(now, false).map(|operation| operation.work.len()));
        assert_eq!(sizes, [Some(0), Some(MAX_COUNTERS - 4), Some(5), None]);
    }

    #[test]
    fn a_call_takes_at_most_128_counters() {
        let (queue, later) = (Queue::default(), Instant::now() + Duration::from_secs(60));
        let mut receivers: Vec<_> = (0..140).map(|_| push(&queue, 1, later).unwrap()).collect();
        receivers.extend((0..2).map(|_| push(&queue, 57, later).unwrap()));
        receivers.push(push(&queue, 64, later).unwrap());
        let sizes: Vec<usize> = std::iter::repeat_with(|| queue.take(Instant::now()).len()).take_while(|n| *n > 0).collect();
        assert_eq!(sizes, [128, 14, 1]);
    }

    #[test]
    fn what_nobody_wants_is_never_sent() {
        let (queue, now) = (Queue::default(), Instant::now());
        let late = push(&queue, 1, now);
        let gone = push(&queue, 1, now + Duration::from_secs(60));
        drop(gone);
        let kept = push(&queue, 2, now + Duration::from_secs(60));
        let batch = queue.take(now);
        assert_eq!(batch.iter().map(|w| w.calls.len()).collect::<Vec<_>>(), [2]);
        assert!(late.unwrap().try_recv().is_err());
        drop(kept);
    }

    #[test]
    fn the_queue_is_bounded_and_makes_room_by_itself() {
        let (queue, now) = (Queue::default(), Instant::now());
        let later = now + Duration::from_secs(60);
        let mut receivers: Vec<_> = (0..MAX_WAITING).map(|_| push(&queue, 1, later).unwrap()).collect();
        assert!(push(&queue, 1, later).is_none());
        receivers.pop();
        assert!(push(&queue, 1, later).is_some());
        assert_eq!(queue.give_up(Cause::Error), 0);
        assert!(receivers.iter_mut().all(|r| r.try_recv() == Ok(Err(Cause::Error))));
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn refunds_are_bounded() {
        let queue = Queue::default();
        let refund = Refund { key: call().key, bound: call().bound, units: 1, time_us: 0, lease: None };
        let push = |count| queue.push_refunds(Refunds { refunds: vec![refund.clone(); count], moved: false });
        assert_eq!((push(MAX_REFUNDS), push(3)), (0, 3));
        assert_eq!(queue.take_refunds(false).refunds.len(), MAX_COUNTERS);
        assert_eq!(queue.give_up(Cause::Error), MAX_REFUNDS - MAX_COUNTERS);
    }
}
