//! The two agents with HTTP of their own, and the demo gateway with the third inside.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use secrecy::SecretString;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_agent::Agent;
use weir_agent::run::run;
use weir_agent::settings::{AgentSettings, ControlPlaneSettings, RulesFrom};
use weir_core::name::Name;

use crate::args::Dev;
use crate::client::Client;

/// The decision budget here. The default of 5 ms is for an agent with a free core; on this machine everything shares a few.
const BUDGET: Duration = Duration::from_millis(250);
/// How long each may take to finish requests, and then to hand in its events.
const GRACE: Duration = Duration::from_secs(1);
/// How long agents may take to get their rules at start.
const READY: Duration = Duration::from_secs(20);

/// Every agent of this process.
pub(super) struct Fleet(Vec<Agent>);

impl Fleet {
    /// Waits until the control plane sees all of them on the newest rules and ring, and they have reached the shards. Rules from the last
    /// run's disk are not enough: the private shards have other ports now.
    pub(super) async fn ready(&self, client: &Client) -> anyhow::Result<()> {
        let converged = async {
            let mut tick = tokio::time::interval(Duration::from_millis(50));
            loop {
                tick.tick().await;
                let agents = client.list("/v1/agents", &[]).await?;
                let current = |name: &str| agents.iter().any(|agent| agent["name"] == name && is_current(agent));
                if self.0.iter().all(|agent| current(agent.status().name.as_str())) {
                    break;
                }
            }
            futures::future::join_all(self.0.iter().map(Agent::settled)).await;
            anyhow::Ok(())
        };
        tokio::time::timeout(READY, converged).await.context("the agents did not get the newest rules within 20 s")?
    }
}

/// Whether an agent, as the admin API shows it, runs the newest of everything it wants.
fn is_current(agent: &Value) -> bool {
    let is_current = |set: &Value| set["state"] == "current";
    let domains = agent["domains"].as_array().map(Vec::as_slice).unwrap_or_default();
    agent["connected"] == true && is_current(&agent["ring"]) && !domains.is_empty() && domains.iter().all(is_current)
}

/// Starts them; the first that ends by itself says why through `failed`.
pub(super) async fn start(
    dev: &Dev,
    data: &Path,
    control_plane: &str,
    token: &str,
    stop: &CancellationToken,
    tasks: &TaskTracker,
    failed: oneshot::Sender<anyhow::Error>,
) -> anyhow::Result<Fleet> {
    let (failures, mut first) = mpsc::channel(1);
    let mut agents = Vec::new();
    for (number, port) in (1..).zip(&dev.agent_ports) {
        let mut settings = settings(&format!("agent-{number}"), data, control_plane, token)?;
        settings.listen.tcp = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, *port)));
        let (started, handle) = oneshot::channel();
        let (stop, failures) = (stop.clone(), failures.clone());
        tasks.spawn(async move {
            let result = run(settings, stop.cancelled_owned(), |agent, _| drop(started.send(agent.clone()))).await;
            if let Err(error) = result {
                let _ = failures.try_send(error.context(format!("agent-{number}")));
            }
        });
        match handle.await {
            Ok(agent) => agents.push(agent),
            Err(_) => return Err(first.recv().await.unwrap_or_else(|| anyhow::anyhow!("agent-{number} did not start"))),
        }
    }
    agents.push(gateway(dev, data, control_plane, token, stop, tasks, failures).await?);
    tasks.spawn(async move {
        if let Some(error) = first.recv().await {
            let _ = failed.send(error);
        }
    });
    Ok(Fleet(agents))
}

async fn gateway(
    dev: &Dev,
    data: &Path,
    control_plane: &str,
    token: &str,
    stop: &CancellationToken,
    tasks: &TaskTracker,
    failures: mpsc::Sender<anyhow::Error>,
) -> anyhow::Result<Agent> {
    let agent = Agent::start(settings("demo-gateway", data, control_plane, token)?).await.context("the demo gateway's agent")?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, dev.gateway_port)).await.context("the demo gateway")?;
    let (handle, stop) = (agent.clone(), stop.clone());
    tasks.spawn(async move {
        let result = weir_demo_gateway::serve_until(listener, &handle, stop.cancelled_owned()).await;
        if let Err(error) = result {
            let _ = failures.try_send(anyhow::Error::new(error).context("the demo gateway"));
        }
        handle.shutdown().await;
    });
    Ok(agent)
}

fn settings(name: &str, data: &Path, control_plane: &str, token: &str) -> anyhow::Result<AgentSettings> {
    let source = ControlPlaneSettings::new(control_plane, SecretString::from(token.to_owned()));
    let mut settings = AgentSettings::new(Name::new(name)?, RulesFrom::ControlPlane(source));
    settings.state_dir = Some(data.join(name));
    settings.budget = BUDGET;
    settings.listen.grace = GRACE;
    settings.domains = vec![Name::new("default")?];
    Ok(settings)
}
