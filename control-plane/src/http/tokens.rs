//! `/v1/tokens`: of people, programs and agents. The text of a token is answered once, when it is made.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use secrecy::ExposeSecret as _;
use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;
use weir_core::mistake::{Mistakes, child};
use weir_core::name::Name;

use super::extract::{Body, Path, Query};
use super::paging::Page;
use super::params::{Nothing, Paged, Write};
use super::problem::Problem;
use super::{answer, documents};
use crate::auth::{Admin, Role, token as text};
use crate::db::audit;
use crate::db::publish::{Action, Change};
use crate::db::time::Time;
use crate::db::token::{self, Kind, NewToken, Token};
use crate::state::App;

/// The most domains of a token.
const MAX_DOMAINS: usize = 100;

/// A token, without its text.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Token)]
pub struct TokenView {
    /// Its id.
    #[schema(value_type = String)]
    pub id: Uuid,
    /// Its name, the author in the audit.
    pub name: String,
    /// What it is for.
    pub kind: Kind,
    /// What it may do; null for agents.
    #[schema(required)]
    pub role: Option<Role>,
    /// The domains it is for; null: all, and what belongs to none.
    #[schema(required)]
    pub domains: Option<Vec<String>>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    /// When it ends; null: never.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Time>,
    /// When it was last used, give or take a minute.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    pub last_used_at: Option<Time>,
    /// The token itself; only in the answer to its creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = String)]
    pub secret: Option<String>,
}

/// A token to be made.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = NewToken)]
pub struct NewTokenDocument {
    /// Its name, unique among tokens.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_.:-]+$")]
    pub name: String,
    /// What it is for (default `api`).
    #[schema(required = false)]
    pub kind: Kind,
    /// What it may do; needed for `api`, not allowed for `agent`.
    pub role: Option<Role>,
    /// The domains it is for; absent: all, and what belongs to none.
    pub domains: Option<Vec<String>>,
    /// When it ends; absent: never.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Time>,
}

/// List tokens
#[utoipa::path(get, path = "/v1/tokens", tag = "tokens", operation_id = "listTokens", params(Paged), security(("token" = ["admin"])),
    responses((status = 200, description = "A page of tokens, by name", body = Page<TokenView>)))]
pub async fn list(State(app): State<App>, Admin(who): Admin, Query(query): Query<Paged>) -> Result<Json<Value>, Problem> {
    who.enter_all()?;
    let wanted = app.pager.wanted("token", query.page_size, query.page_token.as_deref())?;
    let after = wanted.after.as_deref().unwrap_or_default();
    let rows = token::page(&mut *app.pool.acquire().await?, after, wanted.limit()).await?;
    Ok(Json(app.pager.page(&wanted, rows, |t: &Token| t.name.clone(), |t| json!(view(t, None)))))
}

/// Make a token
///
/// The answer is the only place where its text (`secret`) is ever shown.
#[utoipa::path(post, path = "/v1/tokens", tag = "tokens", operation_id = "createToken", params(Write), security(("token" = ["admin"])),
    request_body = NewTokenDocument,
    responses((status = 201, description = "Made", body = TokenView),
        (status = 200, description = "Valid; nothing was made (validate_only)", body = TokenView)))]
pub async fn create(State(app): State<App>, Admin(who): Admin, Query(query): Query<Write>, Body(body): Body) -> Result<Response, Problem> {
    who.enter_all()?;
    let wanted = documents::read(&body, read)?;
    if wanted.expires_at.is_some_and(|at| u128::try_from(at.as_millis()).unwrap_or_default() <= app.clock.wall().as_millis()) {
        return Err(Problem::mistake("/expires_at", "is over already"));
    }
    let new = NewToken { created_by: who.name.clone(), ..wanted };
    let secret = text::generate();
    let mut transaction = app.pool.begin().await?;
    let token = token::insert(&mut transaction, &new, &text::hash_secret(&secret)).await.map_err(|error| taken(error, &new.name))?;
    let view = view(token, None);
    audit::insert(&mut transaction, "", None, &[entry(&view, Action::Create)], &who.name).await?;
    if query.validate_only {
        transaction.rollback().await?;
        return Ok(Json(view).into_response());
    }
    transaction.commit().await?;
    let location = format!("/v1/tokens/{}", view.id);
    let view = TokenView { secret: Some(secret.expose_secret().to_owned()), ..view };
    Ok(answer::created(Json(view).into_response(), &location, false))
}

/// Revoke a token
///
/// It and the sessions made from it end at once. Agents that used it are free for another token.
#[utoipa::path(delete, path = "/v1/tokens/{id}", tag = "tokens", operation_id = "deleteToken", security(("token" = ["admin"])),
    params(("id" = String, Path, description = "The token's id"), Write),
    responses((status = 204, description = "Revoked")))]
