//! The task that keeps one line's connection: reach the primary, serve from it until it breaks, pause, reach it again.

mod outcome;

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use weir_core::decision::Cause;

use self::outcome::{Finished, Outcome};
use super::batch::Waiting;
use super::breaker::Failure;
use super::call::{Call, Job};
use super::cluster::Cluster;
use super::connection::{Dialer, Link, Peer, Target};
use super::inspection::Inspector;
use super::line::Line;
use super::settings::LimiterSettings;

/// The least time that a call gets before it counts as failed, however little is left of its checks' budgets: that they waited long in
/// the queue says nothing about the shard.
const LEAST_TIMEOUT: Duration = Duration::from_millis(5);
/// How much longer than for the first of its checks a call is waited for. A patient one among them must not hide that the shard hangs.
const MOST_PATIENCE: Duration = Duration::from_millis(20);
/// How often an idle shard is asked whether it is still there, and how soon a failed call of an otherwise idle shard is followed up.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);
/// How long a shard that left the ring, or an agent that stops, may take to answer what is on its way.
const GRACE: Duration = Duration::from_millis(200);

/// How often it is looked whether the primary is elsewhere by now, and how soon again if it seems so: a name may have several addresses that
/// its server gives out in turn, and one sentinel may be behind.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Calls in flight to one node of a cluster: each is for one slot, so they carry few checks, and share packets.
const IN_FLIGHT_PER_NODE: usize = 64;

/// Keeps `line` connected to `target` until it is stopped. What a node of a cluster does not serve goes to `cluster`.
pub(super) async fn run(line: Arc<Line>, target: Target, settings: LimiterSettings, cluster: Option<Weak<Cluster>>) {
    let dialer = Dialer::new(&line.about.config, &settings);
    let in_flight = if cluster.is_some() { IN_FLIGHT_PER_NODE } else { settings.in_flight };
    let session =
        Session { line: &line, target: Arc::new(target), dialer, settings: &settings, in_flight, cluster, probes: AtomicU32::new(0) };
    let stopped = async {
        line.stop.cancelled().await;
        sleep(GRACE).await;
    };
    tokio::select! {
        () = stopped => {}
        () = session.keep() => {}
    }
    line.close();
}

struct Session<'a> {
    line: &'a Arc<Line>,
    target: Arc<Target>,
    dialer: Dialer,
    settings: &'a LimiterSettings,
    in_flight: usize,
    cluster: Option<Weak<Cluster>>,
    /// Which key probes go on with.
    probes: AtomicU32,
}

