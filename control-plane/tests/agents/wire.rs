//! An agent's end of the streams, as thin as can be.

use std::io::Read as _;
use std::net::SocketAddr;
use std::time::Duration;

use prost::Message as _;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use weir_core::item::{Item, SetHash};
use weir_proto::v1;
use weir_proto::v1::agent_message::Message as FromAgent;
use weir_proto::v1::config_sync_client::ConfigSyncClient;
use weir_proto::v1::event_ingest_client::EventIngestClient;
use weir_proto::v1::server_message::Message as ToAgent;

use super::bed::PATIENCE;

const WINDOW: u32 = 65_535;

pub(super) async fn channel(address: SocketAddr) -> Channel {
    // Small windows: an agent that does not read soon stops the server from sending.
    let endpoint = Endpoint::new(format!("http://{address}")).unwrap().connect_timeout(PATIENCE);
    endpoint.initial_stream_window_size(WINDOW).initial_connection_window_size(WINDOW).connect().await.unwrap()
}

pub(super) fn with_token<T>(message: T, token: &str) -> Request<T> {
    let mut request = Request::new(message);
    if !token.is_empty() {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    request
}

/// The Hello of an agent that has nothing.
pub(super) fn hello(agent: &str) -> v1::Hello {
    v1::Hello {
        agent: agent.into(),
        boot: "boot-1".into(),
        build: "0.1.0".into(),
        time_zones: "2026b".into(),
        features: weir_core::item::features(),
        domains: vec!["default".into()],
        ..v1::Hello::default()
    }
}

/// An open sync stream.
pub(super) struct Sync {
    pub(super) to_server: mpsc::Sender<v1::AgentMessage>,
    pub(super) from_server: Streaming<v1::ServerMessage>,
}

/// A whole set, as it arrived.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) have: v1::Have,
    pub(super) items: Vec<Item>,
    pub(super) chunks: usize,
    pub(super) plain: Vec<u8>,
}

impl Sync {
    pub(super) async fn open(address: SocketAddr, token: &str, hello: v1::Hello) -> Result<Self, Status> {
        Self::over(channel(address).await, token, hello).await
    }

    pub(super) async fn over(channel: Channel, token: &str, hello: v1::Hello) -> Result<Self, Status> {
        let (to_server, messages) = mpsc::channel(64);
        to_server.send(v1::AgentMessage { message: Some(FromAgent::Hello(hello)) }).await.unwrap();
        let mut client = ConfigSyncClient::new(channel);
        let response = client.sync(with_token(ReceiverStream::new(messages), token)).await?;
        Ok(Self { to_server, from_server: response.into_inner() })
    }

    pub(super) async fn send(&self, message: FromAgent) {
        self.to_server.send(v1::AgentMessage { message: Some(message) }).await.unwrap();
    }

    pub(super) async fn ack(&self, have: &v1::Have) {
        self.send(FromAgent::Ack(v1::Ack { applied: Some(have.clone()) })).await;
    }

    pub(super) async fn nack(&self, have: &v1::Have, temporary: bool) {
        let errors = vec!["/rules/0: no such algorithm".to_owned()];
        self.send(FromAgent::Nack(v1::Nack { refused: Some(have.clone()), kept: None, errors, temporary })).await;
    }

    /// The next message; `None`: the server ended the stream.
    pub(super) async fn next(&mut self) -> Option<ToAgent> {
        let message = timeout(PATIENCE, self.from_server.message()).await.expect("no message in time");
        message.ok().flatten().and_then(|message| message.message)
    }

    /// The next message that is not a ping.
    pub(super) async fn next_but_ping(&mut self) -> Option<ToAgent> {
        loop {
            match self.next().await {
                Some(ToAgent::Ping(_)) => {}
                other => return other,
            }
        }
    }

    /// The next ping.
    pub(super) async fn ping(&mut self) -> v1::Ping {
        loop {
            match self.next().await {
                Some(ToAgent::Ping(ping)) => return ping,
                Some(_) => {}
                None => panic!("the stream ended"),
            }
        }
    }

