//! What a fresh `weir dev` starts with: the shards on every start (their ports change), tiers and rules once.

use anyhow::Context as _;
use reqwest::Method;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use weir_core::config::DomainConfig;

use super::servers::Shard;
use crate::client::Client;

const RULES: &str = include_str!("seeds.yaml");

/// Brings shards up to date, and seeds tiers and rules if nothing was ever published.
pub(super) async fn run(client: &Client, shards: &[Shard]) -> anyhow::Result<()> {
    let known = client.list("/v1/shards", &[]).await?;
    for shard in shards {
        put(client, &known, shard).await.with_context(|| shard.name.clone())?;
    }
    for name in known.iter().filter_map(|shard| shard["name"].as_str()).filter(|name| is_ours(name)) {
        if !shards.iter().any(|shard| shard.name == name) {
            // An earlier run had more of them; nothing listens there now.
            client.delete(&format!("/v1/shards/{name}")).await.with_context(|| name.to_owned())?;
        }
    }
    let revisions = client.get("/v1/revisions", &[("domain", "default"), ("page_size", "1")]).await;
    if revisions.is_ok_and(|page| page["items"].as_array().is_some_and(|items| !items.is_empty())) {
        return Ok(());
    }
    let seeds = DomainConfig::from_yaml(RULES).context("the seeds")?;
    client.call(Method::POST, "/v1/apply", &[], Some(&seeds.to_document())).await.context("the seeds")?;
    Ok(())
}

async fn put(client: &Client, known: &[Value], shard: &Shard) -> anyhow::Result<()> {
    let (login, sentinel) = (&shard.given.login, &shard.given.sentinel_login);
    // Always said, even if it is that there is none: what an earlier run stored is not for this address.
    let mut body = json!({
        "name": shard.name, "address": shard.address, "password": login.password.as_ref().map(ExposeSecret::expose_secret),
        "sentinel_password": sentinel.password.as_ref().map(ExposeSecret::expose_secret),
    });
    for (field, username) in [("username", &login.username), ("sentinel_username", &sentinel.username)] {
        if let Some(username) = username {
            body[field] = json!(username);
        }
    }
    match known.iter().find(|known| known["name"] == *shard.name) {
        None => client.call(Method::POST, "/v1/shards", &[], Some(&body)).await?,
        Some(known) => {
            body["weight"] = known["weight"].clone();
            client.replace(&format!("/v1/shards/{}", shard.name), &body).await?
        }
    };
    Ok(())
}

/// Whether `weir dev` gives such names.
fn is_ours(name: &str) -> bool {
    name.strip_prefix("shard-").is_some_and(|number| number.parse::<u16>().is_ok())
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

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_ring_is_that_of_this_run_and_tokens_that_are_gone_are_made_anew() {
        let postgres = weir_testbed::Postgres::temporary().await.unwrap();
        let settings = weir_control_plane::Settings::new(postgres.create_database("weir").await.unwrap());
        let plane = weir_control_plane::ControlPlane::start(settings).await.unwrap();
        let (url, data) = (format!("http://{}", plane.http_addr()), tempfile::tempdir().unwrap());
        let tokens = super::super::tokens::Tokens::get(&plane, data.path()).await.unwrap();
        let client = Client::with_token(&url, tokens.admin.clone()).unwrap();
        let other = json!({ "name": "shard-of-mine", "address": "redis://127.0.0.1:9" });
        client.call(Method::POST, "/v1/shards", &[], Some(&other)).await.unwrap();

        let shards = |urls: &[&str]| urls.iter().enumerate().map(|(i, url)| Shard::new(i + 1, url).unwrap()).collect::<Vec<_>>();
        run(&client, &shards(&["redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3"])).await.unwrap();
        run(&client, &shards(&["redis://:p%40ss@127.0.0.1:4", "/run/redis.sock"])).await.unwrap();
        let ring = client.list("/v1/shards", &[]).await.unwrap();
        let ring: Vec<_> =
            ring.iter().map(|s| (s["name"].as_str().unwrap(), s["address"].as_str().unwrap(), s["has_password"] == true)).collect();
        assert_eq!(
            ring,
            [
                ("shard-1", "redis://127.0.0.1:4", true),
                ("shard-2", "/run/redis.sock", false),
                ("shard-of-mine", "redis://127.0.0.1:9", false)
            ]
        );
        let mut connection = plane.app().pool.acquire().await.unwrap();
        let stored = weir_control_plane::db::secret::credentials_of(&mut connection, "shard-1").await.unwrap().unwrap();
        assert_eq!(stored.password.as_deref(), Some("p@ss"));
        drop(connection);
        // Without a password again, the old one goes.
        run(&client, &shards(&["redis://127.0.0.1:5"])).await.unwrap();
        assert_eq!(client.get("/v1/shards/shard-1", &[]).await.unwrap()["has_password"], false);

        let listed = client.list("/v1/tokens", &[]).await.unwrap();
        let agents = listed.iter().find(|token| token["kind"] == "agent").unwrap();
        client.call(Method::DELETE, &format!("/v1/tokens/{}", agents["id"].as_str().unwrap()), &[], None).await.unwrap();
        let again = super::super::tokens::Tokens::get(&plane, data.path()).await.unwrap();
        assert_eq!(again.admin, tokens.admin);
        assert_ne!(again.agent, tokens.agent);
    }
}
