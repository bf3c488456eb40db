//! `/v1/apply`, `/v1/export`, `/v1/lint`: a domain as one document.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::IntoParams;
use weir_core::config::{DomainConfig, PartialConfig};
use weir_core::item::ItemKind;
use weir_core::lint::lint;
use weir_core::name::Name;

use super::answer;
use super::change::{Focus, Order, change, missing, stored};
use super::extract::{Body, MAX_RULES_BODY, Query};
use super::params::{InDomain, domain};
use super::problem::{FieldError, Problem};
use super::schema::RulesDocument;
use crate::auth::{Operator, Viewer};
use crate::db::document;
use crate::db::publish::Change;
use crate::state::App;

/// How to apply.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct How {
    /// Only say what would change: nothing is stored.
    #[serde(default)]
    pub validate_only: bool,
    /// Also delete the tiers and rules, the description and the defaults that the document does not have.
    #[serde(default)]
    pub prune: bool,
}

/// What applying a document did, or would do.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Applied {
    /// The domain of the document.
    pub domain: String,
    /// The newest revision afterwards.
    pub revision: u64,
    /// What changed; empty: nothing, and no new revision.
    pub changes: Vec<Change>,
    /// What is allowed but probably not meant.
    pub warnings: Vec<FieldError>,
}

/// Warnings about a domain.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Warnings {
    /// What is allowed but probably not meant, with its place in the exported document.
    pub warnings: Vec<FieldError>,
}

/// Apply a rules document
///
/// Makes the domain if it is new, creates and replaces its tiers and rules, all or nothing, in one revision. What is there already the
/// same way is left alone, so applying twice changes nothing. What the document does not mention stays as it is; with `prune` it goes, only
/// the domain's `mode` stays even then.
#[utoipa::path(post, path = "/v1/apply", tag = "documents", operation_id = "apply", params(How), security(("token" = ["operator"])),
    request_body = RulesDocument,
    responses((status = 200, description = "Applied, or only validated", body = Applied, headers(("Weir-Revision" = u64)))))]
pub async fn apply(
    State(app): State<App>,
    Operator(who): Operator,
    Query(how): Query<How>,
    Body(body): Body<MAX_RULES_BODY>,
) -> Result<Response, Problem> {
    let document = PartialConfig::read(&body)?;
    let domain = document.domain.clone();
    who.enter(domain.as_str())?;
    let order = Order { author: &who, domain: &domain, validate_only: how.validate_only, summary: "apply a rules document".to_owned() };
    let outcome = change(&app, &order, Focus::on_all(&document), |draft| {
        let present = draft.config.clone();
        Ok(Some(if how.prune { document.instead_of(present) } else { document.over(present) }))
    });
    let outcome = outcome.await?;
    let warnings = outcome.config.as_ref().map(warnings).unwrap_or_default();
    let revision = outcome.published.revision;
    let applied = Applied { domain: domain.to_string(), revision, changes: outcome.published.changes, warnings };
    Ok(answer::published(Json(applied).into_response(), revision))
}

/// Export a domain as a rules document
///
/// Applying it to another control plane makes the same domain there.
#[utoipa::path(get, path = "/v1/export", tag = "documents", operation_id = "export", params(InDomain), security(("token" = ["viewer"])),
    responses((status = 200, description = "The rules document", body = RulesDocument)))]
pub async fn export(State(app): State<App>, Viewer(who): Viewer, Query(query): Query<InDomain>) -> Result<Json<Value>, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    Ok(Json(load(&app, &domain).await?.to_document()))
}

/// Look for what is allowed but probably not meant
#[utoipa::path(get, path = "/v1/lint", tag = "documents", operation_id = "lint", params(InDomain), security(("token" = ["viewer"])),
    responses((status = 200, description = "The warnings", body = Warnings)))]
pub async fn warn(State(app): State<App>, Viewer(who): Viewer, Query(query): Query<InDomain>) -> Result<Json<Value>, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    Ok(Json(json!(Warnings { warnings: warnings(&load(&app, &domain).await?) })))
}

async fn load(app: &App, domain: &Name) -> Result<DomainConfig, Problem> {
    let mut connection = app.pool.acquire().await?;
    let documents = document::all(&mut connection, domain.as_str()).await?;
    stored(&documents)?.ok_or_else(|| missing(ItemKind::Domain, domain.as_str()))
}

fn warnings(config: &DomainConfig) -> Vec<FieldError> {
    lint(config).into_iter().map(|m| FieldError { pointer: m.pointer, detail: m.detail }).collect()
}
