//! `/v1/shards`: the ring. Credentials are taken, never given back.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use serde_json::{Value, json};
use weir_core::item::{Item, ItemKind};

use super::answer;
use super::change::{missing, prune_later};
use super::documents;
use super::extract::{Body, IfMatch, Path, Query};
use super::paging::Page;
use super::params::{Nothing, Paged, Write};
use super::problem::{Problem, UsedBy};
use super::schema::ShardDocument;
use crate::auth::{Admin, Viewer};
use crate::db::agent::{self, ShardWarning};
use crate::db::document::{self, Document};
use crate::db::publish::{self, Note};
use crate::db::secret::{self, Credentials};
use crate::db::set::{self, RING};
use crate::shard::{self, Given, MAX_SHARDS, Secret};
use crate::state::App;

const KIND: ItemKind = ItemKind::Shard;
/// How many rules are named when the last shard cannot be deleted.
const MAX_USERS: i64 = 100;

/// List the shards of the ring
#[utoipa::path(get, path = "/v1/shards", tag = "shards", operation_id = "listShards", params(Paged), security(("token" = ["viewer"])),
    responses((status = 200, description = "A page of shards, by name", body = Page<ShardDocument>)))]
pub async fn list(State(app): State<App>, _viewer: Viewer, Query(query): Query<Paged>) -> Result<Json<Value>, Problem> {
    let wanted = app.pager.wanted("shard", query.page_size, query.page_token.as_deref())?;
    let after = wanted.after.as_deref().unwrap_or_default();
    let mut connection = app.pool.acquire().await?;
    let rows = document::page(&mut connection, RING, KIND, after, wanted.limit()).await?;
    let credentials = secret::credentials(&mut connection).await?;
    let warnings = agent::shard_warnings(&mut connection, None).await?;
    let show = |d: Document| {
        let own = credentials.iter().find(|c| c.shard == d.name);
        let warnings: Vec<&ShardWarning> = warnings.iter().filter(|warning| warning.shard == d.name).collect();
        with_warnings(with_credentials(answer::with_meta(d), own), &warnings)
    };
    Ok(Json(app.pager.page(&wanted, rows, |d: &Document| d.name.clone(), show)))
}

/// Read a shard
#[utoipa::path(get, path = "/v1/shards/{name}", tag = "shards", operation_id = "getShard", security(("token" = ["viewer"])),
    params(("name" = String, Path, description = "The shard")),
    responses((status = 200, description = "The shard", body = ShardDocument, headers(("ETag" = String)))))]
pub async fn get(
    State(app): State<App>,
    _viewer: Viewer,
    Query(Nothing {}): Query<Nothing>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let mut connection = app.pool.acquire().await?;
    let document = document::get(&mut connection, RING, KIND, &name).await?.ok_or_else(|| missing(KIND, &name))?;
    let credentials = secret::credentials_of(&mut connection, &name).await?;
    let warnings = agent::shard_warnings(&mut connection, Some(&name)).await?;
    Ok(shown(document, credentials.as_ref(), &warnings.iter().collect::<Vec<_>>()))
}

/// Add a shard to the ring
///
/// Keys that move to it start anew there: about 1/N of all counters.
#[utoipa::path(post, path = "/v1/shards", tag = "shards", operation_id = "createShard", params(Write), security(("token" = ["admin"])),
    request_body = ShardDocument,
    responses((status = 201, description = "Added and published", body = ShardDocument, headers(("ETag" = String), ("Weir-Revision" = u64))),
        (status = 200, description = "Valid; nothing was stored (validate_only)", body = ShardDocument)))]
pub async fn create(State(app): State<App>, Admin(who): Admin, Query(query): Query<Write>, Body(body): Body) -> Result<Response, Problem> {
    who.enter_all()?;
    let given = documents::read(&body, shard::read)?;
    let location = format!("/v1/shards/{}", given.shard.name);
    let change = Change { author: &who.name, verb: "create", name: given.shard.name.as_str(), validate_only: query.validate_only };
    let response = put(&app, &change, &given, |present| match present {
        Some(_) => Err(Problem::conflict(format!("there is a shard {} already", given.shard.name))),
        None => Ok(()),
    });
    Ok(answer::created(response.await?, &location, query.validate_only))
}

