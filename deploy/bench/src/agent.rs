//! Agents and requests as the rows need them.

use std::time::Duration;

use weir_agent::Agent;
use weir_agent::limiter::ShardConfig;
use weir_agent::settings::{AgentSettings, Counters, RulesFrom};
use weir_core::config::DomainConfig;
use weir_core::name::Name;
use weir_core::request::Request;
use weir_core::subject::Subject;
use weir_testbed::Redis;

const RULES: &str = r#"
domain: default
tiers: [{ name: free, default: true }]
rules:
  - name: per-subject
    match: { path: "/**" }
    key: [subject]
    limits: { "*": { limit: 1000, window: 1h } }
    on_failure: { mode: open }
"#;

/// An agent alone on these shards, with one token-bucket rule. It never refuses here, and a subject that was here once stays alive for seconds.
pub(crate) async fn on(shards: &[Redis], budget: Duration) -> anyhow::Result<Agent> {
    let mut settings = AgentSettings::new(Name::new("bench")?, RulesFrom::Given(vec![DomainConfig::from_yaml(RULES)?]));
    let shards = shards.iter().enumerate().map(|(i, redis)| {
        anyhow::Ok(ShardConfig {
            name: Name::new(&format!("shard-{i}"))?,
            address: redis.url().parse()?,
            weight: 1,
            username: None,
            password: None,
        })
    });
    settings.counters = Counters::Shards(shards.collect::<Result<_, _>>()?);
    settings.budget = budget;
    Ok(Agent::start(settings).await?)
}

/// A request of subject number `number`.
pub(crate) fn request<'a>(headers: &'a http::HeaderMap, id: &'a str) -> Request<'a> {
    Request {
        domain: "default",
        subject: Subject::new("user", id.as_bytes()),
        tier: None,
        method: Some("GET"),
        host: Some("api.example.com"),
        path: Some("/api/search"),
        headers,
        client_ip: None,
        descriptors: &[],
        cost: 1,
    }
}
