//! `/livez`, `/readyz`: for load balancers and supervisors.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::extract::Query;
use super::params::Nothing;
use super::problem::Problem;
use crate::state::App;

/// How the process is.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Health {
    /// `live` or `ready`.
    pub status: &'static str,
}

/// Is the process alive?
#[utoipa::path(get, path = "/livez", tag = "health", operation_id = "live", security(()),
    responses((status = 200, description = "It is", body = Health)))]
pub async fn live(Query(Nothing {}): Query<Nothing>) -> Json<Health> {
    Json(Health { status: "live" })
}

/// Can it serve, with its database?
#[utoipa::path(get, path = "/readyz", tag = "health", operation_id = "ready", security(()),
    responses((status = 200, description = "It can", body = Health)))]
pub async fn ready(State(app): State<App>, Query(Nothing {}): Query<Nothing>) -> Result<Json<Health>, Problem> {
    sqlx::query("SELECT 1").execute(&app.pool).await?;
    Ok(Json(Health { status: "ready" }))
}