/// Replace a shard's address, weight or credentials
///
/// A password that is left out stays as it is; `null` removes it. With another address it must be given anew.
#[utoipa::path(put, path = "/v1/shards/{name}", tag = "shards", operation_id = "replaceShard", security(("token" = ["admin"])),
    params(("name" = String, Path, description = "The shard"), Write, ("If-Match" = String, Header, description = "The ETag read before, or *")),
    request_body = ShardDocument,
    responses((status = 200, description = "Replaced and published", body = ShardDocument, headers(("ETag" = String), ("Weir-Revision" = u64)))))]
pub async fn replace(
    State(app): State<App>,
    Admin(who): Admin,
    Query(query): Query<Write>,
    Path(name): Path<String>,
    condition: IfMatch,
    Body(body): Body,
) -> Result<Response, Problem> {
    who.enter_all()?;
    let given = documents::read(&body, shard::read)?;
    documents::same_name(&name, &given.shard.name)?;
    let change = Change { author: &who.name, verb: "update", name: &name, validate_only: query.validate_only };
    put(&app, &change, &given, |present| condition.check(&answer::etag(present.ok_or_else(|| missing(KIND, &name))?))).await
}

/// Take a shard out of the ring
///
/// Refused for the last shard while there are rules.
#[utoipa::path(delete, path = "/v1/shards/{name}", tag = "shards", operation_id = "deleteShard", security(("token" = ["admin"])),
    params(("name" = String, Path, description = "The shard"), Write, ("If-Match" = String, Header, description = "The ETag read before, or *")),
    responses((status = 204, description = "Taken out and published", headers(("Weir-Revision" = u64)))))]
pub async fn delete(
    State(app): State<App>,
    Admin(who): Admin,
    Query(query): Query<Write>,
    Path(name): Path<String>,
    condition: IfMatch,
) -> Result<Response, Problem> {
    who.enter_all()?;
    let mut transaction = app.pool.begin().await?;
    let head = set::lock(&mut transaction, RING).await?;
    let documents = document::all(&mut transaction, RING).await?;
    let present = documents.iter().find(|d| d.name == name).ok_or_else(|| missing(KIND, &name))?;
    condition.check(&answer::etag(present))?;
    if documents.len() == 1 {
        let rules = document::some_rules(&mut transaction, MAX_USERS).await?;
        let used_by: Vec<UsedBy> = rules.iter().map(|(domain, rule)| UsedBy::new("rule", domain, rule)).collect();
        if !used_by.is_empty() {
            return Err(Problem::in_use("it is the last shard, and there are rules that count on it", used_by));
        }
    }
    let items: Vec<Item> = documents.iter().filter(|d| d.name != name).map(Document::to_item).collect();
    secret::put_credentials(&mut transaction, &Credentials::none(name.clone())).await?;
    let summary = format!("delete shard {name}");
    let note = Note { author: &who.name, summary: &summary };
    let published = publish::publish(&mut transaction, &head, &documents, &items, None, note).await?;
    if query.validate_only {
        transaction.rollback().await?;
    } else {
        transaction.commit().await?;
        prune_later(&app, &head, published.revision);
    }
    Ok(answer::published(StatusCode::NO_CONTENT.into_response(), published.revision))
}

struct Change<'a> {
    author: &'a str,
    verb: &'a str,
    name: &'a str,
    validate_only: bool,
}

