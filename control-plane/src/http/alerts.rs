//! `/v1/alerts`: rules that deny too much. The webhook's secret is taken, never given back.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use sqlx::PgConnection;
use weir_core::item::ItemKind;
use weir_core::mistake::Mistakes;
use weir_core::name::Name;

use super::extract::{Body, IfMatch, Path, Query};
use super::paging::Page;
use super::params::{InDomain, PagedInDomain, WriteInDomain, domain};
use super::problem::Problem;
use super::{answer, documents};
use crate::alerts::alert::{self, Alert};
use crate::alerts::delivery::{self, Delivery};
use crate::alerts::store::{self, Stored};
use crate::alerts::target::AllowList;
use crate::auth::{Operator, Viewer};
use crate::db::audit;
use crate::db::document;
use crate::db::publish::{Action, Change};
use crate::db::time::Time;
use crate::state::App;

/// The most alerts of a domain: each is a query every ten seconds.
const MAX_ALERTS: i64 = 200;

/// An alert: a rule's denied share above a limit for some time.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Alert)]
pub struct AlertDocument {
    /// Letters, digits, `_`, `.`, `:` and `-`.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_.:-]+$")]
    pub name: String,
    /// The rule that it watches.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_.:-]+$")]
    pub rule: String,
    /// The denied share above which it counts, in percent.
    #[schema(minimum = 0, exclusive_maximum = 100)]
    pub denied_share_percent: f64,
    /// How long the share must stay above: a whole number with a unit, from `10s` to `24h`.
    #[schema(pattern = "^[0-9]+(ms|s|m|h|d)$", examples("5m"))]
    pub r#for: String,
    /// Where it is told; null: only here.
    pub webhook: Option<WebhookDocument>,
    /// Whether it is looked at (default true).
    #[schema(required = false)]
    pub enabled: bool,
    /// Only in answers; ignored in requests.
    #[schema(read_only)]
    pub state: Option<AlertState>,
    /// Only in answers; ignored in requests.
    #[schema(read_only)]
    pub meta: Option<answer::Meta>,
}

/// Where an alert is told, by a POST that is signed.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Webhook)]
pub struct WebhookDocument {
    /// http or https; only where the server's setting WEIR_WEBHOOK_ALLOW allows.
    #[schema(max_length = 2048)]
    pub url: String,
    /// Key of the signatures, 16 to 256 bytes. Needed for a new webhook; left out in a replacement: it stays. Never in answers.
    #[schema(write_only, min_length = 16, max_length = 256)]
    pub secret: Option<String>,
    /// Whether there is a secret. Ignored in requests.
    #[schema(read_only, required = false)]
    pub has_secret: bool,
}

/// How an alert stands.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct AlertState {
    /// Whether it fires.
    pub firing: bool,
    /// Since when it fires, or does not any more; null: it never did.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<Time>,
    /// The share that was seen last, 0 to 1; null: there were no requests.
    pub denied_share: Option<f64>,
    /// When it was looked at last.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub evaluated_at: Option<Time>,
    /// When its webhook was last told, or last tried.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_delivery: Option<Time>,
    /// How that went.
    pub delivery: Option<Delivery>,
}

/// List the alerts of a domain
#[utoipa::path(get, path = "/v1/alerts", tag = "alerts", operation_id = "listAlerts", params(PagedInDomain), security(("token" = ["viewer"])),
    responses((status = 200, description = "A page of alerts, by name", body = Page<AlertDocument>)))]
pub async fn list(State(app): State<App>, Viewer(who): Viewer, Query(query): Query<PagedInDomain>) -> Result<Json<Value>, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    let wanted = app.pager.wanted(format!("alert?domain={domain}"), query.page_size, query.page_token.as_deref())?;
    let after = wanted.after.as_deref().unwrap_or_default();
    let mut connection = app.pool.acquire().await?;
    let rows = store::page(&mut connection, domain.as_str(), after, wanted.limit()).await?;
    let mut shown = Vec::with_capacity(rows.len());
    for row in rows {
        let last = delivery::last(&mut connection, domain.as_str(), row.alert.name.as_str()).await?;
        shown.push((row.alert.name.to_string(), view(&row, last)));
    }
    Ok(Json(app.pager.page(&wanted, shown, |(name, _)| name.clone(), |(_, view)| view)))
}

