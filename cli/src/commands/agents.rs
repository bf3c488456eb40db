//! `weir agents`: proof of propagation on the command line.

use serde_json::Value;

use super::resources::{segment, text};
use crate::args::Connection;
use crate::client::Client;
use crate::output;

/// A row per agent and domain, or one agent in detail.
pub(crate) async fn run(client: &Client, connection: &Connection, agent: Option<&str>) -> anyhow::Result<()> {
    if let Some(name) = agent {
        output::json(&client.get(&format!("/v1/agents/{}", segment(name)), &[]).await?);
        return Ok(());
    }
    let agents = client.list("/v1/agents", &[]).await?;
    if connection.json {
        output::json(&Value::Array(agents));
        return Ok(());
    }
    let rows = agents.iter().flat_map(rows).collect();
    output::table(
        &["AGENT", "CONNECTED", "DOMAIN", "REVISION", "STATE", "HASH", "LAST SEEN", "LAST ERROR"],
        rows,
        "no agent has connected yet: make a token with `weir tokens create NAME --kind agent` and start `weir-agent`",
    );
    Ok(())
}

fn rows(agent: &Value) -> Vec<Vec<String>> {
    let connected = if agent["connected"] == true { "yes" } else { "no" }.to_owned();
    let tail = [text(&agent["last_seen"]), text(&agent["last_error"])];
    let domains = agent["domains"].as_array().map(Vec::as_slice).unwrap_or_default();
    let row = |domain: &Value| {
        let revision = match (&domain["revision"], &domain["latest"]) {
            (at, latest) if at == latest => text(at),
            (at, latest) => format!("{} of {}", text(at), text(latest)),
        };
        let hash = text(&domain["hash"]).chars().take(8).collect();
        let mut row = vec![text(&agent["name"]), connected.clone(), text(&domain["domain"]), revision, text(&domain["state"]), hash];
        row.extend(tail.clone());
        row
    };
    if domains.is_empty() { vec![row(&Value::Null)] } else { domains.iter().map(row).collect() }
}