/// Adds or replaces a shard, if `condition` accepts what is there.
async fn put(
    app: &App,
    change: &Change<'_>,
    given: &Given,
    condition: impl FnOnce(Option<&Document>) -> Result<(), Problem> + Send,
) -> Result<Response, Problem> {
    let mut transaction = app.pool.begin().await?;
    let head = set::lock(&mut transaction, RING).await?;
    let documents = document::all(&mut transaction, RING).await?;
    let present = documents.iter().find(|d| d.name == change.name);
    condition(present)?;
    if present.is_none() && documents.len() >= MAX_SHARDS {
        return Err(Problem::conflict(format!("a ring has at most {MAX_SHARDS} shards")));
    }
    let moved = present.is_some_and(|d| d.body.0["address"] != given.shard.address.as_str());
    let mut items: Vec<Item> = documents.iter().filter(|d| d.name != change.name).map(Document::to_item).collect();
    items.push(given.shard.to_item());
    let old = secret::credentials_of(&mut transaction, change.name).await?;
    let kept = |given: &Secret, old: Option<&String>| *given == Secret::Keep && old.is_some();
    let old_passwords = old.as_ref().map(|old| (old.password.as_ref(), old.sentinel_password.as_ref())).unwrap_or_default();
    for (field, given, old) in
        [("/password", &given.password, old_passwords.0), ("/sentinel_password", &given.sentinel_password, old_passwords.1)]
    {
        if moved && kept(given, old) {
            // Whoever may change the address must not have agents send there a password that they do not know.
            return Err(Problem::mistake(field, "is needed for a new address: give it anew, or null for none"));
        }
    }
    let new = credentials(given, old.as_ref());
    let touched = old.as_ref().map_or(!new.is_none(), |old| *old != new);
    if touched {
        secret::put_credentials(&mut transaction, &new).await?;
    }
    let summary = format!("{} shard {}", change.verb, change.name);
    let note = Note { author: change.author, summary: &summary };
    let published = publish::publish(&mut transaction, &head, &documents, &items, touched.then_some(change.name), note).await?;
    let document = document::get(&mut transaction, RING, KIND, change.name).await?.ok_or_else(|| missing(KIND, change.name))?;
    let warnings = agent::shard_warnings(&mut transaction, Some(change.name)).await?;
    if change.validate_only {
        transaction.rollback().await?;
    } else {
        transaction.commit().await?;
        prune_later(app, &head, published.revision);
    }
    Ok(answer::published(shown(document, Some(&new), &warnings.iter().collect::<Vec<_>>()), published.revision))
}

fn credentials(given: &Given, old: Option<&Credentials>) -> Credentials {
    let password = |given: &Secret, old: Option<&String>| match given {
        Secret::Keep => old.cloned(),
        Secret::Remove => None,
        Secret::Set(password) => Some(password.clone()),
    };
    Credentials {
        shard: given.shard.name.to_string(),
        username: given.username.clone(),
        password: password(&given.password, old.and_then(|c| c.password.as_ref())),
        sentinel_username: given.sentinel_username.clone(),
        sentinel_password: password(&given.sentinel_password, old.and_then(|c| c.sentinel_password.as_ref())),
    }
}

fn shown(document: Document, credentials: Option<&Credentials>, warnings: &[&ShardWarning]) -> Response {
    let etag = answer::etag(&document);
    answer::tagged(Json(with_warnings(with_credentials(answer::with_meta(document), credentials), warnings)).into_response(), &etag)
}

/// Says what connected agents find amiss.
fn with_warnings(mut body: Value, warnings: &[&ShardWarning]) -> Value {
    body["warnings"] = warnings.iter().map(|w| json!({ "code": w.code, "text": w.text, "agents": w.agents })).collect();
    body
}

/// Says who logs in, and whether there is a password.
fn with_credentials(mut body: Value, credentials: Option<&Credentials>) -> Value {
    if let Some(username) = credentials.and_then(|c| c.username.as_deref()) {
        body["username"] = json!(username);
    }
    if let Some(username) = credentials.and_then(|c| c.sentinel_username.as_deref()) {
        body["sentinel_username"] = json!(username);
    }
    body["has_password"] = json!(credentials.is_some_and(|c| c.password.is_some()));
    body["has_sentinel_password"] = json!(credentials.is_some_and(|c| c.sentinel_password.is_some()));
    body
}
