//! One connection's end of a shard: what waits for it, and whether it is asked. A shard of one primary has one line; a Redis Cluster has one
//! for each of its primaries, so that one of them in trouble leaves the others alone. The connection itself is [`session`]'s.
//!
//! [`session`]: super::session

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::CancellationToken;
use weir_core::counter::CounterCall;
use weir_core::decision::Cause;

use super::about::About;
use super::address::Host;
use super::batch::{Answer, Queue, Refunds, Waiting, Way};
use super::breaker::{Breaker, BreakerState, Failure};
use super::script::ServerClock;
use super::work::{Asker, Operation, Work};

/// The way to one primary.
#[derive(Debug)]
pub(super) struct Line {
    /// The shard that it is of.
    pub(super) about: Arc<About>,
    /// Which node of a cluster; `None` for the only line of a shard.
    pub(super) node: Option<Host>,
    pub(super) queue: Queue,
    /// What time it is there.
    pub(super) clock: ServerClock,
    in_flight: AtomicUsize,
    queued: AtomicUsize,
    /// The breaker's state for the hot path: whether the primary is asked.
    flows: AtomicBool,
    breaker: Mutex<Breaker>,
    last_error: Mutex<Option<String>>,
    is_full: AtomicBool,
    /// Whether the first connection has been made or has failed.
    settled: watch::Sender<bool>,
    /// Told when the breaker opens.
    pub(super) trouble: Arc<Notify>,
    pub(super) stop: CancellationToken,
    /// Cancelled once the connection is closed.
    closed: CancellationToken,
}

impl Line {
    /// A line that is believed to lead somewhere. `stop` ends it.
    pub(super) fn new(about: Arc<About>, node: Option<Host>, trouble: Arc<Notify>, stop: CancellationToken) -> Self {
        about.breaker_changed(node.as_ref(), None, Some(BreakerState::Closed));
        Self {
            about,
            node,
            queue: Queue::default(),
            clock: ServerClock::default(),
            in_flight: AtomicUsize::new(0),
            queued: AtomicUsize::new(0),
            flows: AtomicBool::new(true),
            breaker: Mutex::new(Breaker::new(Instant::now())),
            last_error: Mutex::default(),
            is_full: AtomicBool::new(false),
            settled: watch::Sender::new(false),
            trouble,
            stop,
            closed: CancellationToken::new(),
        }
    }

    /// Sends the limits of one request with the next call, unless `deadline` comes first.
    ///
    /// # Errors
    /// Why the primary is not asked.
    pub(super) fn ask(&self, calls: Vec<CounterCall>, deadline: Instant, way: Way) -> Result<oneshot::Receiver<Answer>, Cause> {
        if !self.flows() {
            return Err(Cause::BreakerOpen);
        }
        let (answer, receiver) = oneshot::channel();
        let pushed = self.queue.push(Waiting { calls, deadline, answer, repeated: false, way }, Instant::now());
        pushed.map(|()| receiver).map_err(|_| Cause::Overload)
    }

    /// Does something besides checks, unless `deadline` comes first.
    ///
    /// # Errors
    /// Why the primary is not asked.
    pub(super) fn operate(&self, work: Work, deadline: Instant) -> Result<oneshot::Receiver<Result<Vec<u64>, Cause>>, Cause> {
        if !self.flows() {
            return Err(Cause::BreakerOpen);
        }
        let (answer, receiver) = oneshot::channel();
        let asker = Asker { counters: work.len(), deadline, answer };
        self.queue.push_operation(Operation::new(work, asker)).map(|()| receiver).map_err(|_| Cause::Overload)
    }

    /// Takes over an operation that another line could not do; tells who waits if this one cannot either.
    pub(super) fn take_over_operation(&self, operation: Operation) {
        if !self.flows() {
            operation.tell(Err(Cause::BreakerOpen));
        } else if let Err(operation) = self.queue.push_operation(operation) {
            operation.tell(Err(Cause::Overload));
        }
    }

    /// Takes over a request that another line could not serve; tells its caller if this one cannot either.
    pub(super) fn take_over(&self, waiting: Waiting) {
        if !self.flows() {
            // Its caller may have stopped waiting.
            let _ = waiting.answer.send(Err(Cause::BreakerOpen));
        } else if let Err(waiting) = self.queue.push(waiting, Instant::now()) {
            let _ = waiting.answer.send(Err(Cause::Overload));
        }
    }

    /// Gives units back with the next call, at most once.
    pub(super) fn refund(&self, refunds: Refunds) {
        let lost = if self.flows() { self.queue.push_refunds(refunds) } else { refunds.refunds.len() };
        self.lost_refunds(lost);
    }

