//! The task that keeps one shard's connection: reach it, serve from it until it breaks, pause, reach it again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use redis::aio::MultiplexedConnection;
use tokio::time::{MissedTickBehavior, interval, sleep, sleep_until};
use weir_core::counter::{CounterCall, CounterReply};
use weir_core::key::{HashSecret, Tag, counter_key};
use weir_core::limit::{Algorithm, Bound, MAX_UNITS};

use super::batch::Waiting;
use super::breaker::Failure;
use super::call::{Call, Done, Fault, Job};
use super::connection::Dialer;
use super::settings::LimiterSettings;
use super::shard::Shard;

/// How often an idle shard is asked whether it is still there, and how soon a failed call of an otherwise idle shard is followed up.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);
/// How long a shard that left the ring, or an agent that stops, may take to answer what is on its way.
const GRACE: Duration = Duration::from_millis(200);

/// Keeps `shard` connected until it is stopped.
pub(super) async fn run(shard: Arc<Shard>, settings: LimiterSettings) {
    let stopped = async {
        shard.stop.cancelled().await;
        sleep(GRACE).await;
    };
    let kept = async {
        match Dialer::new(&shard.config, settings.connect_timeout) {
            Ok(dialer) => Session { shard: &shard, dialer, settings: &settings }.keep().await,
            Err(error) => {
                shard.failed(Failure::Connection, error.to_string());
                std::future::pending().await
            }
        }
    };
    tokio::select! {
        () = stopped => {}
        () = kept => {}
    }
    shard.close();
}

struct Session<'a> {
    shard: &'a Shard,
    dialer: Dialer,
    settings: &'a LimiterSettings,
}

