//! `weir tokens`: who may talk to the control plane.

use reqwest::Method;
use serde_json::{Value, json};

use super::resources::{segment, text};
use crate::args::{Connection, Tokens};
use crate::client::Client;
use crate::output;

/// Lists, makes, revokes.
pub(crate) async fn run(client: &Client, connection: &Connection, command: Tokens) -> anyhow::Result<()> {
    match command {
        Tokens::Revoke { id } => {
            client.call(Method::DELETE, &format!("/v1/tokens/{}", segment(&id)), &[], None).await?;
            if connection.json {
                output::json(&json!({ "id": id, "revoked": true }));
            } else {
                output::line("revoked");
            }
        }
        Tokens::Create { name, kind, role, domains } => {
            let mut body = json!({ "name": name, "kind": kind });
            match role {
                Some(role) => body["role"] = json!(role),
                None if kind == "api" => body["role"] = json!("operator"),
                None => {}
            }
            if !domains.is_empty() {
                body["domains"] = json!(domains);
            }
            let answer = client.call(Method::POST, "/v1/tokens", &[], Some(&body)).await?;
            if connection.json {
                output::json(&answer);
            } else {
                output::note("Keep it safe: it is not shown again.");
                output::line(text(&answer["secret"]));
            }
        }
        Tokens::List => {
            let tokens = client.list("/v1/tokens", &[]).await?;
            if connection.json {
                output::json(&Value::Array(tokens));
                return Ok(());
            }
            let row = |t: &Value| ["id", "name", "kind", "role", "created_at", "expires_at", "last_used_at"].map(|f| text(&t[f])).to_vec();
            let header = ["ID", "NAME", "KIND", "ROLE", "CREATED", "EXPIRES", "LAST USED"];
            output::table(&header, tokens.iter().map(row).collect(), "no tokens");
        }
    }
    Ok(())
}
