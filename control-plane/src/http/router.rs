//! The table of all routes.

use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi as _;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::{
    agents, alerts, analytics, apply, audit, dashboard, denials, domains, headers, health, metrics, openapi, problem, revisions, rules,
    session, shards, tiers, tokens,
};
use crate::auth::guard::guard;
use crate::state::App;

#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(problem::Body)))]
struct Shared;

/// All routes of the API, with their description.
fn table() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(openapi::frame())
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(metrics::read))
        .routes(routes!(domains::list, domains::create))
        .routes(routes!(domains::get, domains::replace, domains::delete))
        .routes(routes!(tiers::list, tiers::create))
        .routes(routes!(tiers::get, tiers::replace, tiers::delete))
        .routes(routes!(rules::list, rules::create))
        .routes(routes!(rules::get, rules::replace, rules::delete))
        .routes(routes!(apply::apply))
        .routes(routes!(apply::export))
        .routes(routes!(apply::warn))
        .routes(routes!(revisions::list))
        .routes(routes!(revisions::get))
        .routes(routes!(revisions::roll_back))
        .routes(routes!(shards::list, shards::create))
        .routes(routes!(shards::get, shards::replace, shards::delete))
        .routes(routes!(agents::list))
        .routes(routes!(agents::get, agents::delete))
        .routes(routes!(analytics::timeseries))
        .routes(routes!(analytics::summary))
        .routes(routes!(analytics::top_subjects))
        .routes(routes!(denials::list))
        .routes(routes!(alerts::list, alerts::create))
        .routes(routes!(alerts::get, alerts::replace, alerts::delete))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::get, tokens::delete))
        .routes(routes!(audit::list))
        .routes(routes!(session::get, session::sign_in, session::sign_out))
        .routes(routes!(session::create_link))
}

/// The description of the API.
#[must_use]
pub fn description() -> OpenApi {
    described().1
}

fn described() -> (Router<App>, OpenApi) {
    let (routes, mut api) = table().split_for_parts();
    api.merge(Shared::openapi());
    openapi::complete(&mut api);
    (routes, api)
}

/// The whole HTTP server: API, health and dashboard behind the guard.
pub fn router(app: App) -> Router {
    let (api, description) = described();
    // Config::from names the document; `SwaggerUi::url` would serve a second copy of it.
    let page: Router<App> = SwaggerUi::new("/docs").config(Config::from("/openapi.json")).into();
    api.route("/openapi.json", get(move || async move { Json(description) }))
        .merge(page)
        .method_not_allowed_fallback(dashboard::method_not_allowed)
        .fallback(dashboard::serve)
        .layer(from_fn_with_state(app.clone(), guard))
        .layer(from_fn_with_state(app.clone(), metrics::count))
        .layer(CatchPanicLayer::custom(|_| panicked()))
        .layer(from_fn_with_state(app.clone(), headers::secure))
        .with_state(app)
}

fn panicked() -> Response {
    problem::Problem::internal(&"a handler panicked").into_response()
}