/// Read an alert
#[utoipa::path(get, path = "/v1/alerts/{name}", tag = "alerts", operation_id = "getAlert", security(("token" = ["viewer"])),
    params(("name" = String, Path, description = "The alert"), InDomain),
    responses((status = 200, description = "The alert", body = AlertDocument, headers(("ETag" = String)))))]
pub async fn get(
    State(app): State<App>,
    Viewer(who): Viewer,
    Query(query): Query<InDomain>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    let mut connection = app.pool.acquire().await?;
    let stored = store::get(&mut connection, domain.as_str(), &name).await?.ok_or_else(|| missing(&name))?;
    shown(&mut connection, &stored).await
}

/// Create an alert
#[utoipa::path(post, path = "/v1/alerts", tag = "alerts", operation_id = "createAlert", params(WriteInDomain), security(("token" = ["operator"])),
    request_body = AlertDocument,
    responses((status = 201, description = "Created", body = AlertDocument, headers(("ETag" = String))),
        (status = 200, description = "Valid; nothing was stored (validate_only)", body = AlertDocument)))]
pub async fn create(
    State(app): State<App>,
    Operator(who): Operator,
    Query(query): Query<WriteInDomain>,
    Body(body): Body,
) -> Result<Response, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    let alert = read(&app, &body)?;
    if alert.webhook.as_ref().is_some_and(|webhook| webhook.secret.is_none()) {
        return Err(Problem::mistake("/webhook/secret", "is needed: deliveries are signed with it"));
    }
    let location = format!("/v1/alerts/{}?domain={domain}", alert.name);
    let mut transaction = app.pool.begin().await?;
    require_rule(&mut transaction, &domain, &alert).await?;
    if store::get(&mut transaction, domain.as_str(), alert.name.as_str()).await?.is_some() {
        return Err(Problem::conflict(format!("there is an alert {} already", alert.name)));
    }
    if store::count(&mut transaction, domain.as_str()).await? >= MAX_ALERTS {
        return Err(Problem::conflict(format!("a domain has at most {MAX_ALERTS} alerts")));
    }
    let stored = store::insert(&mut transaction, domain.as_str(), &alert, &who.name).await?;
    note(&mut transaction, &domain, Action::Create, None, Some(&stored.alert), &who.name).await?;
    let response = shown(&mut transaction, &stored).await?;
    finish(transaction, query.validate_only).await?;
    Ok(answer::created(response, &location, query.validate_only))
}

/// Replace an alert
///
/// A webhook's secret that is left out stays as it is.
#[utoipa::path(put, path = "/v1/alerts/{name}", tag = "alerts", operation_id = "replaceAlert", security(("token" = ["operator"])),
    params(("name" = String, Path, description = "The alert"), WriteInDomain, ("If-Match" = String, Header, description = "The ETag read before, or *")),
    request_body = AlertDocument,
    responses((status = 200, description = "Replaced", body = AlertDocument, headers(("ETag" = String)))))]
pub async fn replace(
    State(app): State<App>,
    Operator(who): Operator,
    Query(query): Query<WriteInDomain>,
    Path(name): Path<String>,
    condition: IfMatch,
    Body(body): Body,
) -> Result<Response, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    let mut alert = read(&app, &body)?;
    documents::same_name(&name, &alert.name)?;
    let mut transaction = app.pool.begin().await?;
    let before = store::lock(&mut transaction, domain.as_str(), &name).await?.ok_or_else(|| missing(&name))?;
    condition.check(&etag(&before))?;
    require_rule(&mut transaction, &domain, &alert).await?;
    if let Some(webhook) = alert.webhook.as_mut().filter(|webhook| webhook.secret.is_none()) {
        // To another address it must be given anew: whoever may change the address must not get to use a secret that they do not know.
        let kept = before.alert.webhook.as_ref().filter(|old| old.url == webhook.url).and_then(|old| old.secret.clone());
        webhook.secret = Some(kept.ok_or_else(|| Problem::mistake("/webhook/secret", "is needed for a new address"))?);
    }
    let stored = store::update(&mut transaction, domain.as_str(), &alert, &who.name).await?;
    note(&mut transaction, &domain, Action::Update, Some(&before.alert), Some(&stored.alert), &who.name).await?;
    let response = shown(&mut transaction, &stored).await?;
    finish(transaction, query.validate_only).await?;
    Ok(response)
}

