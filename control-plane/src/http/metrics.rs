//! `/metrics`: what the control plane itself does, for Prometheus.

use std::fmt::Write as _;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::CONTENT_TYPE;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::extract::Query;
use super::params::Nothing;
use super::problem::Problem;
use crate::auth::Viewer;
use crate::db::set::{self, RING};
use crate::push::metrics::AgentMetrics;
use crate::state::App;

/// What a request is counted by. All values come from the code, so their number is fixed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    method: &'static str,
    route: String,
    status: u16,
}

/// The control plane's own numbers. Other parts register theirs as well.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: Family<Labels, Counter>,
    /// What is done for agents.
    pub agents: AgentMetrics,
}

impl Metrics {
    /// Makes the numbers known to `registry`.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("weir_http_requests", "Requests to the admin API by route and status", metrics.requests.clone());
        metrics.agents.register(registry);
        metrics
    }
}

/// The middleware that counts requests. Those to no route are counted as route `-`.
pub async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let method = match request.method().as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        _ => "other",
    };
    let route = request.extensions().get::<MatchedPath>().map_or("-", MatchedPath::as_str).to_owned();
    let response = next.run(request).await;
    app.metrics.requests.get_or_create(&Labels { method, route, status: response.status().as_u16() }).inc();
    response
}

/// The control plane's metrics
///
/// In the text format of OpenMetrics.
#[utoipa::path(get, path = "/metrics", tag = "health", operation_id = "metrics", security(("token" = ["viewer"])),
    responses((status = 200, description = "The metrics", body = String, content_type = "application/openmetrics-text")))]
pub async fn read(State(app): State<App>, _viewer: Viewer, Query(Nothing {}): Query<Nothing>) -> Result<Response, Problem> {
    let mut text = String::new();
    prometheus_client::encoding::text::encode_registry(&mut text, &app.registry).map_err(|error| Problem::internal(&error))?;
    let heads = set::heads(&mut *app.pool.acquire().await?).await?;
    let mut lines = "# HELP weir_revision Newest revision of each domain, and of the ring.\n# TYPE weir_revision gauge\n".to_owned();
    for head in heads {
        let (kind, domain) = if head.domain == RING { ("ring", "") } else { ("rules", head.domain.as_str()) };
        // Names consist of characters that need no escaping.
        let _ = writeln!(lines, "weir_revision{{kind=\"{kind}\",domain=\"{domain}\"}} {}", head.revision);
    }
    let _ = writeln!(lines, "# HELP weir_database_connections Open connections to the database.\n# TYPE weir_database_connections gauge");
    let _ = writeln!(lines, "weir_database_connections {}\n# EOF", app.pool.size());
    Ok(([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text + &lines).into_response())
}
