//! `/v1/audit`: who changed what.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::IntoParams;

use super::extract::Query;
use super::paging::Page;
use super::problem::Problem;
use crate::auth::Viewer;
use crate::db::audit::{self, Entry, Filter};
use crate::db::time::Time;
use crate::state::App;

/// Which entries.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Wanted {
    /// Only of this domain.
    pub domain: Option<String>,
    /// Only of this kind: `domain`, `tier`, `rule`, `shard`, `token`, `session`, ...
    pub kind: Option<String>,
    /// Only of this name.
    pub name: Option<String>,
    /// How many entries (default 50, at most 500).
    pub page_size: Option<i64>,
    /// `next_page_token` of the page before.
    pub page_token: Option<String>,
}

/// One entry.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct AuditEntry {
    /// Its number, as a text; later entries have higher ones.
    pub id: String,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Time,
    /// Who: the name of the token or session.
    pub author: String,
    /// The domain; null for what belongs to none.
    #[schema(required)]
    pub domain: Option<String>,
    /// What kind of thing.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What happened: `create`, `update`, `delete`, `sign_in`.
    pub action: String,
    /// The document before; null where there was none.
    #[schema(required)]
    pub before: Option<Value>,
    /// The document after; null where there is none.
    #[schema(required)]
    pub after: Option<Value>,
    /// The revision that the change was published as.
    #[schema(required)]
    pub revision: Option<i64>,
}

/// List the audit, newest first
///
/// A token for some domains sees the entries of those only.
#[utoipa::path(get, path = "/v1/audit", tag = "audit", operation_id = "listAudit", params(Wanted), security(("token" = ["viewer"])),
    responses((status = 200, description = "A page of entries", body = Page<AuditEntry>)))]
pub async fn list(State(app): State<App>, Viewer(who): Viewer, Query(query): Query<Wanted>) -> Result<Json<Value>, Problem> {
    if let Some(domain) = &query.domain {
        who.enter(domain)?;
    }
    let scope = json!(["audit", query.domain, query.kind, query.name]).to_string();
    let wanted = app.pager.wanted(scope, query.page_size, query.page_token.as_deref())?;
    let filter =
        Filter { among: who.domains.as_deref(), domain: query.domain.as_deref(), kind: query.kind.as_deref(), name: query.name.as_deref() };
    let mut connection = app.pool.acquire().await?;
    let rows = audit::page(&mut connection, filter, wanted.after_number(i64::MAX)?, wanted.limit()).await?;
    Ok(Json(app.pager.page(&wanted, rows, |e: &Entry| e.id.to_string(), |e| json!(view(e)))))
}

fn view(entry: Entry) -> AuditEntry {
    AuditEntry {
        id: entry.id.to_string(),
        at: entry.at,
        author: entry.author,
        domain: Some(entry.domain).filter(|domain| !domain.is_empty()),
        kind: entry.kind,
        name: entry.name,
        action: entry.action,
        before: entry.before.map(|json| json.0),
        after: entry.after.map(|json| json.0),
        revision: entry.revision,
    }
}
