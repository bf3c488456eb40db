//! Agents and requests as the rows need them.

use std::time::Duration;

use weir_agent::Agent;
use weir_agent::limiter::ShardConfig;
use weir_agent::settings::{AgentSettings, Counters, RulesFrom};
use weir_core::config::DomainConfig;
use weir_core::limit::Algorithm;
use weir_core::name::Name;
use weir_core::request::Request;
use weir_core::subject::Subject;
use weir_testbed::Redis;

/// The path of the rule under which a subject passes once.
pub(crate) const EXHAUSTED: &str = "/exhausted";
/// The path of the rule under which one subject may do everything.
pub(crate) const HOT: &str = "/hot";

/// The path of the rule of this algorithm.
pub(crate) fn counted_by(algorithm: Algorithm) -> String {
    format!("/{}", algorithm.as_str())
}

/// The path under which so many rules apply, of 1, 3 and 10.
pub(crate) fn with_limits(limits: usize) -> String {
    format!("/limits-{limits}")
}

/// One rule per path, which counts by subject and, but for [`EXHAUSTED`], never refuses here. A subject that was here once is there for more
/// than a minute, so that as many are alive as the classic script has.
fn rules() -> String {
    let rule = |name: &str, path: &str, algorithm: &str, limit: u64| {
        format!(
            "  - {{ name: {name}, match: {{ path: {path} }}, key: [subject], algorithm: {algorithm}, on_failure: {{ mode: open }}, \
             limits: {{ '*': {{ limit: {limit}, window: 1d }} }} }}\n"
        )
    };
    let mut rules = String::from("domain: default\ntiers: [{ name: free, default: true }]\nrules:\n");
    rules += &rule("exhausted", EXHAUSTED, "token_bucket", 1);
    rules += &rule("hot", HOT, "token_bucket", 1_000_000_000);
    for algorithm in Algorithm::ALL {
        rules += &rule(algorithm.as_str(), &counted_by(algorithm), algorithm.as_str(), 1_000);
    }
    for limits in [1, 3, 10] {
        for number in 0..limits {
            let algorithm = ["token_bucket", "sliding_window", "fixed_window"][number % 3];
            rules += &rule(&format!("limits-{limits}.{number}"), &with_limits(limits), algorithm, 1_000);
        }
    }
    rules
}

/// What an agent alone on these shards is told.
pub(crate) fn settings(shards: &[Redis], budget: Duration) -> anyhow::Result<AgentSettings> {
    let mut settings = AgentSettings::new(Name::new("bench")?, RulesFrom::Given(vec![DomainConfig::from_yaml(&rules())?]));
    let shards = shards.iter().enumerate().map(|(i, redis)| {
        let address = redis.url().parse().map_err(anyhow::Error::msg)?;
        anyhow::Ok(ShardConfig::new(Name::new(&format!("shard-{i}"))?, address))
    });
    settings.counters = Counters::Shards(shards.collect::<Result<_, _>>()?);
    settings.budget = budget;
    Ok(settings)
}

/// An agent alone on these shards, all of which it has reached.
pub(crate) async fn on(shards: &[Redis], budget: Duration) -> anyhow::Result<Agent> {
    let agent = Agent::start(settings(shards, budget)?).await?;
    agent.settled().await;
    Ok(agent)
}

/// A request to `path` of the subject with this id.
pub(crate) fn request<'a>(headers: &'a http::HeaderMap, path: &'a str, id: &'a str) -> Request<'a> {
    Request {
        domain: "default",
        subject: Subject::new("user", id.as_bytes()),
        tier: None,
        method: Some("GET"),
        host: Some("api.example.com"),
        path: Some(path),
        headers,
        client_ip: None,
        descriptors: &[],
        cost: 1,
        limits: None,
    }
}
