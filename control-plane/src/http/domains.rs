//! `/v1/domains`

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde_json::Value;
use weir_core::config::{DomainConfig, read};
use weir_core::item::ItemKind;
use weir_core::name::Name;

use super::change::{Focus, Order, change, missing};
use super::extract::{Body, IfMatch, Path, Query};
use super::paging::Page;
use super::params::{Nothing, Paged, Write};
use super::problem::{Problem, UsedBy};
use super::schema::DomainDocument;
use super::{answer, documents};
use crate::auth::{Operator, Viewer};
use crate::db::document::{self, Document};
use crate::state::App;

const KIND: ItemKind = ItemKind::Domain;

/// List domains
#[utoipa::path(get, path = "/v1/domains", tag = "domains", operation_id = "listDomains", params(Paged), security(("token" = ["viewer"])),
    responses((status = 200, description = "A page of the domains that your token is for, by name", body = Page<DomainDocument>)))]
pub async fn list(State(app): State<App>, Viewer(who): Viewer, Query(query): Query<Paged>) -> Result<Json<Value>, Problem> {
    let wanted = app.pager.wanted("domain", query.page_size, query.page_token.as_deref())?;
    let after = wanted.after.as_deref().unwrap_or_default();
    let mut connection = app.pool.acquire().await?;
    let rows = document::domains(&mut connection, who.domains.as_deref(), after, wanted.limit()).await?;
    Ok(Json(app.pager.page(&wanted, rows, |d: &Document| d.name.clone(), answer::with_meta)))
}

/// Read a domain
#[utoipa::path(get, path = "/v1/domains/{name}", tag = "domains", operation_id = "getDomain", security(("token" = ["viewer"])),
    params(("name" = String, Path, description = "The domain")),
    responses((status = 200, description = "The domain's own settings", body = DomainDocument, headers(("ETag" = String)))))]
pub async fn get(
    State(app): State<App>,
    Viewer(who): Viewer,
    Query(Nothing {}): Query<Nothing>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    who.enter(&name)?;
    documents::one(&app, &name, KIND, &name).await
}

/// Create a domain
///
/// It begins without tiers and rules: every subject is on one tier called `default` until there are tiers. The domain `default` need not be
/// created: the first tier or rule does.
#[utoipa::path(post, path = "/v1/domains", tag = "domains", operation_id = "createDomain", params(Write), security(("token" = ["operator"])),
    request_body = DomainDocument,
    responses((status = 201, description = "Created and published", body = DomainDocument, headers(("ETag" = String), ("Weir-Revision" = u64))),
        (status = 200, description = "Valid; nothing was stored (validate_only)", body = DomainDocument)))]
pub async fn create(
    State(app): State<App>,
    Operator(who): Operator,
    Query(query): Query<Write>,
    Body(body): Body,
) -> Result<Response, Problem> {
    let domain = documents::read(&body, read::domain)?;
    who.enter(domain.name.as_str())?;
    let name = domain.name.clone();
    let order = Order::new(&who, &name, query.validate_only, "create", KIND, &name);
    let outcome = change(&app, &order, Focus::on(KIND, &name), |draft| {
        draft.require_new(KIND, domain.name.as_str())?;
        Ok(Some(DomainConfig { domain, tiers: Vec::new(), rules: Vec::new() }))
    });
    Ok(answer::created(documents::written(outcome.await?)?, &format!("/v1/domains/{name}"), query.validate_only))
}

/// Replace a domain's own settings
///
/// `mode` is the kill switch: `off` or `shadow` stops all refusals of the domain.
#[utoipa::path(put, path = "/v1/domains/{name}", tag = "domains", operation_id = "replaceDomain", security(("token" = ["operator"])),
    params(("name" = String, Path, description = "The domain"), Write, ("If-Match" = String, Header, description = "The ETag read before, or *")),
    request_body = DomainDocument,
    responses((status = 200, description = "Replaced and published", body = DomainDocument, headers(("ETag" = String), ("Weir-Revision" = u64)))))]
pub async fn replace(
    State(app): State<App>,
    Operator(who): Operator,
    Query(query): Query<Write>,
    Path(name): Path<String>,
    condition: IfMatch,
    Body(body): Body,
) -> Result<Response, Problem> {
    who.enter(&name)?;
    let domain = documents::read(&body, read::domain)?;
    documents::same_name(&name, &domain.name)?;
    let name = domain.name.clone();
    let order = Order::new(&who, &name, query.validate_only, "update", KIND, &name);
    let outcome = change(&app, &order, Focus::on(KIND, &name), |draft| {
        draft.require(KIND, name.as_str(), &condition)?;
        Ok(Some(DomainConfig { domain, ..draft.existing(&name)? }))
    });
    documents::written(outcome.await?)
}

/// Delete a domain and its tiers
///
/// Refused while it has rules (`used_by` says which). Agents that serve it keep its last revision, which has none.
#[utoipa::path(delete, path = "/v1/domains/{name}", tag = "domains", operation_id = "deleteDomain", security(("token" = ["operator"])),
    params(("name" = String, Path, description = "The domain"), Write, ("If-Match" = String, Header, description = "The ETag read before, or *")),
    responses((status = 204, description = "Deleted", headers(("Weir-Revision" = u64)))))]
pub async fn delete(
    State(app): State<App>,
    Operator(who): Operator,
    Query(query): Query<Write>,
    Path(name): Path<String>,
    condition: IfMatch,
) -> Result<Response, Problem> {
    who.enter(&name)?;
    let name = Name::new(&name).map_err(|_| missing(KIND, &name))?;
    let order = Order::new(&who, &name, query.validate_only, "delete", KIND, &name);
    let outcome = change(&app, &order, None, |draft| {
        draft.require(KIND, name.as_str(), &condition)?;
        let rules = draft.existing(&name)?.rules;
        let used_by: Vec<UsedBy> = rules.iter().map(|rule| UsedBy::new("rule", name.as_str(), rule.name.as_str())).collect();
        if used_by.is_empty() { Ok(None) } else { Err(Problem::in_use(format!("the domain {name} has {} rules", used_by.len()), used_by)) }
    });
    Ok(documents::deleted(&outcome.await?))
}
