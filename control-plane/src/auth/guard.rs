//! Stands before every route: only health, static assets and sign-in answer without credentials.

use std::net::{IpAddr, Ipv4Addr};

use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method};

use super::attempts::Attempts;
use super::{Principal, csrf, session, token};
use crate::db;
use crate::http::problem::Problem;
use crate::state::App;
use crate::tls::Peer;

/// Paths that belong to the API; everything else is the dashboard's.
const API: [&str; 4] = ["/v1", "/openapi.json", "/docs", "/metrics"];

/// The middleware: refuses, or lets pass with a [`Principal`] where one is known.
///
/// # Errors
/// 401, 403, 429 or 503 as a problem.
pub async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Result<Response, Problem> {
    if is_public(request.method(), request.uri().path()) {
        return Ok(next.run(request).await);
    }
    let address = client_address(&app, peer(&request), request.headers());
    let principal = identify(&app, request.method(), request.headers(), address).await?;
    request.extensions_mut().insert(principal);
    Ok(next.run(request).await)
}

/// Who sends a request: by its token, else by its session's cookie.
///
/// # Errors
/// 401, 403, 429 or 503.
pub async fn identify(app: &App, method: &Method, headers: &HeaderMap, address: IpAddr) -> Result<Principal, Problem> {
    match headers.get(AUTHORIZATION) {
        Some(value) => by_token(app, value.to_str().unwrap_or_default(), address).await,
        None => by_session(app, method, headers).await,
    }
}

/// The address at the other end of the connection.
#[must_use]
pub fn peer(request: &Request) -> IpAddr {
    let info = request.extensions().get::<ConnectInfo<Peer>>();
    info.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(Peer(address))| address.ip().to_canonical())
}

/// Who is at the other end, where trusted proxies may stand between.
#[must_use]
pub fn client_address(app: &App, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    app.client_ip.resolve(peer, headers).ip
}

/// The token of an `Authorization: Bearer` header.
#[must_use]
pub fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

/// Whether anybody may ask. Sloppy spellings of the API's paths (`//v1`, `/V1/`) count as the API: they must not answer either.
fn is_public(method: &Method, path: &str) -> bool {
    let read = method == Method::GET || method == Method::HEAD;
    match path {
        "/livez" | "/readyz" => read,
        "/v1/session" => read || method == Method::POST || method == Method::DELETE,
        _ => read && !is_api(path),
    }
}

/// Whether `path` is, or is meant to be, one of the API's.
#[must_use]
pub fn is_api(path: &str) -> bool {
    let squeezed: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty() && *segment != ".").collect();
    let path = format!("/{}", squeezed.join("/")).to_ascii_lowercase();
    path.contains("..")
        || path.contains('%')
        || API.iter().any(|p| path.strip_prefix(p).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

async fn by_token(app: &App, authorization: &str, address: IpAddr) -> Result<Principal, Problem> {
    let found = match bearer(authorization).filter(|secret| token::is_well_formed(secret)) {
        Some(secret) => db::token::find(&mut *app.pool.acquire().await?, secret).await?,
        None => None,
    };
    let Some(token) = found else { return Err(refuse(app, &app.wrong_tokens, address, "unknown or expired token")) };
    token.into_principal().ok_or_else(|| Problem::forbidden("this is an agent's token; the API needs a token of the kind \"api\""))
}

async fn by_session(app: &App, method: &Method, headers: &HeaderMap) -> Result<Principal, Problem> {
    let cookie = session::cookie(headers, &app.public_url).ok_or_else(Problem::unauthorized)?;
    if !method.is_safe() {
        csrf::check(headers, &app.public_url)?;
    }
    let found = db::session::find(&mut *app.pool.acquire().await?, &token::hash(&cookie)).await?;
    // Not counted as a failed log-in: a page left open goes on asking after its session has ended.
    found.ok_or_else(Problem::unauthorized)
}

/// Notes and logs a failed log-in; 401, or 429 after too many.
#[must_use]
pub fn refuse(app: &App, attempts: &Attempts, address: IpAddr, why: &str) -> Problem {
    if let Some(wait) = attempts.wait(address, app.clock.now()) {
        return Problem::too_many_attempts(wait);
    }
    attempts.failed(address, app.clock.now());
    tracing::warn!(%address, why, "log-in refused");
    Problem::unauthorized()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_is_recognised_however_it_is_spelled() {
        for path in [
            "/v1/rules",
            "//v1/rules",
            "/v1/rules/",
            "/V1/RULES",
            "/v1",
            "/./v1/rules",
            "/x/../v1/rules",
            "/%76%31/rules",
            "/docs",
            "/openapi.json",
        ] {
            assert!(!is_public(&Method::GET, path), "{path}");
        }
        for path in ["/", "/index.html", "/assets/app.js", "/rules", "/v1x", "/livez", "/readyz"] {
            assert!(is_public(&Method::GET, path) && is_public(&Method::HEAD, path), "{path}");
            assert!(!is_public(&Method::POST, path) && !is_public(&Method::OPTIONS, path), "{path}");
        }
        assert!(is_public(&Method::POST, "/v1/session") && !is_public(&Method::POST, "/v1/session/"));
    }

    #[test]
    fn bearer_tokens_are_read_whatever_the_case_of_the_scheme() {
        assert_eq!(bearer("Bearer weir_x"), Some("weir_x"));
        assert_eq!(bearer("bearer  weir_x"), Some("weir_x"));
        for bad in ["", "Bearer", "Bearer ", "Basic weir_x", "weir_x"] {
            assert_eq!(bearer(bad), None, "{bad:?}");
        }
    }
}
