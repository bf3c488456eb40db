//! One agent's stream, from its first message to its end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_stream::{Stream as Messages, StreamExt as _};
use tonic::Status;
use weir_proto::v1;
use weir_proto::v1::agent_message::Message as FromAgent;
use weir_proto::v1::server_message::Message as ToAgent;

use super::DEAD_AFTER;
use super::claim::Claim;
use super::hello::Introduction;
use super::hub::Hub;
use super::metrics::AgentMetrics;
use super::published::{Latest, RING, set_of};
use super::report::{self, Refusal};
use super::roster::{Ending, Stream};
use super::session::{Due, Session};
use crate::auth::agent::AgentToken;
use crate::db::time::Time;

/// Where the messages to the agent go.
pub type Outbound = mpsc::Sender<Result<v1::ServerMessage, Status>>;

/// How long the first message may take.
const HELLO: Duration = Duration::from_secs(10);
/// How long the database may take to say whose name it is; then the stream goes on and the question is asked later.
const CLAIM: Duration = Duration::from_secs(2);
/// How long an agent may take to read that its stream ends.
const FAREWELL: Duration = Duration::from_secs(1);
/// Between two pings.
const PING: Duration = Duration::from_secs(5);
/// The age at which a stream is asked to begin anew, so that streams spread over replicas; up to a quarter less by chance.
const MAX_AGE: Duration = Duration::from_secs(6 * 3_600);
/// When a refused agent may try again: what is refused here does not change by itself.
const REFUSED: Duration = Duration::from_secs(30);

/// Who opened a stream, and from where.
#[derive(Debug)]
pub struct Caller {
    /// Its token.
    pub token: AgentToken,
    /// Whether nobody else can read what is sent to it: it is on this machine, or TLS is between us.
    pub private: bool,
}

/// The two ends of one stream.
struct Link {
    hub: Arc<Hub>,
    stream: Arc<Stream>,
    session: Mutex<Session>,
    wake: Notify,
    outbound: Outbound,
}

/// Serves a stream until it ends.
pub async fn serve(
    hub: Arc<Hub>,
    caller: Caller,
    mut inbound: impl Messages<Item = Result<v1::AgentMessage, Status>> + Unpin,
    outbound: Outbound,
) {
    let stop = hub.app().stop.clone();
    let hello = match stop.run_until_cancelled(timeout(HELLO, inbound.next())).await.unwrap_or(Ok(None)) {
        Ok(Some(Ok(v1::AgentMessage { message: Some(FromAgent::Hello(hello)) }))) => hello,
        Ok(Some(Ok(_))) => return reject(&hub, &outbound, "the first message must be Hello").await,
        Ok(Some(Err(_)) | None) | Err(_) => return,
    };
    let hello = match Introduction::read(hello, &caller.token) {
        Ok(hello) => hello,
        Err(error) => return reject(&hub, &outbound, &error.to_string()).await,
    };
    let session = new_session(&hello, &caller);
    let stream = Arc::new(Stream::new(caller.token.id, hello, now(&hub)));
    let mut link = Link { hub, stream, session: Mutex::new(session), wake: Notify::new(), outbound };
    if let Err(ending) = link.introduce().await {
        return reject(&link.hub, &link.outbound, ending.reason()).await;
    }
    if !link.hub.join(&link.stream) {
        return reject(&link.hub, &link.outbound, "too many agents are connected to this replica").await;
    }
    if !caller.private {
        link.stream.state().report.last_error = "secrets are not sent: the stream is neither behind TLS nor on this machine".into();
    }
    link.metrics().streams.inc();
    let why = link.run(&mut inbound).await;
    link.metrics().streams.dec();
    tracing::info!(agent = %link.stream.agent, why, "stream ended");
    link.hub.roster().leave(link.stream.clone());
}

fn new_session(hello: &Introduction, caller: &Caller) -> Session {
    let mut session = Session::new(hello.sets.iter().cloned(), caller.private.then(|| hello.secrets_fingerprint.clone()));
    for (set, version) in &hello.have {
        session.runs(set, *version);
    }
    session
}

/// Refuses a stream that has only begun.
async fn reject(hub: &Hub, outbound: &Outbound, reason: &str) {
    hub.app().metrics.agents.refused_streams.inc();
    refuse(outbound, reason).await;
}

