//! The task that keeps one shard's connection: reach it, serve from it until it breaks, pause, reach it again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use redis::aio::MultiplexedConnection;
use tokio::time::{MissedTickBehavior, interval, sleep, sleep_until};
use weir_core::decision::Cause;

use super::batch::Waiting;
use super::breaker::Failure;
use super::call::{Call, Done, Fault, Job, Said};
use super::connection::Dialer;
use super::script::Decoded;
use super::settings::LimiterSettings;
use super::shard::Shard;

/// The least time that a call gets before it counts as failed, however little is left of its checks' budgets: that they waited long in
/// the queue says nothing about the shard.
const LEAST_TIMEOUT: Duration = Duration::from_millis(5);
/// How often a call is sent again because the server had lost the script. Twice, for a server that loses it between loading and running.
const MAX_RESENDS: u8 = 2;
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
                shard.failed(Failure::Connection, Instant::now(), error.to_string());
                std::future::pending::<()>().await;
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
                self.shard.failed(Failure::Connection, Instant::now(), error.to_string());
                return None;
            }
        };
        self.shard.metrics.connections.inc();
        let probe = Call { load: true, ..self.call(Job::probe(), 0, self.settings.probe_timeout) };
        let done = probe.send(connection.clone(), &self.shard.clock).await;
        match done.result {
            Ok(_) => {
                self.shard.succeeded();
                Some(connection)
            }
            Err(fault) => {
                // Without a probe's answer the connection is of no use, whatever went wrong.
                self.shard.metrics.failed(fault.cause());
                self.shard.failed(Failure::Connection, Instant::now(), fault.to_string());
                None
            }
        }
    }

    /// Sends what waits, until the breaker opens. The connection is dropped then, and with it every reply that is still to come.
    async fn serve(&self, connection: MultiplexedConnection) {
        let mut calls = FuturesUnordered::new();
        let mut state = Serving { loads: 0, refunding: 0 };
        let mut health = interval(HEALTH_INTERVAL);
        health.set_missed_tick_behavior(MissedTickBehavior::Delay);
        health.reset();
        // A call that is over is answered after the next has been sent: whoever is answered has work to do, and the shard need not wait for it.
        let mut over: Option<(Job, Outcome)> = None;
        while self.shard.flows() {
            while calls.len() < self.settings.in_flight
                && let Some(call) = self.next(&mut state)
            {
                calls.push(call.send(connection.clone(), &self.shard.clock));
            }
            self.gauge(calls.len());
            let mut done = None;
            if let Some((job, outcome)) = over.take() {
                // Polling sends what is new.
                done = calls.next().now_or_never().flatten();
                self.hand_out(job, outcome);
            }
            if done.is_none() {
                tokio::select! {
                    biased;
                    Some(next) = calls.next() => done = Some(next),
                    () = self.shard.queue.arrival(), if calls.len() < self.settings.in_flight => {}
                    _ = health.tick() => {
                        if calls.is_empty() {
                            calls.push(self.call(Job::probe(), state.loads, self.settings.probe_timeout).send(connection.clone(), &self.shard.clock));
                        }
                    }
                }
            }
            if let Some(done) = done {
                match self.finish(done, &mut state) {
                    Finished::Over(job, outcome) => over = Some((job, outcome)),
                    Finished::Again(call) => calls.push(call.send(connection.clone(), &self.shard.clock)),
                    Finished::Unwanted => {}
                }
            }
        }
        if let Some((job, outcome)) = over {
            self.hand_out(job, outcome);
        }
        // Dropped with the connection: their checks are told by the loss of their answer's sender.
        for _ in 0..calls.len() {
            self.shard.metrics.failed(Cause::Error);
        }
        self.shard.lost_refunds(state.refunding);
        self.gauge(0);
    }

    fn gauge(&self, calls: usize) {
        self.shard.metrics.in_flight.set(i64::try_from(calls).unwrap_or(i64::MAX));
        self.shard.metrics.queued.set(i64::try_from(self.shard.queue.len()).unwrap_or(i64::MAX));
    }

    /// The next call, if anything waits. Refunds go one call at a time, between checks.
    fn next(&self, state: &mut Serving) -> Option<Call> {
        if let Some(operation) = self.shard.queue.take_operation(Instant::now()) {
            return Some(self.call(Job::Operation(operation), state.loads, self.settings.call_timeout));
        }
        let refunds = if state.refunding > 0 { Vec::new() } else { self.shard.queue.take_refunds() };
        if refunds.is_empty() {
            let now = Instant::now();
            return self.checks(self.shard.queue.take(now), state.loads, now);
        }
        state.refunding = refunds.len();
        Some(self.call(Job::Refunds(refunds), state.loads, self.settings.call_timeout))
    }

    fn call(&self, job: Job, loads: u64, timeout: Duration) -> Call {
        Call { job, load: false, resent: 0, loads, timeout }
    }

    /// A call with these requests, unless there are none. It may take as long as somebody waits for it.
    fn checks(&self, batch: Vec<Waiting>, loads: u64, now: Instant) -> Option<Call> {
        let deadline = batch.iter().map(|waiting| waiting.deadline).max()?;
        let timeout = deadline.saturating_duration_since(now).max(LEAST_TIMEOUT).min(self.settings.call_timeout);
        self.shard.metrics.calls.inc();
        self.shard.metrics.checks.inc_by(batch.len() as u64);
        Some(self.call(Job::Checks(batch), loads, timeout))
    }

    /// Notes what came of a call.
    fn finish(&self, done: Done, state: &mut Serving) -> Finished {
        self.shard.metrics.seconds.observe(done.took.as_secs_f64());
        match &done.result {
            Ok(_) => self.shard.succeeded(),
            Err(fault) if fault.is_unknown_script() && done.call.resent < MAX_RESENDS => {
                return self.again(done.call, state).map_or(Finished::Unwanted, Finished::Again);
            }
            Err(fault) => self.fault(fault, done.took),
        }
        if let Job::Refunds(refunds) = &done.call.job {
            state.refunding = 0;
            match done.result {
                Ok(_) => {
                    self.shard.metrics.refunds.inc_by(refunds.len() as u64);
                }
                Err(_) => self.shard.lost_refunds(refunds.len()),
            }
        }
        Finished::Over(done.call.job, done.result.map_err(|fault| fault.cause()))
    }

    /// Tells those who wait for a call's answer.
    fn hand_out(&self, job: Job, outcome: Outcome) {
        match (job, outcome) {
            (Job::Checks(batch), Ok(Said::Decided(decoded))) => self.answer(batch, decoded),
            (Job::Checks(batch), outcome) => {
                let cause = outcome.err().unwrap_or(Cause::Error);
                for waiting in batch {
                    // Its caller may have stopped waiting.
                    let _ = waiting.answer.send(Err(cause));
                }
            }
            (Job::Operation(operation), outcome) => {
                let counts = outcome.map(|said| if let Said::Did(counts) = said { counts } else { Vec::new() });
                let _ = operation.answer.send(counts);
            }
            (Job::Refunds(_) | Job::Probe(_), _) => {}
        }
    }

    /// The server had lost the script and counted nothing. The first call to find out takes the script along; those sent meanwhile find
    /// it there when they come again.
    fn again(&self, call: Call, state: &mut Serving) -> Option<Call> {
        let load = call.loads == state.loads;
        if load {
            state.loads += 1;
            self.shard.metrics.reloads.inc();
        }
        let resent = call.resent + 1;
        let now = Instant::now();
        let call = match call.job {
            Job::Checks(mut batch) => {
                batch.retain(|waiting| waiting.is_wanted(now));
                self.checks(batch, state.loads, now)?
            }
            job => self.call(job, state.loads, call.timeout),
        };
        Some(Call { load, resent, ..call })
    }

    fn answer(&self, batch: Vec<Waiting>, decoded: Decoded) {
        self.shard.metrics.batch.observe(f64::from(u32::try_from(batch.len()).unwrap_or(u32::MAX)));
        for (mut waiting, replies) in batch.into_iter().zip(decoded.replies) {
            let Some(replies) = replies else {
                // Not counted, for want of the calendar windows around the shard's time, which is known now.
                if std::mem::replace(&mut waiting.repeated, true) {
                    let _ = waiting.answer.send(Err(Cause::Error));
                } else {
                    self.shard.queue.push_again(waiting);
                }
                continue;
            };
            let replaced = replies.iter().filter(|reply| reply.replaced).count();
            if replaced > 0 {
                self.shard.metrics.replaced.inc_by(replaced as u64);
            }
            // Its caller may have stopped waiting: then the units are spent for nothing, never the other way round.
            let _ = waiting.answer.send(Ok(replies));
        }
    }

    fn fault(&self, fault: &Fault, took: Duration) {
        self.shard.metrics.failed(fault.cause());
        let now = Instant::now();
        self.shard.failed(fault.failure(), now.checked_sub(took).unwrap_or(now), fault.to_string());
    }
}

/// What came of a call: what the shard said, or why it said nothing.
type Outcome = Result<Said, Cause>;

/// What a call comes to.
enum Finished {
    /// It is over; whoever waits is told next.
    Over(Job, Outcome),
    /// It must be sent again.
    Again(Call),
    /// It should be sent again, but nobody wants it any more.
    Unwanted,
}

/// What a session remembers while it serves.
struct Serving {
    /// How often the script had to be loaded again over this connection.
    loads: u64,
    /// Refunds on their way, all in one call.
    refunding: usize,
}
