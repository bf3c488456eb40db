//! The agent over HTTP: the check API, forward auth, health and metrics.

mod authz;
mod batch;
mod body;
mod check;
mod forwarded;
mod health;
mod json;
pub mod listen;
mod paced;
mod permit;
pub mod question;
pub mod serve;
mod written;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::response::IntoResponse;
use axum::routing::{any, get, post};
use http::StatusCode;

use crate::agent::Agent;
use crate::answer;

/// The largest body of a question.
pub const MAX_BODY: usize = 64 << 10;
/// The largest body of a batch of questions.
pub const MAX_BATCH_BODY: usize = 1 << 20;

/// The table of all routes.
pub fn router(agent: Agent) -> Router {
    Router::new()
        .route("/v1/check", post(check::check))
        .route("/v1/check:batch", post(batch::check).layer(DefaultBodyLimit::max(MAX_BATCH_BODY)))
        .route("/authz", any(authz::authz))
        .route("/livez", get(health::livez))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .fallback(async || answer::refused(StatusCode::NOT_FOUND, "not-found", "there is nothing at this path").into_response())
        .method_not_allowed_fallback(async || {
            answer::refused(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "this path has another method").into_response()
        })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(agent)
}
