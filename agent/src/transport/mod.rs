//! The agent over HTTP: the check API, forward auth, health and metrics.

mod authz;
mod batch;
mod body;
mod check;
mod forwarded;
mod health;
mod json;
mod lease;
pub mod listen;
mod paced;
mod permit;
pub mod question;
pub mod serve;
mod undo;
mod written;

use axum::extract::DefaultBodyLimit;
use axum::response::IntoResponse;
use axum::routing::{any, get, post};
use axum::{Extension, Router};
use http::StatusCode;

use self::permit::Permitted;
use crate::agent::Agent;
use crate::answer;
use crate::settings::Permissions;

/// The largest body of a question.
pub const MAX_BODY: usize = 64 << 10;
/// The largest body of a batch of questions.
pub const MAX_BATCH_BODY: usize = 1 << 20;

/// [`router`], for callers who may do what `permissions` allow.
pub fn router_permitting(agent: Agent, permissions: Permissions) -> Router {
    router(agent).layer(Extension(Permitted { permissions, ..Permitted::default() }))
}

/// The table of all routes.
pub fn router(agent: Agent) -> Router {
    Router::new()
        .route("/v1/check", post(check::check))
        .route("/v1/check:batch", post(batch::check).layer(DefaultBodyLimit::max(MAX_BATCH_BODY)))
        .route("/v1/peek", post(check::peek))
        .route("/v1/record", post(undo::record))
        .route("/v1/refund", post(undo::refund))
        .route("/v1/reset", post(undo::reset))
        .route("/v1/acquire", post(lease::acquire))
        .route("/v1/release", post(lease::release))
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