/// Delete an alert
#[utoipa::path(delete, path = "/v1/alerts/{name}", tag = "alerts", operation_id = "deleteAlert", security(("token" = ["operator"])),
    params(("name" = String, Path, description = "The alert"), WriteInDomain, ("If-Match" = String, Header, description = "The ETag read before, or *")),
    responses((status = 204, description = "Deleted")))]
pub async fn delete(
    State(app): State<App>,
    Operator(who): Operator,
    Query(query): Query<WriteInDomain>,
    Path(name): Path<String>,
    condition: IfMatch,
) -> Result<Response, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    let mut transaction = app.pool.begin().await?;
    let before = store::lock(&mut transaction, domain.as_str(), &name).await?.ok_or_else(|| missing(&name))?;
    condition.check(&etag(&before))?;
    store::delete(&mut transaction, domain.as_str(), &name).await?;
    note(&mut transaction, &domain, Action::Delete, Some(&before.alert), None, &who.name).await?;
    finish(transaction, query.validate_only).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn read(app: &App, body: &Value) -> Result<Alert, Problem> {
    let entries = app.settings.webhook_allow.iter().map(String::as_str);
    let allowed = AllowList::new(entries).map_err(|error| Problem::internal(&error))?;
    let mut mistakes = Mistakes::new();
    let alert = alert::read(body, &allowed, &mut mistakes);
    match (mistakes.into_result(()), alert) {
        (Ok(()), Some(alert)) => Ok(alert),
        (Ok(()), None) => Err(Problem::mistake("", "is not an alert")),
        (Err(mistakes), _) => Err(mistakes.into()),
    }
}

/// That the rule exists now; one that is deleted later leaves an alert that sees no requests.
async fn require_rule(connection: &mut PgConnection, domain: &Name, alert: &Alert) -> Result<(), Problem> {
    match document::get(connection, domain.as_str(), ItemKind::Rule, alert.rule.as_str()).await? {
        Some(_) => Ok(()),
        None => Err(Problem::mistake("/rule", format!("there is no rule {} in the domain {domain}", alert.rule))),
    }
}

async fn note(
    connection: &mut PgConnection,
    domain: &Name,
    action: Action,
    before: Option<&Alert>,
    after: Option<&Alert>,
    author: &str,
) -> Result<(), Problem> {
    let name = after.or(before).map(|alert| alert.name.to_string()).unwrap_or_default();
    let (before, after) = (before.map(Alert::to_document), after.map(Alert::to_document));
    let change = Change { kind: "alert".to_owned(), name, action, before, after };
    Ok(audit::insert(connection, domain.as_str(), None, &[change], author).await?)
}

async fn finish(transaction: sqlx::Transaction<'_, sqlx::Postgres>, validate_only: bool) -> Result<(), Problem> {
    if validate_only {
        transaction.rollback().await?;
    } else {
        transaction.commit().await?;
    }
    Ok(())
}

fn missing(name: &str) -> Problem {
    Problem::not_found(format!("there is no alert {name:?}"))
}

fn etag(stored: &Stored) -> String {
    format!("\"{}\"", stored.version)
}

async fn shown(connection: &mut PgConnection, stored: &Stored) -> Result<Response, Problem> {
    let last = delivery::last(connection, &stored.domain, stored.alert.name.as_str()).await?;
    Ok(answer::tagged(Json(view(stored, last)).into_response(), &etag(stored)))
}

fn view(stored: &Stored, last: Option<Delivery>) -> Value {
    let time = |seconds: i64| Time::from_millis(seconds.checked_mul(1_000)?);
    let state = AlertState {
        firing: stored.state.firing,
        since: stored.state.since.and_then(time),
        denied_share: stored.state.denied_share.map(|percent| percent / 100.0),
        evaluated_at: stored.state.evaluated_at.and_then(time),
        last_delivery: last.as_ref().map(|last| last.finished_at.unwrap_or(last.created_at)),
        delivery: last,
    };
    let meta = answer::Meta {
        domain: stored.domain.clone(),
        etag: etag(stored),
        created_at: stored.created_at,
        updated_at: stored.updated_at,
        updated_by: stored.updated_by.clone(),
        revision: stored.version.unsigned_abs(),
    };
    let mut body = stored.alert.to_document();
    body["state"] = json!(state);
    body["meta"] = json!(meta);
    body
}
