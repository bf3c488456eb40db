//! An agent that listens, and a client that asks it.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use weir_agent::Agent;
use weir_agent::settings::{AgentSettings, ListenSettings, RulesFrom};
use weir_agent::transport::listen::Listeners;
use weir_agent::transport::serve::serve;
use weir_core::config::DomainConfig;
use weir_testbed::await_until;

/// How long a condition may take to come true.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Settings of an agent alone with these rules. The budget is long: what is tested is counts, not speed on a busy machine.
pub(crate) fn settings(rules: &str) -> AgentSettings {
    let config = DomainConfig::from_yaml(rules).unwrap();
    let mut settings = AgentSettings::new("test".parse().unwrap(), RulesFrom::Given(vec![config]));
    settings.budget = Duration::from_secs(5);
    settings.listen = ListenSettings { tcp: Some(([127, 0, 0, 1], 0).into()), ..ListenSettings::default() };
    settings
}

/// An agent that listens on a port of its own.
pub(crate) struct Served {
    pub(crate) agent: Agent,
    pub(crate) address: SocketAddr,
    pub(crate) client: Client<HttpConnector, Full<Bytes>>,
    drain: CancellationToken,
    serving: JoinHandle<()>,
}

/// An answer, read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

impl Served {
    pub(crate) async fn start(settings: AgentSettings) -> Self {
        let listeners = Listeners::open(&settings.listen).await.unwrap();
        let address = listeners.tcp_address().unwrap();
        let agent = Agent::start(settings).await.unwrap();
        let drain = CancellationToken::new();
        let serving = tokio::spawn(serve(listeners, agent.router(), drain.clone(), PATIENCE));
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { agent, address, client, drain, serving }
    }

    pub(crate) async fn with_rules(rules: &str) -> Self {
        Self::start(settings(rules)).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.client.request(request.body(Full::new(body.into())).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        Answer { status: parts.status, headers: parts.headers, body: body.collect().await.unwrap().to_bytes() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], Bytes::new()).await
    }

    /// Asks `POST /v1/check`.
    pub(crate) async fn check(&self, question: &Value) -> Answer {
        self.post("/v1/check", question).await
    }

    /// Asks any operation.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, &[("content-type", "application/json")], body.to_string()).await
    }

    /// Asks and expects a decision.
    pub(crate) async fn decide(&self, question: &Value) -> Value {
        let answer = self.check(question).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.json());
        answer.json()
    }

    /// How many of `times` equal questions are allowed.
    pub(crate) async fn admitted(&self, question: &Value, times: usize) -> usize {
        let mut admitted = 0;
        for _ in 0..times {
            admitted += usize::from(self.decide(question).await["allowed"] == true);
        }
        admitted
    }

    pub(crate) async fn stop(self) {
        self.drain.cancel();
        drop(self.client);
        self.serving.await.unwrap();
        self.agent.shutdown().await;
    }
}

/// Waits until `condition` holds.
pub(crate) async fn until<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let mut found = None;
    let there = await_until(PATIENCE, async || {
        found = condition().await;
        found.is_some()
    });
    assert!(there.await, "not in time: {what}");
    found.unwrap()
}
