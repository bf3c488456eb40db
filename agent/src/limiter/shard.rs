//! One shard as the rest of the limiter sees it: ask it, give units back to it, see how it is doing. The connection is [`session`]'s.
//!
//! [`session`]: super::session

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use secrecy::ExposeSecret as _;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use weir_core::counter::CounterCall;
use weir_core::decision::Cause;
use weir_core::name::Name;

use super::ShardStatus;
use super::batch::{Answer, Operation, Queue, Waiting, Work};
use super::breaker::{Breaker, BreakerState, Failure};
use super::metrics::ShardMetrics;
use super::script::ServerClock;
use super::session;
use super::settings::{LimiterSettings, ShardConfig};
use super::store::Refund;

/// One shard of the ring.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) config: ShardConfig,
    pub(super) queue: Queue,
    pub(super) metrics: ShardMetrics,
    pub(super) clock: ServerClock,
    /// The shard is short of memory: nothing new may be created there that clients can name.
    is_full: AtomicBool,
    /// The breaker's state for the hot path: whether the shard is asked.
    flows: AtomicBool,
    breaker: Mutex<Breaker>,
    last_error: Mutex<Option<String>>,
    /// Whether the first connection has been made or has failed.
    settled: watch::Sender<bool>,
    pub(super) stop: CancellationToken,
    /// Cancelled once the connection is closed.
    closed: CancellationToken,
}

impl Shard {
    /// A shard with a task that keeps its connection, until `stop`.
    pub(super) fn start(config: ShardConfig, settings: &LimiterSettings, metrics: ShardMetrics) -> Arc<Self> {
        let shard = Arc::new(Self {
            config,
            queue: Queue::default(),
            metrics,
            clock: ServerClock::default(),
            is_full: AtomicBool::new(false),
            flows: AtomicBool::new(true),
            breaker: Mutex::new(Breaker::new(Instant::now())),
            last_error: Mutex::default(),
            settled: watch::Sender::new(false),
            stop: CancellationToken::new(),
            closed: CancellationToken::new(),
        });
        tokio::spawn(session::run(shard.clone(), settings.clone()));
        shard
    }

    pub(super) fn name(&self) -> &Name {
        &self.config.name
    }

    /// Sends the limits of one request to the shard with the next call, unless `deadline` comes first.
    ///
    /// # Errors
    /// Why the shard is not asked.
    pub(super) fn ask(&self, calls: Vec<CounterCall>, deadline: Instant) -> Result<oneshot::Receiver<Answer>, Cause> {
        if !self.flows.load(Ordering::Acquire) {
            return Err(Cause::BreakerOpen);
        }
        let (answer, receiver) = oneshot::channel();
        if self.queue.push(Waiting { calls, deadline, answer, repeated: false }, Instant::now()) {
            Ok(receiver)
        } else {
            Err(Cause::Overload)
        }
    }

    /// Does something besides checks, unless `deadline` comes first.
    ///
    /// # Errors
    /// Why the shard is not asked.
    pub(super) fn operate(&self, work: Work, deadline: Instant) -> Result<oneshot::Receiver<Result<Vec<u64>, Cause>>, Cause> {
        if !self.flows.load(Ordering::Acquire) {
            return Err(Cause::BreakerOpen);
        }
        let (answer, receiver) = oneshot::channel();
        if self.queue.push_operation(Operation { work, deadline, answer }) { Ok(receiver) } else { Err(Cause::Overload) }
    }

    /// Whether calls may create counters that a client can have invented.
    pub(super) fn creates_counters(&self) -> bool {
        !self.is_full.load(Ordering::Relaxed)
    }

    /// Gives units back with the next call, at most once.
    pub(super) fn refund(&self, refunds: Vec<Refund>) {
        let lost = if self.flows.load(Ordering::Acquire) { self.queue.push_refunds(refunds) } else { refunds.len() };
        self.lost_refunds(lost);
    }

    pub(super) fn lost_refunds(&self, count: usize) {
        self.metrics.lost_refunds.inc_by(count as u64);
    }

    /// How long the shard has been away.
    pub(super) fn away_for(&self, now: Instant) -> Duration {
        self.breaker.lock().away_for(now)
    }

    /// A script call was answered.
    pub(super) fn succeeded(&self) {
        let (before, after, was_away) = self.change(|breaker| breaker.succeeded(Instant::now()));
        if before != after {
            tracing::info!(shard = %self.name(), "shard is back");
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
            tracing::warn!(shard = %self.name(), address = %self.config.address, error, "shard is away");
            let lost = self.queue.give_up(Cause::BreakerOpen);
            self.lost_refunds(lost);
        }
        *self.last_error.lock() = Some(error);
        if after == BreakerState::Open {
            self.settle();
        }
    }

    /// The shard is no longer used.
    pub(super) fn close(&self) {
        self.flows.store(false, Ordering::Release);
        let lost = self.queue.give_up(Cause::NoShards);
        self.lost_refunds(lost);
        self.settle();
        self.closed.cancel();
    }

    /// Resolves once the shard is no longer used, after `stop`.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// The agent tries to reach the shard again.
    pub(super) fn probing(&self) {
        self.change(Breaker::probe);
    }

    /// When to try again.
    pub(super) fn retry_at(&self) -> Instant {
        self.breaker.lock().retry_at()
    }

    /// Whether calls are sent.
    pub(super) fn flows(&self) -> bool {
        self.flows.load(Ordering::Acquire)
    }

    /// Resolves once the shard has been reached or has failed.
    pub(super) async fn settled(&self) {
        // The sender is here, so it is not gone.
        let _ = self.settled.subscribe().wait_for(|settled| *settled).await;
    }

    pub(super) fn status(&self) -> ShardStatus {
        ShardStatus {
            name: self.name().clone(),
            breaker: self.breaker.lock().state(),
            last_error: self.last_error.lock().clone(),
            in_flight: usize::try_from(self.metrics.in_flight.get()).unwrap_or_default(),
            queued: self.queue.len(),
        }
    }

    /// Whether a shard of this configuration would be reached in the same way.
    pub(super) fn is_reached_as(&self, config: &ShardConfig) -> bool {
        let password = |config: &ShardConfig| config.password.as_ref().map(|p| p.expose_secret().to_owned());
        self.config.name == config.name
            && self.config.address == config.address
            && self.config.username == config.username
            && password(&self.config) == password(config)
    }

    fn settle(&self) {
        self.settled.send_if_modified(|settled| !std::mem::replace(settled, true));
    }

    /// Changes the breaker; returns its state before and after.
    fn change<T>(&self, with: impl FnOnce(&mut Breaker) -> T) -> (BreakerState, BreakerState, T) {
        let mut breaker = self.breaker.lock();
        let before = breaker.state();
        let result = with(&mut breaker);
        let after = breaker.state();
        if before != after {
            self.flows.store(after == BreakerState::Closed, Ordering::Release);
            self.metrics.breaker(after);
        }
        (before, after, result)
    }
}
