//! What domains, tiers and rules have in common.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use weir_core::item::ItemKind;
use weir_core::mistake::Mistakes;
use weir_core::name::Name;

use super::answer;
use super::change::{Outcome, missing};
use super::params::PagedInDomain;
use super::problem::Problem;
use crate::db::document::{self, Document};
use crate::state::App;

/// A page of the documents of one kind in a domain. A domain that is not there has none.
///
/// # Errors
/// 400: a bad page; 503.
pub async fn page(app: &App, domain: &Name, kind: ItemKind, query: &PagedInDomain) -> Result<Json<Value>, Problem> {
    let scope = format!("{}?domain={domain}", kind.as_str());
    let wanted = app.pager.wanted(scope, query.page_size, query.page_token.as_deref())?;
    let after = wanted.after.as_deref().unwrap_or_default();
    let mut connection = app.pool.acquire().await?;
    let rows = document::page(&mut connection, domain.as_str(), kind, after, wanted.limit()).await?;
    Ok(Json(app.pager.page(&wanted, rows, |d: &Document| d.name.clone(), answer::with_meta)))
}

/// One document.
///
/// # Errors
/// 404, 503.
pub async fn one(app: &App, domain: &str, kind: ItemKind, name: &str) -> Result<Response, Problem> {
    let mut connection = app.pool.acquire().await?;
    let document = document::get(&mut connection, domain, kind, name).await?;
    document.map(answer::one).ok_or_else(|| missing(kind, name))
}

/// Reads a request's body with the reader of its kind.
///
/// # Errors
/// 400 with every mistake.
pub fn read<T>(body: &Value, reader: fn(&Value, &str, &mut Mistakes) -> Option<T>) -> Result<T, Problem> {
    let mut mistakes = Mistakes::new();
    let read = reader(body, "", &mut mistakes);
    match read {
        Some(value) if mistakes.is_empty() => Ok(value),
        _ if mistakes.is_empty() => Err(Problem::mistake("", "is not what is expected here")),
        _ => Err(mistakes.into()),
    }
}

/// That a body replaces what its path names.
///
/// # Errors
/// 400: it has another name.
pub fn same_name(in_path: &str, in_body: &Name) -> Result<(), Problem> {
    if in_body == in_path {
        Ok(())
    } else {
        Err(Problem::mistake("/name", format!("must be {in_path:?}, as in the path: nothing can be renamed")))
    }
}

/// The answer to a creation or replacement: the document as it is now.
///
/// # Errors
/// 500: it is not there.
pub fn written(outcome: Outcome) -> Result<Response, Problem> {
    let document = outcome.document.ok_or_else(|| Problem::internal(&"the written document is not there"))?;
    Ok(answer::published(answer::one(document), outcome.published.revision))
}

/// The answer to a deletion.
#[must_use]
pub fn deleted(outcome: &Outcome) -> Response {
    answer::published(http::StatusCode::NO_CONTENT.into_response(), outcome.published.revision)
}