    /// Whether nothing but pings comes for a while.
    pub(super) async fn is_quiet_for(&mut self, time: Duration) -> bool {
        timeout(time, self.next_but_ping()).await.is_err()
    }

    /// The next snapshot of a set (empty: the ring), whole; what comes before it is skipped.
    pub(super) async fn snapshot(&mut self, domain: &str) -> Arrived {
        let (mut compressed, mut chunks) = (Vec::new(), 0);
        loop {
            match self.next_but_ping().await.expect("the stream ended") {
                ToAgent::Snapshot(part) if part.target.as_ref().is_some_and(|have| have.domain == domain) => {
                    compressed.extend_from_slice(&part.chunk);
                    chunks += 1;
                    if part.last {
                        return Arrived::read(part.target.unwrap(), &compressed, chunks);
                    }
                }
                other => assert_eq!(chunks, 0, "in the middle of a snapshot: {other:?}"),
            }
        }
    }

    /// Takes and acknowledges everything up to the rules of `default`; those.
    pub(super) async fn settle(&mut self) -> Arrived {
        let ring = self.snapshot("").await;
        self.ack(&ring.have).await;
        let rules = self.snapshot("default").await;
        self.ack(&rules.have).await;
        rules
    }

    /// That the server refuses the stream and ends it; why.
    pub(super) async fn refusal(&mut self) -> String {
        loop {
            match self.next_but_ping().await {
                Some(ToAgent::Refuse(refuse)) => {
                    assert!(refuse.retry_after_ms > 0);
                    assert!(self.next().await.is_none(), "a refused stream ends");
                    return refuse.reason;
                }
                Some(_) => {}
                None => panic!("the stream ended without a reason"),
            }
        }
    }
}

impl Arrived {
    fn read(have: v1::Have, compressed: &[u8], chunks: usize) -> Self {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(compressed).read_to_end(&mut plain).unwrap();
        let items: Vec<Item> = v1::Items::decode(&plain[..]).unwrap().items.into_iter().map(Into::into).collect();
        assert_eq!(have.set_hash(), Some(SetHash::of(&items)), "the hash is that of the items");
        Self { have, items, chunks, plain }
    }

    /// The limit of the rule `search`.
    pub(super) fn limit(&self) -> u64 {
        let rule = self.items.iter().find(|item| item.kind == "rule").unwrap();
        let rule: serde_json::Value = serde_json::from_slice(&rule.body).unwrap();
        rule["limits"]["*"]["limit"].as_u64().unwrap()
    }
}

/// An open upload stream.
pub(super) struct Upload {
    pub(super) to_server: mpsc::Sender<v1::EventBatch>,
    from_server: Streaming<v1::BatchAck>,
}

impl Upload {
    pub(super) async fn open(address: SocketAddr, token: &str) -> Result<Self, Status> {
        Self::over(channel(address).await, token).await
    }

    pub(super) async fn over(channel: Channel, token: &str) -> Result<Self, Status> {
        let (to_server, messages) = mpsc::channel(256);
        let mut client = EventIngestClient::new(channel);
        let response = client.upload(with_token(ReceiverStream::new(messages), token)).await?;
        Ok(Self { to_server, from_server: response.into_inner() })
    }

    /// Sends a batch and waits for what is said to it.
    pub(super) async fn store(&mut self, batch: v1::EventBatch) -> Result<v1::BatchAck, Status> {
        self.to_server.send(batch).await.map_err(|_| Status::unavailable("the stream has ended"))?;
        self.ack().await
    }

    pub(super) async fn ack(&mut self) -> Result<v1::BatchAck, Status> {
        let ack = timeout(PATIENCE, self.from_server.message()).await.expect("no ack in time")?;
        ack.ok_or_else(|| Status::unavailable("the stream has ended"))
    }
}
