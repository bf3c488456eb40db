//! One stream of configuration: says what the agent has, applies what comes, answers Ack or Nack.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use weir_core::name::Name;
use weir_proto::v1;
use weir_proto::v1::agent_message::Message as FromAgent;
use weir_proto::v1::config_sync_client::ConfigSyncClient;
use weir_proto::v1::server_message::Message as FromServer;

use super::apply::{Applier, Refusal};
use super::assembly::{Assembled, Assembly};
use super::store::Origin;
use super::sync::SyncSettings;

/// The largest message that is read: a chunk and its frame.
const MAX_MESSAGE: usize = 8 << 20;
/// Messages that wait for the control plane to read them.
const OUTBOUND: usize = 16;
/// How often the time of the last word is noted on disk.
const NOTE_EVERY: Duration = Duration::from_secs(30);

/// How a stream ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The connection broke, or was never made.
    Broken(String),
    /// The server stops and said when to come back.
    Drained(Duration),
    /// The server does not want this agent now.
    Refused {
        /// Why.
        reason: String,
        /// When to ask again.
        retry_after: Duration,
    },
}

impl From<tonic::Status> for End {
    fn from(status: tonic::Status) -> Self {
        Self::Broken(format!("{}: {}", status.code(), status.message()))
    }
}

/// An open stream.
pub(super) struct Session<'a> {
    settings: &'a SyncSettings,
    applier: Arc<Applier>,
    outbound: mpsc::Sender<v1::AgentMessage>,
    inbound: Streaming<v1::ServerMessage>,
    assembly: Assembly,
    noted: Option<Instant>,
}

impl<'a> Session<'a> {
    /// Opens a stream and says Hello.
    pub(super) async fn open(settings: &'a SyncSettings, applier: Arc<Applier>) -> Result<Self, End> {
        let (outbound, messages) = mpsc::channel(OUTBOUND);
        let hello = FromAgent::Hello(hello(settings, &applier));
        let _ = outbound.try_send(v1::AgentMessage { message: Some(hello) });
        let mut client = ConfigSyncClient::new(settings.uplink.channel()).max_decoding_message_size(MAX_MESSAGE);
        let call = client.sync(settings.uplink.request(ReceiverStream::new(messages)));
        let inbound = tokio::time::timeout(settings.silence, call).await.map_err(|_| End::Broken("no answer".to_owned()))??;
        Ok(Self { settings, applier, outbound, inbound: inbound.into_inner(), assembly: Assembly::default(), noted: None })
    }

    /// Runs until the stream ends.
    pub(super) async fn run(mut self) -> End {
        let mut beat = tokio::time::interval(self.settings.heartbeat_every);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut dead_at = Instant::now() + self.settings.silence;
        loop {
            let message = tokio::select! {
                _ = beat.tick() => {
                    // A heartbeat that finds no room is not missed: the next one says the same.
                    let _ = self.outbound.try_send(v1::AgentMessage { message: Some(FromAgent::Heartbeat((self.settings.heartbeat)())) });
                    continue;
                }
                () = sleep_until(dead_at) => return End::Broken(format!("silent for {:?}", self.settings.silence)),
                message = self.inbound.next() => message,
            };
            let message = match message {
                Some(Ok(message)) => message,
                Some(Err(status)) => return status.into(),
                None => return End::Broken("the server closed the stream".to_owned()),
            };
            dead_at = Instant::now() + self.settings.silence;
            if let Some(message) = message.message
                && let Err(end) = self.take(message).await
            {
                return end;
            }
        }
    }

    /// Deals with one message.
    async fn take(&mut self, message: FromServer) -> Result<(), End> {
        match message {
            FromServer::Drain(drain) => return Err(End::Drained(Duration::from_millis(drain.reconnect_after_ms))),
            FromServer::Refuse(refuse) => {
                return Err(End::Refused { reason: refuse.reason, retry_after: Duration::from_millis(refuse.retry_after_ms) });
            }
            FromServer::UpToDate(_) => {}
            FromServer::Ping(ping) => {
                let mine = |(domain, _): &(&String, &u32)| self.settings.domains.iter().any(|name| name.as_str() == domain.as_str());
                if let Some((_, agents)) = ping.live_agents.iter().filter(mine).max_by_key(|(_, agents)| **agents) {
                    self.applier.live_agents(*agents);
                }
            }
            FromServer::Secrets(secrets) => {
                if let Err(refusal) = self.blocking(move |applier| applier.secrets(secrets)).await? {
                    tracing::warn!(%refusal, "secrets");
                }
            }
            FromServer::Snapshot(chunk) => match self.assembly.add(chunk) {
                None => {}
                Some(Ok(set)) => self.apply(set).await?,
                Some(Err((target, error))) => self.nack(target, vec![error.to_string()], false).await?,
            },
            FromServer::Delta(delta) => {
                self.nack(delta.to.unwrap_or_default(), vec!["this agent understands whole snapshots only".to_owned()], false).await?;
            }
        }
        self.heard();
        Ok(())
    }