async fn refuse(outbound: &Outbound, reason: &str) {
    tracing::warn!(reason, "stream refused");
    let refuse = v1::Refuse { reason: reason.to_owned(), retry_after_ms: millis(REFUSED) };
    let _ = timeout(FAREWELL, outbound.send(Ok(message(ToAgent::Refuse(refuse))))).await;
}

impl Link {
    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn metrics(&self) -> &AgentMetrics {
        &self.hub.app().metrics.agents
    }

    /// Asks the database whose name it is. If it does not answer, the stream goes on: an agent must get its rules without it.
    async fn introduce(&mut self) -> Result<(), Ending> {
        match timeout(CLAIM, self.hub.claim(&self.stream)).await {
            Ok(Ok(Claim::Granted(refused))) => {
                self.stream.state().claimed = true;
                for (set, version) in refused {
                    self.session().refused_for_good(&set, version);
                }
                tracing::info!(agent = %self.stream.agent, build = self.stream.build, "stream opened");
                Ok(())
            }
            Ok(Ok(Claim::Taken)) => Err(Ending::NameTaken),
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(agent = %self.stream.agent, "stream opened without the database; its name is checked later");
                Ok(())
            }
        }
    }

    /// Reads and writes until one of them ends; why.
    async fn run(&self, inbound: &mut (impl Messages<Item = Result<v1::AgentMessage, Status>> + Unpin)) -> &'static str {
        let stop = &self.hub.app().stop;
        tokio::select! {
            why = self.read(inbound) => why,
            why = self.write() => why,
            () = stop.cancelled() => self.drain("the control plane stops").await,
        }
    }

    async fn read(&self, inbound: &mut (impl Messages<Item = Result<v1::AgentMessage, Status>> + Unpin)) -> &'static str {
        loop {
            let message = match timeout(DEAD_AFTER, inbound.next()).await {
                Ok(Some(Ok(message))) => message,
                Ok(Some(Err(_))) => return "the connection broke",
                Ok(None) => return "the agent ended it",
                Err(_) => {
                    self.stream.state().report.last_error = format!("said nothing for {} s", DEAD_AFTER.as_secs());
                    return "the agent is silent";
                }
            };
            self.stream.state().last_seen = now(&self.hub);
            match message.message {
                Some(FromAgent::Ack(ack)) => self.acknowledged(&ack),
                Some(FromAgent::Nack(nack)) => self.refused(&nack),
                Some(FromAgent::Heartbeat(heartbeat)) => {
                    let mut state = self.stream.state();
                    state.report.heartbeat(&heartbeat);
                    state.dirty = true;
                }
                // A second Hello, or a message of a later version: neither says anything about what the agent runs.
                Some(FromAgent::Hello(_)) | None => {}
            }
        }
    }

    fn acknowledged(&self, ack: &v1::Ack) {
        let Some((set, revision, hash)) = ack.applied.as_ref().and_then(|have| self.about(have)) else { return };
        self.metrics().acks.inc();
        self.session().runs(set, (revision, hash));
        self.note_runs(set, revision, hash);
    }

    fn refused(&self, nack: &v1::Nack) {
        let Some((set, revision, hash)) = nack.refused.as_ref().and_then(|have| self.about(have)) else { return };
        self.metrics().nacks.inc();
        let errors = report::errors(nack);
        tracing::warn!(agent = %self.stream.agent, set, revision, ?errors, temporary = nack.temporary, "revision refused");
        {
            let mut session = self.session();
            if nack.temporary {
                session.refused_for_now(set, (revision, hash), Instant::now().into_std(), rand::random());
            } else {
                session.refused_for_good(set, (revision, hash));
            }
        }
        {
            let mut state = self.stream.state();
            state.report.refused(set, Refusal { revision, hash, errors, temporary: nack.temporary });
            state.dirty = true;
        }
        self.hub.roster().notify();
        self.wake.notify_one();
    }

    /// Set, revision and hash of a message, if the stream is about that set.
    fn about<'a>(&self, have: &'a v1::Have) -> Option<(&'a str, u64, weir_core::item::SetHash)> {
        let set = set_of(have).filter(|set| self.session().wants(set))?;
        let revision = i64::try_from(have.revision).ok()?.unsigned_abs();
        Some((set, revision, have.set_hash()?))
    }

    fn note_runs(&self, set: &str, revision: u64, hash: weir_core::item::SetHash) {
        {
            let mut state = self.stream.state();
            state.report.runs(set, revision, hash);
            state.dirty = true;
        }
        self.hub.roster().notify();
    }

    async fn write(&self) -> &'static str {
        let (mut latest, mut ending) = (self.hub.watch(), self.stream.ending());
        let mut ping = interval(PING);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let too_old = Instant::now() + MAX_AGE.mul_f64(1.0 - 0.25 * rand::random::<f64>());
        loop {
            if self.send_due(&mut latest).await.is_err() {
                return "the agent does not read";
            }
            let retry = self.session().next_retry().map_or(too_old, Instant::from_std);
            tokio::select! {
                _ = latest.changed() => {}
                () = self.wake.notified() => {}
                () = sleep_until(retry.min(too_old)) => {
                    if Instant::now() >= too_old {
                        return self.drain("it is old").await;
                    }
                }
                _ = ping.tick() => {
                    let message = self.ping(&latest.borrow_and_update().clone());
                    if self.send(message).await.is_err() {
                        return "the agent does not read";
                    }
                }
                Ok(()) = ending.changed() => {
                    let why = *ending.borrow();
                    return self.end(why).await;
                }
            }
        }
    }

    /// Sends all that is due, looking anew at the newest after each: what came while the agent was slow to read is skipped.
    async fn send_due(&self, latest: &mut watch::Receiver<Arc<Latest>>) -> Result<(), ()> {
        loop {
            let newest = latest.borrow_and_update().clone();
            let Some(due) = self.session().due(&newest, Instant::now().into_std()) else { return Ok(()) };
            match due {
                Due::Secrets => {
                    let secrets = newest.secrets.as_ref().map(|secrets| secrets.message()).unwrap_or_default();
                    self.send(ToAgent::Secrets(secrets)).await?;
                }
                Due::UpToDate(published) => {
                    self.note_runs(&published.set, published.revision, published.hash);
                    self.send(ToAgent::UpToDate(v1::UpToDate { current: Some(published.have()) })).await?;
                }
                Due::Snapshot(published) => {
                    for chunk in published.snapshot() {
                        self.send(ToAgent::Snapshot(chunk)).await?;
                    }
                    self.metrics().snapshots.inc();
                }
            }
        }
    }

    fn ping(&self, latest: &Latest) -> ToAgent {
        let wanted = || self.stream.sets.iter();
        ToAgent::Ping(v1::Ping {
            latest: wanted().filter_map(|set| Some(latest.sets.get(set)?.have())).collect(),
            live_agents: wanted()
                .filter(|set| ***set != *RING)
                // This agent lives, even if the count is not that far yet.
                .map(|domain| (domain.to_string(), latest.live_agents.get(&**domain).copied().unwrap_or(0).max(1)))
                .collect(),
        })
    }

    async fn end(&self, ending: Option<Ending>) -> &'static str {
        let reason = ending.map_or("the stream ends", Ending::reason);
        refuse(&self.outbound, reason).await;
        reason
    }

    async fn drain(&self, why: &'static str) -> &'static str {
        let after = Duration::from_millis(rand::random_range(200..2_000));
        let drain = ToAgent::Drain(v1::Drain { reconnect_after_ms: millis(after) });
        let _ = timeout(FAREWELL, self.outbound.send(Ok(message(drain)))).await;
        why
    }

    /// Sends a message; an agent that does not take it for as long as we would wait for one of its own is gone.
    async fn send(&self, to_agent: ToAgent) -> Result<(), ()> {
        timeout(DEAD_AFTER, self.outbound.send(Ok(message(to_agent)))).await.map_err(drop)?.map_err(drop)
    }
}

fn message(message: ToAgent) -> v1::ServerMessage {
    v1::ServerMessage { message: Some(message) }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn now(hub: &Hub) -> Time {
    let wall = i64::try_from(hub.app().clock.wall().as_millis()).unwrap_or(i64::MAX);
    Time::from_millis(wall).unwrap_or(Time(jiff::Timestamp::UNIX_EPOCH))
}
