//! `weir agents`: proof of propagation on the command line.

use serde_json::Value;

use super::resources::{segment, text};
use crate::args::Connection;
use crate::client::Client;
use crate::output;

/// A row per agent and what it has (the ring, and the rules of each domain), or one agent in detail.
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
    let row = |of: String, set: &Value| {
        let revision = match (&set["revision"], &set["latest"]) {
            (at, latest) if at == latest => text(at),
            (at, latest) => format!("{} of {}", text(at), text(latest)),
        };
        let hash = text(&set["hash"]).chars().take(8).collect();
        let mut row = vec![text(&agent["name"]), connected.clone(), of, revision, text(&set["state"]), hash];
        row.extend(tail.clone());
        row
    };
    let domains = agent["domains"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ring = Some(&agent["ring"]).filter(|ring| !ring.is_null()).map(|ring| row("(ring)".to_owned(), ring));
    let rows: Vec<_> = ring.into_iter().chain(domains.iter().map(|domain| row(text(&domain["domain"]), domain))).collect();
    if rows.is_empty() { vec![row(String::new(), &Value::Null)] } else { rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_ring_is_seen() {
        let agent = serde_json::json!({
            "name": "gw-1", "connected": true, "last_seen": "now", "last_error": "revision 7: no",
            "ring": { "revision": 6, "latest": 7, "state": "refused", "hash": "0123456789" },
            "domains": [{ "domain": "default", "revision": 3, "latest": 3, "state": "current", "hash": "ab" }],
        });
        let rows = rows(&agent);
        assert_eq!(rows[0][..6], ["gw-1", "yes", "(ring)", "6 of 7", "refused", "01234567"]);
        assert_eq!(rows[1][2..5], ["default", "3", "current"]);
    }
}