    async fn apply(&mut self, set: Assembled) -> Result<(), End> {
        let target = set.target.clone();
        let served = self.settings.domains.iter().find(|name| name.as_str() == target.domain).cloned();
        let (kind, revision, items) = (target.kind(), target.revision, set.items);
        let result = match (kind, served) {
            (v1::SetKind::Ring, _) => self.blocking(move |applier| applier.ring(revision, &items)).await?,
            (v1::SetKind::Rules, Some(domain)) => self.blocking(move |applier| applier.rules(&domain, revision, &items)).await?,
            _ => Err(Refusal::Invalid(vec!["this agent did not ask for that set".to_owned()])),
        };
        match result {
            Ok(()) => self.send(FromAgent::Ack(v1::Ack { applied: Some(target) })).await,
            Err(Refusal::Invalid(errors)) => self.nack(target, errors, false).await,
            Err(refusal @ Refusal::NotOnDisk(_)) => self.nack(target, vec![refusal.to_string()], true).await,
        }
    }

    async fn nack(&mut self, refused: v1::Have, errors: Vec<String>, temporary: bool) -> Result<(), End> {
        tracing::warn!(revision = refused.revision, domain = refused.domain, ?errors, temporary, "refused a revision");
        let kept = match refused.kind() {
            v1::SetKind::Ring => have_ring(&self.applier),
            _ => have_rules(&self.applier, &refused.domain),
        };
        self.send(FromAgent::Nack(v1::Nack { refused: Some(refused), kept, errors, temporary })).await
    }

    /// Compiling and flushing to disk take their time, so they leave the runtime's threads alone.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Applier) -> T + Send + 'static) -> Result<T, End> {
        let applier = self.applier.clone();
        tokio::task::spawn_blocking(move || work(&applier)).await.map_err(|error| End::Broken(format!("applying failed: {error}")))
    }

    async fn send(&self, message: FromAgent) -> Result<(), End> {
        let sent = self.outbound.send_timeout(v1::AgentMessage { message: Some(message) }, self.settings.silence).await;
        sent.map_err(|_| End::Broken("the server does not read".to_owned()))
    }

    /// The control plane lives and has said its newest.
    fn heard(&mut self) {
        let store = self.applier.store();
        let at = store.confirmed();
        store.set_connected(true, None);
        if self.noted.is_none_or(|noted| noted.elapsed() >= NOTE_EVERY) {
            self.noted = Some(Instant::now());
            self.applier.confirmed(at);
        }
    }
}

fn hello(settings: &SyncSettings, applier: &Applier) -> v1::Hello {
    let (secret_fingerprint, secrets_fingerprint) = applier.fingerprints();
    let rules = settings.domains.iter().filter_map(|domain| have_rules(applier, domain.as_str()));
    v1::Hello {
        agent: settings.agent.to_string(),
        boot: settings.boot.clone(),
        build: env!("CARGO_PKG_VERSION").to_owned(),
        time_zones: weir_core::calendar::database_version().to_owned(),
        features: weir_core::item::features(),
        have: have_ring(applier).into_iter().chain(rules).collect(),
        domains: settings.domains.iter().map(Name::to_string).collect(),
        secret_fingerprint,
        secrets_fingerprint,
    }
}

/// The rules of `domain` in force, if a control plane gave them: the number of a file's reading is none of its revisions.
fn have_rules(applier: &Applier, domain: &str) -> Option<v1::Have> {
    let set = applier.store().domain(domain)?.rules.filter(|set| matches!(set.origin, Origin::Disk | Origin::ControlPlane))?;
    Some(v1::Have::rules(domain, set.revision, set.hash))
}

fn have_ring(applier: &Applier) -> Option<v1::Have> {
    applier.store().ring().map(|set| v1::Have::ring(set.revision, set.hash))
}
