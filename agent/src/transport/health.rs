//! `/livez`, `/readyz` and `/metrics`.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::json;

use crate::agent::Agent;

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
        "warnings": status.warnings,
    });
    (code, [(CONTENT_TYPE, JSON)], body.to_string()).into_response()
}

pub(super) async fn metrics(State(agent): State<Agent>) -> Response {
    ([(CONTENT_TYPE, OPEN_METRICS)], agent.metrics_text()).into_response()
}
