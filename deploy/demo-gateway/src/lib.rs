//! A small service as a user of Weir would write it: an axum application that embeds an agent through the tower layer.
//!
//! `X-User-Id` names the subject and `X-Tier` the tier: this gateway trusts its callers, so that it can be tried with curl. A real one sets
//! both itself, after it knows who calls. Without them the client's address is limited, as the default tier.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Path, Query};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use weir_agent::middleware::LayerSettings;
use weir_agent::{Agent, StartError};

/// The header that names the subject.
pub const SUBJECT_HEADER: HeaderName = HeaderName::from_static("x-user-id");
/// The header that names the tier.
pub const TIER_HEADER: HeaderName = HeaderName::from_static("x-tier");

/// The application, limited by `agent`.
///
/// # Errors
/// [`StartError`]: the agent cannot limit it.
pub fn app(agent: &Agent) -> Result<Router, StartError> {
    let limits = LayerSettings { subject_header: Some(SUBJECT_HEADER), tier_header: Some(TIER_HEADER), ..LayerSettings::default() };
    let app = Router::new()
        .route("/", get(welcome))
        .route("/api/search", get(search))
        .route("/api/upload", post(upload))
        .route("/api/users/{id}", get(user))
        .route("/api/status", get(status))
        .fallback(nothing)
        // A layer limits what was added before it, the fallback included: unknown paths cost as much as known ones.
        .layer(agent.layer(limits)?);
    Ok(app)
}

/// Serves the application until it is dropped.
///
/// # Errors
/// What the system says about the listener, or the agent about the application.
pub async fn serve(listener: TcpListener, agent: &Agent) -> std::io::Result<()> {
    serve_until(listener, agent, std::future::pending()).await
}

/// Serves the application until `stop`, then finishes the requests in flight.
///
/// # Errors
/// What the system says about the listener.
pub async fn serve_until(listener: TcpListener, agent: &Agent, stop: impl Future<Output = ()> + Send + 'static) -> std::io::Result<()> {
    let service = app(agent).map_err(std::io::Error::other)?.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).with_graceful_shutdown(stop).await
}

async fn welcome(ConnectInfo(peer): ConnectInfo<SocketAddr>, headers: HeaderMap) -> Json<Value> {
    Json(json!({
        "message": "Welcome. Every answer says in its headers how much is left.",
        "you": caller(&headers).unwrap_or_else(|| peer.ip().to_string()),
        "try": ["GET /api/search?q=weir", "POST /api/upload", "GET /api/users/42", "GET /api/status"],
    }))
}

#[derive(Debug, Deserialize)]
struct Search {
    #[serde(default)]
    q: String,
}

const ARTICLES: [&str; 4] = ["What a weir does", "Token buckets", "Sliding windows", "Rings of shards"];

async fn search(Query(search): Query<Search>) -> Json<Value> {
    let wanted = search.q.to_lowercase();
    let found: Vec<_> = ARTICLES.iter().filter(|title| title.to_lowercase().contains(&wanted)).collect();
    Json(json!({ "query": search.q, "found": found }))
}

async fn upload(body: axum::body::Bytes) -> Response {
    (StatusCode::CREATED, Json(json!({ "stored_bytes": body.len() }))).into_response()
}

async fn user(Path(id): Path<String>) -> Json<Value> {
    Json(json!({ "id": id, "name": format!("User {id}") }))
}

async fn status() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

async fn nothing() -> Response {
    (StatusCode::NOT_FOUND, Json(json!({ "message": "There is nothing at this path; GET / lists what there is." }))).into_response()
}

/// What the caller says about itself.
fn caller(headers: &HeaderMap) -> Option<String> {
    let text = |name: HeaderName| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let user = text(SUBJECT_HEADER)?;
    Some(text(TIER_HEADER).map_or_else(|| user.clone(), |tier| format!("{user} ({tier})")))
}
