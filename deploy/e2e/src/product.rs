//! Everything together.

use std::time::Duration;

use anyhow::Context as _;
use reqwest::Method;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use weir_agent::Agent;
use weir_agent::settings::{AgentSettings, ControlPlaneSettings, RulesFrom};
use weir_control_plane::auth::Role;
use weir_control_plane::{ControlPlane, NewToken, Settings, TokenKind};
use weir_core::name::Name;
use weir_testbed::{Flavor, Postgres, Redis, await_until, free_port};

use crate::api::Api;
use crate::node::Node;

/// How long a change may take to reach every agent: the promise is one second.
const PROPAGATION: Duration = Duration::from_secs(1);
/// How long a part may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// What to start.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Redis shards.
    pub shards: usize,
    /// Agents with HTTP.
    pub agents: usize,
    /// The decision budget of each agent. Tests that count exactly take a long one.
    pub budget: Duration,
    /// The rules of the default domain.
    pub rules: String,
}

impl Default for Plan {
    /// Three shards, two agents, the seeds of `weir dev`, and a budget that a busy machine does not use up.
    fn default() -> Self {
        Self { shards: 3, agents: 2, budget: Duration::from_secs(5), rules: crate::SEEDS.to_owned() }
    }
}

/// The running product. Servers stop with it; call [`stop`](Self::stop) to end the rest in order.
pub struct Product {
    /// The database.
    pub postgres: Postgres,
    /// The shards, `shard-1` first.
    pub redis: Vec<Redis>,
    /// The agents, `agent-1` first.
    pub nodes: Vec<Node>,
    /// An admin's API.
    pub api: Api,
    control_plane: Option<ControlPlane>,
    settings: Settings,
    agent_token: SecretString,
    folder: TempDir,
    budget: Duration,
}