pub async fn delete(
    State(app): State<App>,
    Admin(who): Admin,
    Query(query): Query<Write>,
    Path(id): Path<Uuid>,
) -> Result<Response, Problem> {
    who.enter_all()?;
    let mut transaction = app.pool.begin().await?;
    let token = token::delete(&mut transaction, id).await?.ok_or_else(|| Problem::not_found(format!("there is no token {id}")))?;
    audit::insert(&mut transaction, "", None, &[entry(&view(token, None), Action::Delete)], &who.name).await?;
    if query.validate_only {
        transaction.rollback().await?;
    } else {
        transaction.commit().await?;
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Read a token
#[utoipa::path(get, path = "/v1/tokens/{id}", tag = "tokens", operation_id = "getToken", security(("token" = ["admin"])),
    params(("id" = String, Path, description = "The token's id")),
    responses((status = 200, description = "The token", body = TokenView)))]
pub async fn get(
    State(app): State<App>,
    Admin(who): Admin,
    Query(Nothing {}): Query<Nothing>,
    Path(id): Path<Uuid>,
) -> Result<Json<TokenView>, Problem> {
    who.enter_all()?;
    let token = token::get(&mut *app.pool.acquire().await?, id).await?;
    token.map(|t| Json(view(t, None))).ok_or_else(|| Problem::not_found(format!("there is no token {id}")))
}

fn view(token: Token, secret: Option<String>) -> TokenView {
    TokenView {
        id: token.id,
        name: token.name,
        kind: token.kind,
        role: token.role,
        domains: token.domains,
        created_at: token.created_at,
        expires_at: token.expires_at,
        last_used_at: token.last_used_at,
        secret,
    }
}

fn entry(view: &TokenView, action: Action) -> Change {
    let document = Some(json!(view));
    let (before, after) = if action == Action::Delete { (document, None) } else { (None, document) };
    Change { kind: "token".to_owned(), name: view.name.clone(), action, before, after }
}

fn taken(error: sqlx::Error, name: &str) -> Problem {
    match &error {
        sqlx::Error::Database(database) if database.is_unique_violation() => {
            Problem::conflict(format!("there is a token {name:?} already"))
        }
        _ => error.into(),
    }
}

/// Reads a token to be made; `created_by` is left empty.
fn read(value: &Value, _: &str, mistakes: &mut Mistakes) -> Option<NewToken> {
    let Some(object) = value.as_object() else {
        mistakes.add("", "must be an object");
        return None;
    };
    for name in object.keys().filter(|name| !["name", "kind", "role", "domains", "expires_at"].contains(&name.as_str())) {
        mistakes.add(child("", name), "is not a field of a new token");
    }
    let name = match object.get("name").map(|v| v.as_str().map(Name::new)) {
        Some(Some(Ok(name))) => Some(name),
        Some(Some(Err(error))) => note(mistakes, "/name", &error.to_string()),
        Some(None) => note(mistakes, "/name", "must be a text"),
        None => note(mistakes, "/name", "is missing"),
    };
    let kind = match object.get("kind").map(|v| v.as_str().unwrap_or_default()) {
        None | Some("api") => Kind::Api,
        Some("agent") => Kind::Agent,
        Some(_) => note(mistakes, "/kind", "must be api or agent").unwrap_or(Kind::Api),
    };
    let role = role(object, kind, mistakes);
    let domains = domains(object, mistakes);
    let expires_at = match object.get("expires_at") {
        None | Some(Value::Null) => None,
        Some(value) => match value.as_str().and_then(|t| t.parse().ok()) {
            Some(at) => Some(Time(at)),
            None => note(mistakes, "/expires_at", "must be a time such as 2027-01-31T12:00:00Z"),
        },
    };
    Some(NewToken { name: name?.to_string(), kind, role, domains, expires_at, created_by: String::new() })
}

fn note<T>(mistakes: &mut Mistakes, pointer: &str, detail: &str) -> Option<T> {
    mistakes.add(pointer, detail);
    None
}

fn role(object: &Map<String, Value>, kind: Kind, mistakes: &mut Mistakes) -> Option<Role> {
    match (object.get("role").filter(|v| !v.is_null()), kind) {
        (None, Kind::Agent) => None,
        (None, Kind::Api) => note(mistakes, "/role", "is missing: viewer, operator or admin"),
        (Some(_), Kind::Agent) => note(mistakes, "/role", "is not for tokens of agents"),
        (Some(value), Kind::Api) => match value.as_str().unwrap_or_default().parse() {
            Ok(role) => Some(role),
            Err(error) => note(mistakes, "/role", &format!("{error}")),
        },
    }
}

fn domains(object: &Map<String, Value>, mistakes: &mut Mistakes) -> Option<Vec<String>> {
    let value = object.get("domains").filter(|v| !v.is_null())?;
    let Some(list) = value.as_array().filter(|list| (1..=MAX_DOMAINS).contains(&list.len())) else {
        return note(mistakes, "/domains", "must be a list of 1 to 100 names, or left out for all domains");
    };
    let mut domains: Vec<String> = Vec::new();
    for (i, entry) in list.iter().enumerate() {
        match entry.as_str().map(Name::new) {
            Some(Ok(name)) if domains.iter().any(|d| *d == *name.as_str()) => mistakes.add(format!("/domains/{i}"), "is there twice"),
            Some(Ok(name)) => domains.push(name.to_string()),
            Some(Err(error)) => mistakes.add(format!("/domains/{i}"), error.to_string()),
            None => mistakes.add(format!("/domains/{i}"), "must be a text"),
        }
    }
    Some(domains)
}