    pub(super) fn lost_refunds(&self, count: usize) {
        self.about.metrics.lost_refunds.inc_by(count as u64);
    }

    /// How long the primary has been away.
    pub(super) fn away_for(&self, now: Instant) -> Duration {
        self.breaker.lock().away_for(now).max(self.about.foreign_for(now))
    }

    /// A script call was answered.
    pub(super) fn succeeded(&self) {
        let (before, after, was_away) = self.change(|breaker| breaker.succeeded(Instant::now()));
        if before != after {
            tracing::info!(shard = %self.about.config.name, node = self.node_text(), "shard is back");
        }
        if was_away {
            *self.last_error.lock() = None;
        }
        self.settle();
    }

    /// Something failed that was begun at `begun`. Whoever waits is told when this stops the calls.
    pub(super) fn failed(&self, failure: Failure, begun: Instant, error: String) {
        let (before, after, ()) = self.change(|breaker| breaker.failed(failure, begun, Instant::now(), rand::random()));
        if before == BreakerState::Closed && after == BreakerState::Open {
            let (shard, address) = (&self.about.config.name, &self.about.config.address);
            tracing::warn!(%shard, %address, node = self.node_text(), error, "shard is away");
            let lost = self.queue.give_up(Cause::BreakerOpen);
            self.lost_refunds(lost);
        }
        *self.last_error.lock() = Some(error);
        if after == BreakerState::Open {
            self.trouble.notify_one();
            self.settle();
        }
    }

    /// The line is no longer used.
    pub(super) fn close(&self) {
        self.flows.store(false, Ordering::Release);
        let lost = self.queue.give_up(Cause::NoShards);
        self.lost_refunds(lost);
        self.gauge(0);
        self.about.breaker_changed(self.node.as_ref(), Some(self.breaker.lock().state()), None);
        self.about.forget_line(self.node.as_ref());
        self.settle();
        self.closed.cancel();
    }

    /// Resolves once the line is no longer used, after `stop`.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// The agent tries to reach the primary again.
    pub(super) fn probing(&self) {
        self.change(Breaker::probe);
    }

    /// When to try again.
    pub(super) fn retry_at(&self) -> Instant {
        self.breaker.lock().retry_at()
    }

    /// Whether calls are sent.
    pub(super) fn flows(&self) -> bool {
        self.flows.load(Ordering::Acquire) && !self.about.is_foreign()
    }

    /// Whether its server is short of memory: nothing new may be created there that clients can name.
    pub(super) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    pub(super) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// Whether the breaker lets calls through, whatever else may stop them.
    pub(super) fn is_up(&self) -> bool {
        self.flows.load(Ordering::Acquire)
    }

    pub(super) fn breaker(&self) -> BreakerState {
        self.breaker.lock().state()
    }

    /// What went wrong last, if anything did since the last recovery.
    pub(super) fn last_error(&self) -> Option<String> {
        self.last_error.lock().clone()
    }

    /// Calls on their way, and checks that wait.
    pub(super) fn load(&self) -> (usize, usize) {
        (self.in_flight.load(Ordering::Relaxed), self.queue.len())
    }

    /// Says how many calls are on their way.
    pub(super) fn gauge(&self, calls: usize) {
        let metrics = &self.about.metrics;
        let moved = |gauge: &prometheus_client::metrics::gauge::Gauge, before: &AtomicUsize, now: usize| {
            let before = before.swap(now, Ordering::Relaxed);
            if before != now {
                gauge.inc_by(i64::try_from(now).unwrap_or(i64::MAX) - i64::try_from(before).unwrap_or(i64::MAX));
            }
        };
        moved(&metrics.in_flight, &self.in_flight, calls);
        moved(&metrics.queued, &self.queued, self.queue.len());
    }

    /// Resolves once the primary has been reached or has failed.
    pub(super) async fn settled(&self) {
        // The sender is here, so it is not gone.
        let _ = self.settled.subscribe().wait_for(|settled| *settled).await;
    }

    pub(super) fn settle(&self) {
        self.settled.send_if_modified(|settled| !std::mem::replace(settled, true));
    }

    /// Which node, for the log; empty for the only one.
    pub(super) fn node_text(&self) -> String {
        self.node.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    /// Changes the breaker; returns its state before and after.
    fn change<T>(&self, with: impl FnOnce(&mut Breaker) -> T) -> (BreakerState, BreakerState, T) {
        let mut breaker = self.breaker.lock();
        let before = breaker.state();
        let result = with(&mut breaker);
        let after = breaker.state();
        if before != after {
            self.flows.store(after == BreakerState::Closed, Ordering::Release);
            self.about.breaker_changed(self.node.as_ref(), Some(before), Some(after));
        }
        (before, after, result)
    }
}
