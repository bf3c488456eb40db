//! `concurrency` rules: leases over HTTP, and the tower layer, which releases with the body of the answer.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod layer;
mod leases;
#[path = "../served/mod.rs"]
mod served;

use http::HeaderMap;
use weir_agent::Agent;
use weir_agent::limiter::ShardConfig;
use weir_agent::settings::{AgentSettings, Counters};
use weir_testbed::Redis;

use crate::served::until;

const RULES: &str = r#"
domain: default
rules:
  - { name: jobs, key: [], algorithm: concurrency, limits: { "*": { limit: 2, window: 60s } } }
  - { name: rate, key: [], limits: { "*": { limit: 1000000, window: 1s } } }
"#;

fn on(redis: &Redis, mut settings: AgentSettings) -> AgentSettings {
    let shard = ShardConfig::new("a".parse().unwrap(), redis.url().parse().unwrap());
    settings.counters = Counters::Shards(vec![shard]);
    settings
}

/// A question that looks how many may still pass.
fn look() -> weir_core::request::Request<'static> {
    static NO_HEADERS: std::sync::LazyLock<HeaderMap> = std::sync::LazyLock::new(HeaderMap::new);
    weir_core::request::Request {
        domain: "default",
        subject: None,
        tier: None,
        method: None,
        host: None,
        path: None,
        headers: &NO_HEADERS,
        client_ip: None,
        descriptors: &[],
        cost: 1,
        limits: None,
    }
}

async fn free(agent: &Agent) -> u64 {
    agent.peek(&look()).await.unwrap().limits[0].remaining
}

/// Releases are not waited for.
async fn becomes_free(agent: &Agent, wanted: u64) {
    until("leases that are given back", async || (free(agent).await == wanted).then_some(())).await;
}
