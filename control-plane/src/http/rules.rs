//! `/v1/rules`

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde_json::Value;
use weir_core::config::read;
use weir_core::item::ItemKind;

use super::change::{Focus, Order, change};
use super::extract::{Body, IfMatch, Path, Query};
use super::paging::Page;
use super::params::{InDomain, PagedInDomain, WriteInDomain, domain};
use super::problem::Problem;
use super::schema::RuleDocument;
use super::{answer, documents};
use crate::auth::{Operator, Viewer};
use crate::state::App;

const KIND: ItemKind = ItemKind::Rule;

/// List the rules of a domain
#[utoipa::path(get, path = "/v1/rules", tag = "rules", operation_id = "listRules", params(PagedInDomain), security(("token" = ["viewer"])),
    responses((status = 200, description = "A page of rules, by name", body = Page<RuleDocument>)))]
pub async fn list(State(app): State<App>, Viewer(who): Viewer, Query(query): Query<PagedInDomain>) -> Result<Json<Value>, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    documents::page(&app, &domain, KIND, &query).await
}

/// Read a rule
#[utoipa::path(get, path = "/v1/rules/{name}", tag = "rules", operation_id = "getRule", security(("token" = ["viewer"])),
    params(("name" = String, Path, description = "The rule"), InDomain),
    responses((status = 200, description = "The rule", body = RuleDocument, headers(("ETag" = String)))))]
pub async fn get(
    State(app): State<App>,
    Viewer(who): Viewer,
    Query(query): Query<InDomain>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    documents::one(&app, domain.as_str(), KIND, &name).await
}

/// Create a rule
#[utoipa::path(post, path = "/v1/rules", tag = "rules", operation_id = "createRule", params(WriteInDomain), security(("token" = ["operator"])),
    request_body = RuleDocument,
    responses((status = 201, description = "Created and published", body = RuleDocument, headers(("ETag" = String), ("Weir-Revision" = u64))),
        (status = 200, description = "Valid; nothing was stored (validate_only)", body = RuleDocument)))]
pub async fn create(
    State(app): State<App>,
    Operator(who): Operator,
    Query(query): Query<WriteInDomain>,
    Body(body): Body,
) -> Result<Response, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    let rule = documents::read(&body, read::rule)?;
    let order = Order::new(&who, &domain, query.validate_only, "create", KIND, &rule.name);
    let location = format!("/v1/rules/{}?domain={domain}", rule.name);
    let outcome = change(&app, &order, Focus::on(KIND, &rule.name), |draft| {
        let mut config = draft.existing(&domain)?;
        draft.require_new(KIND, rule.name.as_str())?;
        config.rules.push(rule);
        Ok(Some(config))
    });
    Ok(answer::created(documents::written(outcome.await?)?, &location, query.validate_only))
}

/// Replace a rule
#[utoipa::path(put, path = "/v1/rules/{name}", tag = "rules", operation_id = "replaceRule", security(("token" = ["operator"])),
    params(("name" = String, Path, description = "The rule"), WriteInDomain, ("If-Match" = String, Header, description = "The ETag read before, or *")),
    request_body = RuleDocument,
    responses((status = 200, description = "Replaced and published", body = RuleDocument, headers(("ETag" = String), ("Weir-Revision" = u64)))))]
pub async fn replace(
    State(app): State<App>,
    Operator(who): Operator,
    Query(query): Query<WriteInDomain>,
    Path(name): Path<String>,
    condition: IfMatch,
    Body(body): Body,
) -> Result<Response, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    let rule = documents::read(&body, read::rule)?;
    documents::same_name(&name, &rule.name)?;
    let order = Order::new(&who, &domain, query.validate_only, "update", KIND, &rule.name);
    let outcome = change(&app, &order, Focus::on(KIND, &rule.name), |draft| {
        draft.require(KIND, &name, &condition)?;
        let mut config = draft.existing(&domain)?;
        config.rules.retain(|r| r.name != rule.name);
        config.rules.push(rule);
        Ok(Some(config))
    });
    documents::written(outcome.await?)
}

/// Delete a rule
#[utoipa::path(delete, path = "/v1/rules/{name}", tag = "rules", operation_id = "deleteRule", security(("token" = ["operator"])),
    params(("name" = String, Path, description = "The rule"), WriteInDomain, ("If-Match" = String, Header, description = "The ETag read before, or *")),
    responses((status = 204, description = "Deleted and published", headers(("Weir-Revision" = u64)))))]
pub async fn delete(
    State(app): State<App>,
    Operator(who): Operator,
    Query(query): Query<WriteInDomain>,
    Path(name): Path<String>,
    condition: IfMatch,
) -> Result<Response, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    let order = Order::new(&who, &domain, query.validate_only, "delete", KIND, &name);
    let outcome = change(&app, &order, None, |draft| {
        draft.require(KIND, &name, &condition)?;
        let mut config = draft.existing(&domain)?;
        config.rules.retain(|r| r.name != *name);
        Ok(Some(config))
    });
    Ok(documents::deleted(&outcome.await?))
}
