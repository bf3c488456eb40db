//! What a fresh `weir dev` starts with: the shards on every start (their ports change), tiers and rules once.

use anyhow::Context as _;
use reqwest::Method;
use serde_json::{Value, json};
use weir_core::config::DomainConfig;

use crate::client::Client;

const RULES: &str = include_str!("seeds.yaml");

/// Brings shards up to date, and seeds tiers and rules if nothing was ever published.
pub(super) async fn run(client: &Client, shards: &[(String, String)]) -> anyhow::Result<()> {
    let known = client.list("/v1/shards", &[]).await?;
    for (name, address) in shards {
        shard(client, &known, name, address).await.with_context(|| format!("shard {name}"))?;
    }
    let revisions = client.get("/v1/revisions", &[("domain", "default"), ("page_size", "1")]).await;
    if revisions.is_ok_and(|page| page["items"].as_array().is_some_and(|items| !items.is_empty())) {
        return Ok(());
    }
    let seeds = DomainConfig::from_yaml(RULES).context("the seeds")?;
    client.call(Method::POST, "/v1/apply", &[], Some(&seeds.to_document())).await.context("the seeds")?;
    Ok(())
}

async fn shard(client: &Client, known: &[Value], name: &str, address: &str) -> anyhow::Result<()> {
    let body = json!({ "name": name, "address": address, "weight": 1 });
    match known.iter().find(|shard| shard["name"] == name) {
        None => client.call(Method::POST, "/v1/shards", &[], Some(&body)).await?,
        Some(shard) if shard["address"] == address => return Ok(()),
        Some(_) => client.replace(&format!("/v1/shards/{name}"), &body).await?,
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_valid_and_say_what_the_readme_says() {
        let seeds = DomainConfig::from_yaml(RULES).unwrap();
        let names: Vec<&str> = seeds.rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!((seeds.tiers.len(), names), (2, vec!["per-user", "search", "upload"]));
    }
}
