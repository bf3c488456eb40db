//! `weir revisions`: what was published, by whom, and which agents run it.

use reqwest::Method;
use serde_json::Value;

use super::resources::text;
use crate::args::{Connection, Revisions};
use crate::client::Client;
use crate::output;

/// Lists, shows, rolls back.
pub(crate) async fn run(client: &Client, connection: &Connection, command: Revisions) -> anyhow::Result<()> {
    let query = [("domain", connection.domain())];
    match command {
        Revisions::Get { revision } => output::json(&client.get(&format!("/v1/revisions/{revision}"), &query).await?),
        Revisions::Rollback { revision } => {
            let answer = client.call(Method::POST, &format!("/v1/revisions/{revision}/rollback"), &query, None).await?;
            if connection.json {
                output::json(&answer);
                return Ok(());
            }
            output::line(format_args!("revision {} now has the content of revision {revision}", text(&answer["revision"])));
        }
        Revisions::List => {
            let revisions = client.list("/v1/revisions", &query).await?;
            if connection.json {
                output::json(&Value::Array(revisions));
                return Ok(());
            }
            let row = |r: &Value| vec![text(&r["revision"]), text(&r["created_at"]), text(&r["author"]), text(&r["summary"])];
            output::table(&["REVISION", "PUBLISHED", "AUTHOR", "CHANGE"], revisions.iter().map(row).collect(), "nothing published yet");
        }
    }
    Ok(())
}
