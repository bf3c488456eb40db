//! `/v1/tiers`
//!
//! A domain with tiers has exactly one default tier: making another one the default moves the flag, and the default can be neither unset
//! nor deleted before the others.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde_json::Value;
use weir_core::config::{DomainConfig, read};
use weir_core::item::ItemKind;
use weir_core::tier;

use super::change::{Focus, Order, change};
use super::extract::{Body, IfMatch, Path, Query};
use super::paging::Page;
use super::params::{InDomain, PagedInDomain, WriteInDomain, domain};
use super::problem::{Problem, UsedBy};
use super::schema::TierDocument;
use super::{answer, documents};
use crate::auth::{Operator, Viewer};
use crate::state::App;

const KIND: ItemKind = ItemKind::Tier;

/// List the tiers of a domain
#[utoipa::path(get, path = "/v1/tiers", tag = "tiers", operation_id = "listTiers", params(PagedInDomain), security(("token" = ["viewer"])),
    responses((status = 200, description = "A page of tiers, by name", body = Page<TierDocument>)))]
pub async fn list(State(app): State<App>, Viewer(who): Viewer, Query(query): Query<PagedInDomain>) -> Result<Json<Value>, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    documents::page(&app, &domain, KIND, &query).await
}

/// Read a tier
#[utoipa::path(get, path = "/v1/tiers/{name}", tag = "tiers", operation_id = "getTier", security(("token" = ["viewer"])),
    params(("name" = String, Path, description = "The tier"), InDomain),
    responses((status = 200, description = "The tier", body = TierDocument, headers(("ETag" = String)))))]
pub async fn get(
    State(app): State<App>,
    Viewer(who): Viewer,
    Query(query): Query<InDomain>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    documents::one(&app, domain.as_str(), KIND, &name).await
}

/// Create a tier
///
/// Every rule must have a limit for it, or one for `"*"`. A tier with `default: true` takes the flag from the present default tier; the
/// first tier of a domain must be its default.
#[utoipa::path(post, path = "/v1/tiers", tag = "tiers", operation_id = "createTier", params(WriteInDomain), security(("token" = ["operator"])),
    request_body = TierDocument,
    responses((status = 201, description = "Created and published", body = TierDocument, headers(("ETag" = String), ("Weir-Revision" = u64))),
        (status = 200, description = "Valid; nothing was stored (validate_only)", body = TierDocument)))]
pub async fn create(
    State(app): State<App>,
    Operator(who): Operator,
    Query(query): Query<WriteInDomain>,
    Body(body): Body,
) -> Result<Response, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    let tier = documents::read(&body, read::tier)?;
    let order = Order::new(&who, &domain, query.validate_only, "create", KIND, &tier.name);
    let location = format!("/v1/tiers/{}?domain={domain}", tier.name);
    let outcome = change(&app, &order, Focus::on(KIND, &tier.name), |draft| {
        let mut config = draft.existing(&domain)?;
        draft.require_new(KIND, tier.name.as_str())?;
        tier::put(&mut config.tiers, tier);
        Ok(Some(config))
    });
    Ok(answer::created(documents::written(outcome.await?)?, &location, query.validate_only))
}

/// Replace a tier
#[utoipa::path(put, path = "/v1/tiers/{name}", tag = "tiers", operation_id = "replaceTier", security(("token" = ["operator"])),
    params(("name" = String, Path, description = "The tier"), WriteInDomain, ("If-Match" = String, Header, description = "The ETag read before, or *")),
    request_body = TierDocument,
    responses((status = 200, description = "Replaced and published", body = TierDocument, headers(("ETag" = String), ("Weir-Revision" = u64)))))]
pub async fn replace(
    State(app): State<App>,
    Operator(who): Operator,
    Query(query): Query<WriteInDomain>,
    Path(name): Path<String>,
    condition: IfMatch,
    Body(body): Body,
) -> Result<Response, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    let tier = documents::read(&body, read::tier)?;
    documents::same_name(&name, &tier.name)?;
    let order = Order::new(&who, &domain, query.validate_only, "update", KIND, &tier.name);
    let outcome = change(&app, &order, Focus::on(KIND, &tier.name), |draft| {
        draft.require(KIND, &name, &condition)?;
        let mut config = draft.existing(&domain)?;
        if !tier.default && config.tiers.iter().any(|t| t.default && t.name == tier.name) {
            return Err(Problem::mistake("/default", "a domain needs a default tier: make another tier the default instead"));
        }
        tier::put(&mut config.tiers, tier);
        Ok(Some(config))
    });
    documents::written(outcome.await?)
}

/// Delete a tier
///
/// Refused while a rule names it in its limits (`used_by` says which), and for the default tier while there are others.
#[utoipa::path(delete, path = "/v1/tiers/{name}", tag = "tiers", operation_id = "deleteTier", security(("token" = ["operator"])),
    params(("name" = String, Path, description = "The tier"), WriteInDomain, ("If-Match" = String, Header, description = "The ETag read before, or *")),
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
        deletable(&config, &name)?;
        config.tiers.retain(|t| t.name != *name);
        Ok(Some(config))
    });
    Ok(documents::deleted(&outcome.await?))
}

fn deletable(config: &DomainConfig, name: &str) -> Result<(), Problem> {
    let rules = config.rules.iter().filter(|rule| rule.limits.keys().flatten().any(|tier| tier == name));
    let used_by: Vec<UsedBy> = rules.map(|rule| UsedBy::new("rule", config.domain.name.as_str(), rule.name.as_str())).collect();
    if !used_by.is_empty() {
        return Err(Problem::in_use(format!("rules give the tier {name:?} a limit"), used_by));
    }
    if config.tiers.len() > 1 && config.tiers.iter().any(|t| t.default && t.name == *name) {
        return Err(Problem::conflict(format!("{name:?} is the default tier: make another tier the default first")));
    }
    Ok(())
}
