//! The other end of the agent's streams, played by the test: it sees what the agent says and answers what the test wants.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};
use weir_agent::settings::{AgentSettings, ControlPlaneSettings, RulesFrom};
use weir_core::config::DomainConfig;
use weir_core::item::{Item, SetHash};
use weir_proto::v1;
use weir_proto::v1::agent_message::Message as FromAgent;
use weir_proto::v1::config_sync_server::{ConfigSync, ConfigSyncServer};
use weir_proto::v1::event_ingest_server::{EventIngest, EventIngestServer};
use weir_proto::v1::server_message::Message as FromServer;

use crate::served::PATIENCE;

/// A control plane's gRPC port.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    syncs: mpsc::Receiver<Sync>,
    uploads: mpsc::Receiver<Upload>,
    stop: CancellationToken,
}

/// One stream of configuration, after its Hello.
pub(crate) struct Sync {
    pub(crate) hello: v1::Hello,
    pub(crate) token: String,
    inbound: Streaming<v1::AgentMessage>,
    outbound: mpsc::Sender<Result<v1::ServerMessage, Status>>,
}

/// One stream of events.
pub(crate) struct Upload {
    pub(crate) inbound: Streaming<v1::EventBatch>,
    outbound: mpsc::Sender<Result<v1::BatchAck, Status>>,
}

struct Port {
    syncs: mpsc::Sender<Sync>,
    uploads: mpsc::Sender<Upload>,
}

#[tonic::async_trait]
impl ConfigSync for Port {
    type SyncStream = BoxStream<'static, Result<v1::ServerMessage, Status>>;

    async fn sync(&self, request: Request<Streaming<v1::AgentMessage>>) -> Result<Response<Self::SyncStream>, Status> {
        let token = request.metadata().get("authorization").map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
        let mut inbound = request.into_inner();
        let first = inbound.next().await.ok_or_else(|| Status::aborted("no Hello"))??;
        let Some(FromAgent::Hello(hello)) = first.message else { return Err(Status::invalid_argument("no Hello")) };
        let (outbound, stream) = mpsc::channel(16);
        let _ = self.syncs.send(Sync { hello, token, inbound, outbound }).await;
        Ok(Response::new(ReceiverStream::new(stream).boxed()))
    }
}

#[tonic::async_trait]
impl EventIngest for Port {
    type UploadStream = BoxStream<'static, Result<v1::BatchAck, Status>>;

    async fn upload(&self, request: Request<Streaming<v1::EventBatch>>) -> Result<Response<Self::UploadStream>, Status> {
        let (outbound, stream) = mpsc::channel(16);
        let _ = self.uploads.send(Upload { inbound: request.into_inner(), outbound }).await;
        Ok(Response::new(ReceiverStream::new(stream).boxed()))
    }
}

impl Upstream {
    pub(crate) async fn start() -> Self {
        Self::listen(TcpListener::bind("127.0.0.1:0").await.unwrap(), Server::builder())
    }

    /// Speaks TLS, with the certificate of the control plane's own tests.
    pub(crate) async fn start_tls() -> Self {
        let identity = Identity::from_pem(tls_file("certificate.pem"), tls_file("key.pem"));
        let server = Server::builder().tls_config(ServerTlsConfig::new().identity(identity)).unwrap();
        Self::listen(TcpListener::bind("127.0.0.1:0").await.unwrap(), server)
    }

    /// Starts again at an address that was used before.
    pub(crate) async fn start_at(address: SocketAddr) -> Self {
        Self::listen(
            crate::served::until("the port is free again", async || TcpListener::bind(address).await.ok()).await,
            Server::builder(),
        )
    }

    fn listen(listener: TcpListener, mut server: Server) -> Self {
        let address = listener.local_addr().unwrap();
        let (sync_sender, syncs) = mpsc::channel(16);
        let (upload_sender, uploads) = mpsc::channel(16);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let port = std::sync::Arc::new(Port { syncs: sync_sender, uploads: upload_sender });
        let server = server
            .add_service(ConfigSyncServer::from_arc(port.clone()))
            .add_service(EventIngestServer::from_arc(port))
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(async move { stopped.run_until_cancelled(server).await });
        Self { address, syncs, uploads, stop }
    }

    /// Settings of an agent that belongs to this control plane.
    pub(crate) fn settings(&self, state: Option<&Path>) -> AgentSettings {
        let mut control_plane = ControlPlaneSettings::new(format!("http://{}", self.address), "weir_test".into());
        control_plane.silence = Duration::from_secs(10);
        let mut settings = AgentSettings::new("a1".parse().unwrap(), RulesFrom::ControlPlane(control_plane));
        settings.state_dir = state.map(Into::into);
        settings.budget = Duration::from_secs(5);
        settings.listen.tcp = Some(([127, 0, 0, 1], 0).into());
        settings
    }

