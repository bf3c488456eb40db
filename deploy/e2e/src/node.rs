//! An agent beside a gateway: the library with its HTTP listener, as the `weir-agent` process runs it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use weir_agent::Agent;
use weir_agent::settings::AgentSettings;

/// What `/v1/check` answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The HTTP status of the answer itself: 200 whenever a decision was made.
    pub http_status: u16,
    /// The body.
    pub body: Value,
}

impl Answer {
    /// Whether the request may pass.
    #[must_use]
    pub fn allowed(&self) -> bool {
        self.body["allowed"] == true
    }

    /// Whether it was decided without its shard.
    #[must_use]
    pub fn degraded(&self) -> bool {
        !self.body["degraded"].is_null()
    }

    /// The shard that counted the strictest limit, or should have; empty where no shard did.
    #[must_use]
    pub fn shard(&self) -> &str {
        let strictest = self.body["limits"].as_array().and_then(|limits| limits.iter().find(|limit| limit["rule"] == self.body["rule"]));
        strictest.and_then(|limit| limit["shard"].as_str()).unwrap_or_default()
    }
}

/// A running agent.
pub struct Node {
    /// The handle.
    pub agent: Agent,
    /// Its settings, to start it again.
    pub settings: AgentSettings,
    /// Where its HTTP listens.
    pub url: String,
    http: reqwest::Client,
    stop: CancellationToken,
    serving: JoinHandle<anyhow::Result<()>>,
}

impl Node {
    pub(crate) async fn start(mut settings: AgentSettings, port: u16) -> anyhow::Result<Self> {
        settings.listen.tcp = Some(SocketAddr::from(([127, 0, 0, 1], port)));
        settings.listen.grace = Duration::from_secs(2);
        let stop = CancellationToken::new();
        let (started, handle) = tokio::sync::oneshot::channel();
        let serving = tokio::spawn({
            let (settings, stop) = (settings.clone(), stop.clone());
            async move { weir_agent::run::run(settings, stop.cancelled_owned(), |agent, _| drop(started.send(agent.clone()))).await }
        });
        let Ok(agent) = handle.await else {
            serving.await??;
            anyhow::bail!("the agent ended at once");
        };
        Ok(Self { agent, settings, url: format!("http://127.0.0.1:{port}"), http: reqwest::Client::new(), stop, serving })
    }

    /// Asks `/v1/check`.
    ///
    /// # Errors
    /// The agent cannot be reached.
    pub async fn check(&self, question: &Value) -> anyhow::Result<Answer> {
        let response = self.http.post(format!("{}/v1/check", self.url)).json(question).send().await?;
        Ok(Answer { http_status: response.status().as_u16(), body: response.json().await? })
    }

    /// Asks for one request of `subject`.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub async fn ask(&self, subject: &str, tier: &str, method: &str, path: &str) -> anyhow::Result<Answer> {
        self.check(&json!({ "subject": subject, "tier": tier, "method": method, "path": path })).await
    }

    /// The revision of the default domain that it runs; 0: none.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.agent.status().domains.iter().map(|domain| domain.rules.as_ref().map_or(0, |set| set.revision)).max().unwrap_or(0)
    }

    /// The folder with its last good rules.
    #[must_use]
    pub fn state_dir(&self) -> Option<PathBuf> {
        self.settings.state_dir.clone()
    }

    /// Stops it as SIGTERM would.
    ///
    /// # Errors
    /// It ended with an error.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.serving.await.context("the agent panicked")?
    }
}
