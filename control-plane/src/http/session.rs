//! `/v1/session`, `/v1/sign-in-links`: how people get into the dashboard.

use std::net::IpAddr;
use std::time::Duration;

use axum::Json;
use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse as _, Response};
use http::header::SET_COOKIE;
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde_json::Value;
use sqlx::PgPool;

use super::extract::{Body, Query};
use super::params::Nothing;
use super::problem::Problem;
use crate::auth::{Admin, Principal, Role, csrf, guard, session as cookie, token as text};
use crate::db::publish::{Action, Change};
use crate::db::time::Time;
use crate::db::{audit, session, token};
use crate::state::App;
use crate::tls::Peer;

/// How long a sign-in link can be used, once.
pub const LINK_LIFETIME: Duration = Duration::from_secs(600);

/// Who is signed in.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Session {
    /// The name of the token or link, the author in the audit.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Where; null: everywhere.
    #[schema(required)]
    pub domains: Option<Vec<String>>,
}

/// What proves who signs in: exactly one of the two.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Credentials {
    /// The code of a sign-in link.
    #[schema(required = false)]
    pub code: String,
    /// An API token.
    #[schema(required = false)]
    pub token: String,
}

/// A sign-in link.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct SignInLink {
    /// The link; its code is in the fragment, which browsers do not send.
    pub url: String,
    /// When it ends.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Time,
}

impl From<Principal> for Session {
    fn from(who: Principal) -> Self {
        Self { name: who.name, role: who.role, domains: who.domains }
    }
}

/// Sign in
///
/// With the code of a sign-in link, or with an API token. The answer sets the session's cookie.
#[utoipa::path(post, path = "/v1/session", tag = "session", operation_id = "signIn", security(()), request_body = Credentials,
    responses((status = 200, description = "Signed in", body = Session)))]
pub async fn sign_in(
    State(app): State<App>,
    Query(Nothing {}): Query<Nothing>,
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Response, Problem> {
    csrf::check_if_told(&headers, &app.public_url)?;
    let address = guard::client_address(&app, peer.ip(), &headers);
    let given = credentials(&body)?;
    let who = prove(&app, &given, address).await?;
    let secret = text::random_text();
    let mut transaction = app.pool.begin().await?;
    session::insert(&mut transaction, &text::hash(&secret), &who, cookie::LIFETIME).await?;
    let entry = Change { kind: "session".to_owned(), name: who.name.clone(), action: Action::SignIn, before: None, after: None };
    audit::insert(&mut transaction, "", None, &[entry], &who.name).await?;
    transaction.commit().await?;
    tracing::info!(name = %who.name, role = %who.role, %address, "signed in");
    Ok(with_cookie(&app, Some(&secret), Json(Session::from(who)).into_response()))
}

/// Who am I?
#[utoipa::path(get, path = "/v1/session", tag = "session", operation_id = "getSession", security(("token" = ["viewer"])),
    responses((status = 200, description = "You are signed in, or sent a token", body = Session)))]
pub async fn get(
    State(app): State<App>,
    Query(Nothing {}): Query<Nothing>,
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    headers: HeaderMap,
) -> Result<Json<Session>, Problem> {
    let who = guard::identify(&app, &http::Method::GET, &headers, guard::client_address(&app, peer.ip(), &headers)).await?;
    Ok(Json(who.into()))
}

/// Sign out
///
/// Ends the session of the cookie, if there is one.
#[utoipa::path(delete, path = "/v1/session", tag = "session", operation_id = "signOut", security(()),
    responses((status = 204, description = "Signed out")))]
pub async fn sign_out(State(app): State<App>, Query(Nothing {}): Query<Nothing>, headers: HeaderMap) -> Result<Response, Problem> {
    if let Some(secret) = cookie::cookie(&headers, &app.public_url) {
        csrf::check(&headers, &app.public_url)?;
        session::delete(&mut *app.pool.acquire().await?, &text::hash(&secret)).await?;
    }
    Ok(with_cookie(&app, None, StatusCode::NO_CONTENT.into_response()))
}

/// Make a sign-in link
///
/// Whoever opens it first, within ten minutes, is signed in with your role.
#[utoipa::path(post, path = "/v1/sign-in-links", tag = "session", operation_id = "createSignInLink", security(("token" = ["admin"])),
    responses((status = 201, description = "Made", body = SignInLink)))]
pub async fn create_link(
    State(app): State<App>,
    Admin(who): Admin,
    Query(Nothing {}): Query<Nothing>,
) -> Result<(StatusCode, Json<SignInLink>), Problem> {
    Ok((StatusCode::CREATED, Json(link(&app.pool, &app.public_url, &who).await?)))
}

/// Makes a sign-in link for `who` to the dashboard at `base`.
///
/// # Errors
/// The database's.
pub async fn link(pool: &PgPool, base: &str, who: &Principal) -> Result<SignInLink, sqlx::Error> {
    let code = text::random_text();
    let mut transaction = pool.begin().await?;
    let expires_at = session::insert_code(&mut transaction, &text::hash(&code), who, LINK_LIFETIME).await?;
    let entry = Change { kind: "sign-in-link".to_owned(), name: who.name.clone(), action: Action::Create, before: None, after: None };
    audit::insert(&mut transaction, "", None, &[entry], &who.name).await?;
    transaction.commit().await?;
    Ok(SignInLink { url: format!("{base}/sign-in#code={code}"), expires_at })
}

enum Given {
    Code(String),
    Token(String),
}

fn credentials(body: &Value) -> Result<Given, Problem> {
    let object = body.as_object().filter(|object| object.len() == 1);
    let entry = object.and_then(|object| object.iter().next()).and_then(|(name, value)| Some((name.as_str(), value.as_str()?.to_owned())));
    match entry {
        Some(("code", code)) => Ok(Given::Code(code)),
        Some(("token", token)) => Ok(Given::Token(token)),
        _ => Err(Problem::mistake("", "send either {\"code\": \"...\"} or {\"token\": \"weir_...\"}")),
    }
}

async fn prove(app: &App, given: &Given, address: IpAddr) -> Result<Principal, Problem> {
    let mut connection = app.pool.acquire().await?;
    let found = match given {
        Given::Code(code) => session::take_code(&mut connection, &text::hash(code)).await?,
        Given::Token(token) if !text::is_well_formed(token.trim()) => None,
        Given::Token(token) => token::find(&mut connection, token.trim()).await?.and_then(token::Token::into_principal),
    };
    found.ok_or_else(|| guard::refuse(app, &app.sign_ins, address, "sign-in with an unknown, used or expired code or token"))
}

fn with_cookie(app: &App, secret: Option<&str>, mut response: Response) -> Response {
    if let Some(value) = cookie::set_cookie(secret, &app.public_url) {
        response.headers_mut().insert(SET_COOKIE, value);
    }
    response
}
