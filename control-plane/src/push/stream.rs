//! One agent's stream, from its first message to its end.

mod hear;
mod tell;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use tokio_stream::{Stream as Messages, StreamExt as _};
use tonic::Status;
use weir_proto::v1;
use weir_proto::v1::agent_message::Message as FromAgent;
use weir_proto::v1::server_message::Message as ToAgent;

use super::claim::Claim;
use super::hello::Introduction;
use super::hub::Hub;
use super::metrics::AgentMetrics;
use super::roster::{Ending, Stream};
use super::session::Session;
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
/// When a refused agent may try again: what is refused here does not change by itself.
const REFUSED: Duration = Duration::from_secs(30);

/// As a stream is told for which there is no room.
const FULL: &str = "too many agents are connected to this replica";

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
    // Before the name is claimed: a stream that is refused for want of room must not count as the agent's.
    if !hub.has_room(&hello.agent) {
        return reject(&hub, &outbound, FULL).await;
    }
    let session = new_session(&hello, &caller);
    let stream = Arc::new(Stream::new(caller.token.id, hello, now(&hub), hub.app().clock.now()));
    let mut link = Link { hub, stream, session: Mutex::new(session), wake: Notify::new(), outbound };
    if let Err(ending) = link.introduce().await {
        return reject(&link.hub, &link.outbound, ending.reason()).await;
    }
    if !link.hub.join(&link.stream) {
        // Others came first while the name was claimed.
        link.hub.roster().leave(link.stream.clone());
        return reject(&link.hub, &link.outbound, FULL).await;
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
                for (set, refusal) in refused {
                    self.session().refused_for_good(&set, (refusal.revision, refusal.hash));
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

    /// Serves until one side ends it; why.
    async fn run(&self, inbound: &mut (impl Messages<Item = Result<v1::AgentMessage, Status>> + Unpin)) -> &'static str {
        let stop = &self.hub.app().stop;
        let mut ending = self.stream.ending();
        // The stream holds the sender: there is always a value in the end.
        let ended = async { ending.wait_for(Option::is_some).await.ok().and_then(|ending| *ending) };
        tokio::select! {
            why = self.hear(inbound) => why,
            why = self.tell() => why,
            ending = ended => {
                let why = ending.map_or("the stream ends", Ending::reason);
                refuse(&self.outbound, why).await;
                why
            }
            () = stop.cancelled() => self.drain("the control plane stops").await,
        }
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