impl Session<'_> {
    async fn keep(&self) {
        loop {
            let mut link = self.connect().await;
            while let Some(reached) = link {
                link = self.serve(reached).await;
            }
            if !self.line.is_up() {
                sleep_until(self.line.retry_at().into()).await;
                self.line.probing();
            }
        }
    }

    /// A connection over which the script has run (a write, since a server that only reads cannot count), to a server that was inspected.
    async fn connect(&self) -> Option<Link> {
        match self.reach().await {
            Ok(link) => {
                self.line.succeeded();
                Some(link)
            }
            Err(error) => {
                // Without a probe's answer the connection is of no use, whatever went wrong.
                self.target.suspect();
                self.line.failed(Failure::Connection, Instant::now(), error);
                None
            }
        }
    }

    async fn reach(&self) -> Result<Link, String> {
        let link = self.dialer.dial(&self.target).await.map_err(|error| error.to_string())?;
        self.line.about.metrics.connections.inc();
        let probe = Call { load: true, ..self.call(self.probe(), 0, self.settings.probe_timeout) };
        let done = probe.send(link.connection.clone(), &self.line.clock).await;
        if let Err(fault) = done.result
            && self.elsewhere(&fault).is_none()
        {
            self.line.about.metrics.failed(fault.cause());
            return Err(fault.explained(self.line.node.as_ref()));
        }
        let inspected = timeout(self.settings.connect_timeout, self.inspector(&link).begin()).await;
        inspected.map_err(|_| "the inspection of the server took too long".to_owned())?;
        Ok(link)
    }

    fn inspector(&self, link: &Link) -> Inspector {
        Inspector::new(self.line.clone(), link.connection.clone())
    }

    fn probe(&self) -> Job {
        let cluster = self.cluster();
        Job::probe(|slot| cluster.as_ref().is_none_or(|cluster| cluster.owns(self.line, slot)), &self.probes)
    }

    fn cluster(&self) -> Option<Arc<Cluster>> {
        self.cluster.as_ref()?.upgrade()
    }

    /// Resolves once the primary is elsewhere, with a connection to it: nothing is left before there is something better.
    async fn moved(&self, peer: &Peer) -> Link {
        loop {
            sleep(FOLLOW_INTERVAL).await;
            if !self.dialer.leads_elsewhere(&self.target, peer).await {
                continue;
            }
            sleep(LOOK_AGAIN).await;
            if !self.dialer.leads_elsewhere(&self.target, peer).await {
                continue;
            }
            match self.reach().await {
                Ok(link) if link.peer != *peer => return link,
                Ok(_) => {}
                Err(error) => tracing::debug!(shard = %self.line.about.config.name, error, "the primary seems to be elsewhere, and is not"),
            }
        }
    }

    /// Sends what waits, until the breaker opens or the primary is elsewhere: then it returns the connection to there. This one is dropped, and
    /// with it every reply that is still to come.
    async fn serve(&self, link: Link) -> Option<Link> {
        let mut inspector = JoinSet::new();
        inspector.spawn(self.inspector(&link).run());
        let mut next_link = None;
        let mut moved = std::pin::pin!(self.moved(&link.peer));
        let connection: MultiplexedConnection = link.connection.clone();
        let mut calls = FuturesUnordered::new();
        let mut state = Serving::default();
        let mut health = health_checks();
        // A call that is over is answered after the next has been sent: whoever is answered has work to do, and the shard need not wait for it.
        let mut over: Option<(Job, Outcome)> = None;
        while self.line.is_up() {
            let stays = next_link.is_none();
            if !stays && calls.is_empty() {
                tracing::info!(shard = %self.line.about.config.name, "the shard's primary is elsewhere, and is asked there now");
                break;
            }
            while stays
                && calls.len() < self.in_flight
                && let Some(call) = self.next(&mut state)
            {
                calls.push(call.send(connection.clone(), &self.line.clock));
            }
            self.line.gauge(calls.len());
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
                    () = self.line.queue.arrival(), if stays && calls.len() < self.in_flight => {}
                    link = &mut moved, if stays => {
                        // What is found from now on is found there.
                        inspector.abort_all();
                        next_link = Some(link);
                    }
                    _ = health.tick() => {
                        if calls.is_empty() && stays {
                            calls.push(self.call(self.probe(), state.loads, self.settings.probe_timeout).send(connection.clone(), &self.line.clock));
                        }
                    }
                }
            }
            if let Some(done) = done {
                match self.finish(done, &mut state) {
                    Finished::Over(job, outcome) => over = Some((job, outcome)),
                    Finished::Again(call) => calls.push(call.send(connection.clone(), &self.line.clock)),
                    Finished::Unwanted => {}
                }
            }
        }
        if let Some((job, outcome)) = over {
            self.hand_out(job, outcome);
        }
        self.lose(calls.len(), &state);
        next_link.filter(|_| self.line.is_up())
    }

    /// So many calls are dropped with their connection: their checks are told by the loss of their answer's sender.
    fn lose(&self, calls: usize, state: &Serving) {
        for _ in 0..calls {
            self.line.about.metrics.failed(Cause::Error);
        }
        self.line.lost_refunds(state.refunding);
        self.line.gauge(0);
    }

    /// The next call, if anything waits and may go: what queued before the shard was found to be foreign may not. Operations and checks take
    /// turns, and refunds go one call at a time.
    fn next(&self, state: &mut Serving) -> Option<Call> {
        if self.line.about.is_foreign() {
            self.line.lost_refunds(self.line.queue.give_up(Cause::BreakerOpen));
            return None;
        }
        let now = Instant::now();
        let operations_first = std::mem::take(&mut state.sent_checks);
        let first = if operations_first { self.operation(state, now) } else { None };
        first.or_else(|| self.refunds(state)).or_else(|| self.next_checks(state, now)).or_else(|| self.operation(state, now))
    }

    fn next_checks(&self, state: &mut Serving, now: Instant) -> Option<Call> {
        let call = self.checks(self.line.queue.take(now), state.loads, now)?;
        state.sent_checks = true;
        Some(call)
    }

    fn refunds(&self, state: &mut Serving) -> Option<Call> {
        let free = state.refunding == 0;
        let refunds = free.then(|| self.line.queue.take_refunds(self.cluster.is_some())).filter(|taken| !taken.refunds.is_empty())?;
        state.refunding = refunds.refunds.len();
        Some(self.call(Job::Refunds(refunds), state.loads, self.settings.call_timeout))
    }

    /// At most half of the calls in flight are operations. One may take as long as somebody waits for it.
    fn operation(&self, state: &mut Serving, now: Instant) -> Option<Call> {
        if state.operations >= (self.in_flight / 2).max(1) {
            return None;
        }
        let operation = self.line.queue.take_operation(now, self.cluster.is_some())?;
        let deadline = operation.askers.iter().map(|asker| asker.deadline).max()?;
        state.operations += 1;
        Some(self.call(Job::Operation(operation), state.loads, self.patience(deadline, now)))
    }

    fn patience(&self, deadline: Instant, now: Instant) -> Duration {
        deadline.saturating_duration_since(now).max(LEAST_TIMEOUT).min(self.settings.call_timeout)
    }

    fn call(&self, job: Job, loads: u64, timeout: Duration) -> Call {
        Call { job, load: false, asking: false, resent: 0, loads, timeout }
    }

    /// A call with these requests, unless there are none. It may take as long as somebody waits for it, within reason.
    fn checks(&self, batch: Vec<Waiting>, loads: u64, now: Instant) -> Option<Call> {
        let deadlines = || batch.iter().map(|waiting| waiting.deadline);
        let (first, last) = (deadlines().min()?, deadlines().max()?);
        let timeout = self.patience(last, now).min(self.patience(first, now) + MOST_PATIENCE);
        self.line.about.metrics.calls.inc();
        self.line.about.metrics.checks.inc_by(batch.len() as u64);
        let asking = batch.iter().any(|waiting| waiting.way.asking);
        Some(Call { asking, ..self.call(Job::Checks(batch), loads, timeout) })
    }
}

/// The first is one interval away.
fn health_checks() -> Interval {
    let mut checks = interval(HEALTH_INTERVAL);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    checks.reset();
    checks
}

/// What a session remembers while it serves.
#[derive(Default)]
struct Serving {
    /// How often the script had to be loaded again over this connection.
    loads: u64,
    /// Refunds on their way, all in one call.
    refunding: usize,
    /// Operations on their way, each a call.
    operations: usize,
    /// The last call was one of checks: next are operations, if any wait.
    sent_checks: bool,
}

impl Serving {
    /// A call is no longer on its way.
    fn landed(&mut self, job: &Job) {
        match job {
            Job::Refunds(_) => self.refunding = 0,
            Job::Operation(_) => self.operations -= 1,
            Job::Checks(_) | Job::Probe(_) => {}
        }
    }
}
