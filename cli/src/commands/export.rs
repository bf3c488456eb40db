//! `weir export`: a domain as a rules file.

use anyhow::anyhow;
use weir_core::config::DomainConfig;

use crate::args::Connection;
use crate::client::Client;
use crate::output;

/// Prints YAML that `weir apply` takes, or JSON.
pub(crate) async fn run(client: &Client, connection: &Connection) -> anyhow::Result<()> {
    let document = client.get("/v1/export", &[("domain", connection.domain())]).await?;
    if connection.json {
        output::json(&document);
        return Ok(());
    }
    let config = DomainConfig::read(&document)
        .map_err(|mistakes| anyhow!("the control plane sent rules that this version does not understand:\n{mistakes}"))?;
    output::line(config.to_yaml().trim_end());
    Ok(())
}