impl Session<'_> {
    async fn keep(&self) {
        loop {
            // Both return when the breaker is open.
            if let Some(connection) = self.connect().await {
                self.serve(connection).await;
            }
            sleep_until(self.shard.retry_at().into()).await;
            self.shard.probing();
        }
    }

    /// A connection over which the script has run: a write, since a server that only reads cannot count.
    async fn connect(&self) -> Option<MultiplexedConnection> {
        let connection = match self.dialer.dial().await {
            Ok(connection) => connection,
            Err(error) => {
                self.shard.failed(Failure::Connection, error.to_string());
                return None;
            }
        };
        self.shard.metrics.connections.inc();
        let probe = Call { job: Job::Probe { load: true }, loads: 0, timeout: self.settings.probe_timeout };
        let done = probe.send(connection.clone()).await;
        match done.result {
            Ok(_) => {
                self.shard.succeeded();
                Some(connection)
            }
            Err(fault) => {
                self.shard.metrics.failed(fault.cause());
                self.shard.failed(Failure::Connection, fault.to_string());
                None
            }
        }
    }

    /// Sends what waits, until the breaker opens. The connection is dropped then, and with it every reply that is still to come.
    async fn serve(&self, connection: MultiplexedConnection) {
        let mut calls = FuturesUnordered::new();
        let mut state = Serving { loads: 0, refunding: false };
        let mut health = interval(HEALTH_INTERVAL);
        health.set_missed_tick_behavior(MissedTickBehavior::Delay);
        health.reset();
        while self.shard.flows() {
            while calls.len() < self.settings.in_flight
                && let Some(call) = self.next(&mut state)
            {
                calls.push(call.send(connection.clone()));
            }
            self.gauge(calls.len());
            tokio::select! {
                biased;
                Some(done) = calls.next() => {
                    if let Some(again) = self.finish(done, &mut state) {
                        calls.push(again.send(connection.clone()));
                    }
                }
                () = self.shard.queue.arrival(), if calls.len() < self.settings.in_flight => {}
                _ = health.tick() => {
                    if calls.is_empty() {
                        let job = Job::Probe { load: false };
                        calls.push(Call { job, loads: state.loads, timeout: self.settings.probe_timeout }.send(connection.clone()));
                    }
                }
            }
        }
        self.gauge(0);
    }

    fn gauge(&self, calls: usize) {
        self.shard.metrics.in_flight.set(i64::try_from(calls).unwrap_or(i64::MAX));
        self.shard.metrics.queued.set(i64::try_from(self.shard.queue.len()).unwrap_or(i64::MAX));
    }

    /// The next call, if anything waits. Refunds go one call at a time, between checks.
    fn next(&self, state: &mut Serving) -> Option<Call> {
        let refunds = if state.refunding { Vec::new() } else { self.shard.queue.take_refunds() };
        if !refunds.is_empty() {
            state.refunding = true;
            return Some(Call { job: Job::Refunds(refunds), loads: state.loads, timeout: self.settings.call_timeout });
        }
        let now = Instant::now();
        self.checks(self.shard.queue.take(now), 0, false, state.loads, now)
    }

    fn checks(&self, batch: Vec<Waiting>, resent: u8, load: bool, loads: u64, now: Instant) -> Option<Call> {
        let deadline = batch.iter().map(|waiting| waiting.deadline).max()?;
        let timeout = deadline.saturating_duration_since(now).min(self.settings.call_timeout);
        self.shard.metrics.calls.inc();
        self.shard.metrics.checks.inc_by(batch.len() as u64);
        Some(Call { job: Job::Checks { batch, resent, load }, loads, timeout })
    }

    /// Hands out what came of a call; returns the call that must be sent again.
    fn finish(&self, done: Done, state: &mut Serving) -> Option<Call> {
        self.shard.metrics.seconds.observe(done.took.as_secs_f64());
        match (done.job, done.result) {
            (Job::Checks { batch, .. }, Ok(replies)) => {
                self.shard.succeeded();
                self.shard.metrics.batch.observe(f64::from(u32::try_from(batch.len()).unwrap_or(u32::MAX)));
                self.answer(batch, replies);
            }
            (Job::Checks { batch, resent, .. }, Err(fault)) if fault.is_noscript() && resent < MAX_RESENDS => {
                return self.resend(batch, resent, done.loads, state);
            }
            (Job::Checks { batch, .. }, Err(fault)) => {
                let cause = fault.cause();
                self.fault(&fault);
                for waiting in batch {
                    // Its caller may have stopped waiting.
                    let _ = waiting.answer.send(Err(cause));
                }
            }
            (Job::Refunds(refunds), result) => {
                state.refunding = false;
                match result {
                    Ok(_) => {
                        self.shard.succeeded();
                        self.shard.metrics.refunds.inc_by(refunds.len() as u64);
                    }
                    Err(fault) => {
                        self.shard.lost_refunds(refunds.len());
                        self.fault(&fault);
                    }
                }
            }
            (Job::Probe { .. }, Ok(_)) => self.shard.succeeded(),
            (Job::Probe { .. }, Err(fault)) => self.fault(&fault),
        }
        None
    }

    /// The server had lost the script and counted nothing. The first call to find out takes the script along; those sent meanwhile find
    /// it there when they come again.
    fn resend(&self, mut batch: Vec<Waiting>, resent: u8, loads: u64, state: &mut Serving) -> Option<Call> {
        let load = loads == state.loads;
        if load {
            state.loads += 1;
            self.shard.metrics.reloads.inc();
        }
        let now = Instant::now();
        batch.retain(|waiting| waiting.is_wanted(now));
        self.checks(batch, resent + 1, load, state.loads, now)
    }

    fn answer(&self, batch: Vec<Waiting>, replies: Vec<Vec<CounterReply>>) {
        for (waiting, replies) in batch.into_iter().zip(replies) {
            let replaced = replies.iter().filter(|reply| reply.replaced).count();
            if replaced > 0 {
                self.shard.metrics.replaced.inc_by(replaced as u64);
            }
            // Its caller may have stopped waiting: then the units are spent for nothing, never the other way round.
            let _ = waiting.answer.send(Ok(replies));
        }
    }

    fn fault(&self, fault: &Fault) {
        self.shard.metrics.failed(fault.cause());
        self.shard.failed(fault.failure(), fault.to_string());
    }
}

/// The second resend is for a server that loses the script between loading and running it.
const MAX_RESENDS: u8 = 2;

struct Serving {
    /// How often the script had to be loaded again over this connection.
    loads: u64,
    /// A call with refunds is on its way.
    refunding: bool,
}

/// The probe: one unit of a counter that is no request's, which leaves a key with a TTL of some seconds.
pub(super) fn probe() -> CounterCall {
    let secret = HashSecret::built_in();
    let key = counter_key(&secret, Tag::of_rule(&secret, "weir", "probe", &[]), "probe", &[]);
    let bound = Bound { algorithm: Algorithm::FixedWindow, limit: MAX_UNITS, capacity: MAX_UNITS, window_us: 1_000_000 };
    CounterCall { key, bound, cost: 1, shadow: false }
}
