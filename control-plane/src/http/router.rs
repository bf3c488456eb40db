//! The table of all routes.

use axum::Router;
use axum::middleware::from_fn_with_state;
use utoipa_axum::router::OpenApiRouter;

use crate::auth::guard::guard;
use crate::state::App;

/// All routes of the API, with their description.
#[must_use]
pub fn api() -> OpenApiRouter<App> {
    OpenApiRouter::new()
}

/// The whole HTTP server: API, health and dashboard behind the guard.
#[must_use]
pub fn router(app: App) -> Router {
    let (api, _openapi) = api().split_for_parts();
    api.layer(from_fn_with_state(app.clone(), guard)).with_state(app)
}