impl Product {
    /// Starts everything and waits until every agent runs the rules.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn start(plan: Plan) -> anyhow::Result<Self> {
        let postgres = Postgres::temporary().await?;
        let mut redis = Vec::new();
        for _ in 0..plan.shards {
            redis.push(Redis::temporary(Flavor::available()?).await?);
        }
        let mut settings = Settings::new(postgres.create_database("weir").await?);
        // Fixed from now on, so that a control plane that is started again is found where it was.
        settings.http_listen.set_port(free_port()?);
        settings.grpc_listen.set_port(free_port()?);
        let control_plane = ControlPlane::start(settings.clone()).await?;
        let admin = token(&control_plane, "admin", TokenKind::Api).await?;
        let agent_token = token(&control_plane, "agents", TokenKind::Agent).await?;
        let api = Api::new(format!("http://{}", settings.http_listen), admin.expose_secret().to_owned());
        let folder = TempDir::new()?;
        let mut product = Self {
            postgres,
            redis,
            nodes: Vec::new(),
            api,
            control_plane: Some(control_plane),
            settings,
            agent_token,
            folder,
            budget: plan.budget,
        };
        product.configure(&plan.rules).await?;
        for number in 1..=plan.agents {
            let node = product.join(&format!("agent-{number}"), plan.budget).await?;
            product.nodes.push(node);
        }
        product.converged(PATIENCE).await?;
        Ok(product)
    }

    async fn configure(&self, rules: &str) -> anyhow::Result<()> {
        for (number, redis) in (1..).zip(&self.redis) {
            let shard = json!({ "name": format!("shard-{number}"), "address": redis.url(), "weight": 1 });
            self.api.done(Method::POST, "/v1/shards", None, Some(&shard)).await?;
        }
        self.api.apply(rules).await?;
        Ok(())
    }

    /// Starts an agent with a decision budget of its own, which has rules and shards then. The caller stops it.
    ///
    /// # Errors
    /// It does not start, or gets no rules.
    pub async fn join(&self, name: &str, budget: Duration) -> anyhow::Result<Node> {
        let mut settings = self.agent_settings(name)?;
        settings.budget = budget;
        let node = Node::start(settings, free_port()?).await?;
        self.ready(&node.agent).await?;
        Ok(node)
    }

    /// Waits until an agent has rules, and has reached every shard.
    async fn ready(&self, agent: &Agent) -> anyhow::Result<()> {
        let ready = await_until(PATIENCE, async || agent.status().ready && agent.status().shards.len() == self.redis.len()).await;
        anyhow::ensure!(ready, "agent {} got no rules or shards", agent.status().name);
        agent.settled().await;
        Ok(())
    }

    fn agent_settings(&self, name: &str) -> anyhow::Result<AgentSettings> {
        let source = ControlPlaneSettings::new(format!("http://{}", self.settings.grpc_listen), self.agent_token.clone());
        let mut settings = AgentSettings::new(Name::new(name)?, RulesFrom::ControlPlane(source));
        settings.domains = vec![Name::new("default")?];
        settings.state_dir = Some(self.folder.path().join(name));
        settings.budget = self.budget;
        Ok(settings)
    }

    /// Waits until every agent runs the newest revision and has reached every shard.
    ///
    /// # Errors
    /// It takes longer than `patience`.
    pub async fn converged(&self, patience: Duration) -> anyhow::Result<()> {
        let revisions = self.api.get("/v1/revisions?domain=default&page_size=1").await?;
        let latest = revisions["items"][0]["revision"].as_u64().context("nothing was published")?;
        let shards = self.redis.len();
        let there = |node: &Node| node.revision() == latest && node.agent.status().shards.len() == shards;
        let all = await_until(patience, async || self.nodes.iter().all(there)).await;
        anyhow::ensure!(
            all,
            "not all agents run revision {latest} after {patience:?}: {:?}",
            self.nodes.iter().map(Node::revision).collect::<Vec<_>>()
        );
        for node in &self.nodes {
            node.agent.settled().await;
        }
        Ok(())
    }

    /// Waits as long as the promise allows for `revision` to be on every agent.
    ///
    /// # Errors
    /// It is not there within a second.
    pub async fn propagated(&self, revision: u64) -> anyhow::Result<()> {
        let there = await_until(PROPAGATION, async || self.nodes.iter().all(|node| node.revision() >= revision)).await;
        anyhow::ensure!(there, "revision {revision} is not on every agent within {PROPAGATION:?}");
        Ok(())
    }

    /// The dashboard's and admin API's address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.settings.http_listen)
    }

    /// A one-time sign-in link.
    ///
    /// # Errors
    /// The control plane is stopped, or its database away.
    pub async fn sign_in_link(&self) -> anyhow::Result<String> {
        Ok(self.control_plane.as_ref().context("the control plane is stopped")?.sign_in_link().await?)
    }

    /// Stops the control plane, as an operator or a crash of its machine would.
    pub async fn stop_control_plane(&mut self) {
        if let Some(control_plane) = self.control_plane.take() {
            control_plane.shutdown().await;
        }
    }

    /// Starts it again where it was.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start_control_plane(&mut self) -> anyhow::Result<()> {
        self.control_plane = Some(ControlPlane::start(self.settings.clone()).await?);
        Ok(())
    }

    /// Stops agent number `index` and starts it again with what it has on disk.
    ///
    /// # Errors
    /// It does not stop or start.
    pub async fn restart_agent(&mut self, index: usize) -> anyhow::Result<()> {
        let node = self.nodes.remove(index);
        let settings = node.settings.clone();
        node.stop().await?;
        self.nodes.insert(index, Node::start(settings, free_port()?).await?);
        Ok(())
    }

    /// Starts the demo gateway with an agent inside, and says where it listens. It runs until the runtime ends.
    ///
    /// # Errors
    /// It does not start, or gets no rules.
    pub async fn gateway(&self) -> anyhow::Result<String> {
        let agent = Agent::start(self.agent_settings("demo-gateway")?).await?;
        self.ready(&agent).await?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        tokio::spawn(async move { weir_demo_gateway::serve(listener, &agent).await });
        Ok(url)
    }

    /// Stops agents, then the control plane, then the servers.
    ///
    /// # Errors
    /// A part ended with an error.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        for node in self.nodes.drain(..) {
            node.stop().await?;
        }
        self.stop_control_plane().await;
        for redis in &self.redis {
            redis.stop().await;
        }
        self.postgres.stop().await;
        Ok(())
    }
}

async fn token(control_plane: &ControlPlane, name: &str, kind: TokenKind) -> anyhow::Result<SecretString> {
    let new = NewToken {
        name: name.to_owned(),
        role: matches!(kind, TokenKind::Api).then_some(Role::Admin),
        kind,
        domains: None,
        expires_at: None,
        created_by: "tests".to_owned(),
    };
    Ok(control_plane.create_token(&new).await?)
}
