//! `/livez`, `/readyz` and `/metrics`.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::limiter::warning::ShardWarning;
use crate::limiter::{NodeStatus, ShardStatus};

const OPEN_METRICS: HeaderValue = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The process runs.
pub(super) async fn livez() -> &'static str {
    "ok"
}

/// 200 once every domain has rules and until the agent drains. Redis has no say: without it the rules' failure policies answer.
pub(super) async fn readyz(State(agent): State<Agent>) -> Response {
    let status = agent.status();
    let code = if status.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({
        "ready": status.ready,
        "draining": status.draining,
        "connected": status.connected,
        "stale_seconds": status.stale_seconds,
        "domains": status.domains,
        "ring": status.ring,
        "shards": status.shards.iter().map(shard).collect::<Vec<_>>(),
        "warnings": status.warnings,
    });
    (code, [(CONTENT_TYPE, JSON)], body.to_string()).into_response()
}

fn shard(shard: &ShardStatus) -> Value {
    let node = |node: &NodeStatus| json!({ "node": node.node, "breaker": node.breaker.as_str(), "last_error": node.last_error });
    let warning = |warning: &ShardWarning| json!({ "code": warning.code.as_str(), "text": warning.text });
    json!({
        "name": shard.name.as_str(),
        "breaker": shard.breaker.as_str(),
        "last_error": shard.last_error,
        "memory_bytes": shard.memory.used,
        "memory_limit_bytes": shard.memory.limit,
        "guarded": shard.memory.guarded,
        "nodes": shard.nodes.iter().map(node).collect::<Vec<_>>(),
        "warnings": shard.warnings.iter().map(warning).collect::<Vec<_>>(),
    })
}

pub(super) async fn metrics(State(agent): State<Agent>) -> Response {
    ([(CONTENT_TYPE, OPEN_METRICS)], agent.metrics_text()).into_response()
}
