//! The dashboard's files, embedded in the binary.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::{Method, StatusCode};
use memory_serve::CacheControl;
use tower::ServiceExt as _;

use super::problem::Problem;
use crate::auth::guard::is_api;

/// The routes of the files. Once per process: they live as long as it does.
static FILES: LazyLock<Router> = LazyLock::new(|| {
    let files = memory_serve::load!().index_file(Some("/index.html")).html_cache_control(CacheControl::NoCache);
    files.fallback(Some("/index.html")).fallback_status(StatusCode::OK).into_router()
});

/// Answers what is no route of the API: a file of the dashboard; its start page for the dashboard's own paths; else 404 or 405.
pub async fn serve(request: Request) -> Response {
    let path = request.uri().path();
    let nowhere = is_api(path) || path.rsplit('/').next().is_some_and(|last| last.contains('.'));
    let reads = request.method() == Method::GET || request.method() == Method::HEAD;
    if is_api(path) || !reads {
        return not_found(path).into_response();
    }
    let path = path.to_owned();
    match FILES.clone().oneshot(request).await {
        // The start page instead of a file that is not there would be run as a script, or shown as a picture.
        Ok(response) if nowhere && is_page(&response) && path != "/index.html" => not_found(&path).into_response(),
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// 405 for a method that a path does not have.
pub async fn method_not_allowed(request: Request) -> Problem {
    let detail = format!("{} is not possible here", request.method());
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "Method not allowed", detail)
}

fn not_found(path: &str) -> Problem {
    Problem::not_found(format!("there is nothing at {path}"))
}

fn is_page(response: &Response) -> bool {
    response.headers().get(http::header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"))
}