    /// The next stream of configuration that an agent opens.
    pub(crate) async fn sync(&mut self) -> Sync {
        tokio::time::timeout(PATIENCE, self.syncs.recv()).await.expect("an agent connects").unwrap()
    }

    /// The next stream of events that an agent opens.
    pub(crate) async fn upload(&mut self) -> Upload {
        tokio::time::timeout(PATIENCE, self.uploads.recv()).await.expect("an agent uploads").unwrap()
    }

    /// Is gone, with all its connections.
    pub(crate) fn stop(self) {
        self.stop.cancel();
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Sync {
    pub(crate) async fn say(&self, message: FromServer) {
        self.outbound.send(Ok(v1::ServerMessage { message: Some(message) })).await.unwrap();
    }

    /// The agent's next message that is no heartbeat.
    pub(crate) async fn hear(&mut self) -> FromAgent {
        self.hear_where(|message| !matches!(message, FromAgent::Heartbeat(_))).await
    }

    /// The agent's next heartbeat.
    pub(crate) async fn heartbeat(&mut self) -> v1::Heartbeat {
        match self.hear_where(|message| matches!(message, FromAgent::Heartbeat(_))).await {
            FromAgent::Heartbeat(heartbeat) => heartbeat,
            _ => unreachable!(),
        }
    }

    async fn hear_where(&mut self, wanted: impl Fn(&FromAgent) -> bool) -> FromAgent {
        let hearing = async {
            loop {
                let message = self.inbound.next().await.expect("the stream goes on").unwrap().message.unwrap();
                if wanted(&message) {
                    return message;
                }
            }
        };
        tokio::time::timeout(PATIENCE, hearing).await.expect("the agent says something")
    }

    /// Resolves when the agent has closed the stream.
    pub(crate) async fn closed(&mut self) {
        let closing = async { while self.inbound.next().await.is_some_and(|message| message.is_ok()) {} };
        tokio::time::timeout(PATIENCE, closing).await.expect("the agent closes the stream");
    }

    /// Sends a set in small chunks.
    pub(crate) async fn snapshot(&self, target: &v1::Have, items: &[Item]) {
        let packed = packed(items);
        let chunks: Vec<&[u8]> = packed.chunks(100).collect();
        for (i, chunk) in chunks.iter().enumerate() {
            let last = i + 1 == chunks.len();
            self.say(FromServer::Snapshot(v1::Snapshot { target: Some(target.clone()), chunk: chunk.to_vec(), last })).await;
        }
    }

    /// Sends rules and expects them to be taken.
    pub(crate) async fn give_rules(&mut self, revision: u64, items: &[Item]) {
        let target = v1::Have::rules("default", revision, SetHash::of(items));
        self.snapshot(&target, items).await;
        assert_eq!(self.hear().await, FromAgent::Ack(v1::Ack { applied: Some(target) }));
    }

    /// Sends rules and expects them to be refused.
    pub(crate) async fn refused_rules(&mut self, target: v1::Have, items: &[Item]) -> v1::Nack {
        self.snapshot(&target, items).await;
        match self.hear().await {
            FromAgent::Nack(nack) => nack,
            other => panic!("{other:?}"),
        }
    }
}

impl Upload {
    pub(crate) async fn batch(&mut self) -> v1::EventBatch {
        tokio::time::timeout(PATIENCE, self.inbound.next()).await.expect("a batch comes").unwrap().unwrap()
    }

    pub(crate) async fn acknowledge(&self, sequence: u64) {
        self.outbound.send(Ok(v1::BatchAck { sequence, stored: true, reason: String::new() })).await.unwrap();
    }
}

/// Where the certificate for `localhost` is that tests use.
pub(crate) fn tls_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../control-plane/tests/admin/tls").join(name)
}

fn tls_file(name: &str) -> Vec<u8> {
    std::fs::read(tls_path(name)).unwrap()
}

fn packed(items: &[Item]) -> Vec<u8> {
    let message = v1::Items { items: items.iter().cloned().map(Into::into).collect() };
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&message.encode_to_vec()).unwrap();
    gzip.finish().unwrap()
}

/// Rules that allow each subject `limit` requests.
pub(crate) fn rules(limit: u32) -> Vec<Item> {
    let text = format!(
        r#"
domain: default
tiers: [{{ name: free, default: true }}]
rules:
  - {{ name: all, key: [subject], algorithm: fixed_window, limits: {{ "*": {{ limit: {limit}, window: 365d }} }} }}
"#
    );
    DomainConfig::from_yaml(&text).unwrap().items()
}
