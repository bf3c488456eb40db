use std::time::Duration;

use super::super::work::{Asker, Work};
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
    let ways =
        [way(1, false, false), way(2, false, false), way(1, false, false), way(1, true, false), way(1, false, true), way(2, false, false)];
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
