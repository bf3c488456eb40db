//! `/v1/denials`: sampled refusals, newest first.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::IntoParams;
use uuid::Uuid;

use super::analytics::{name, now};
use super::extract::Query;
use super::paging::Page;
use super::params::domain;
use super::problem::Problem;
use crate::analytics::denials::{self, After, Denial, Filter};
use crate::analytics::range::Range;
use crate::auth::Viewer;
use crate::state::App;

/// The longest text to look for in subjects, in characters.
const MAX_SUBJECT: usize = 1_024;

/// Which refusals. Times are RFC 3339, `now`, or a length of time before now such as `-1h`.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Wanted {
    /// The domain (default `default`).
    pub domain: Option<String>,
    /// The beginning (default: an hour before the end).
    pub from: Option<String>,
    /// The end (default: now).
    pub to: Option<String>,
    /// Only by this rule.
    pub rule: Option<String>,
    /// Only of subjects that contain this text; A to Z and a to z are the same, and no character has a special meaning.
    pub subject: Option<String>,
    /// How many entries (default 50, at most 500).
    pub page_size: Option<i64>,
    /// `next_page_token` of the page before.
    pub page_token: Option<String>,
}

/// List sampled refusals, newest first
///
/// Agents send a sample; `weight` says how many refusals each one stands for.
#[utoipa::path(get, path = "/v1/denials", tag = "analytics", operation_id = "listDenials", params(Wanted), security(("token" = ["viewer"])),
    responses((status = 200, description = "A page of refusals", body = Page<Denial>)))]
pub async fn list(State(app): State<App>, Viewer(who): Viewer, Query(query): Query<Wanted>) -> Result<Json<Value>, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    let range = Range::read(query.from.as_deref(), query.to.as_deref(), now(&app))?;
    let subject = query.subject.as_deref().filter(|text| !text.is_empty());
    if subject.is_some_and(|text| text.chars().count() > MAX_SUBJECT || text.contains('\0')) {
        return Err(Problem::mistake("subject", format!("must have at most {MAX_SUBJECT} characters, none of them NUL")));
    }
    let filter = Filter { rule: name("rule", query.rule.as_deref())?, subject };
    // The range is as it was written: `-1h` moves on from page to page, and what is older than the last entry is still meant.
    let scope = json!(["denial", domain, query.from, query.to, query.rule, query.subject]).to_string();
    let wanted = app.pager.wanted(scope, query.page_size, query.page_token.as_deref())?;
    let after = wanted.after.as_deref().map(read_key).transpose()?;
    let mut connection = app.pool.acquire().await?;
    let rows = denials::page(&mut connection, domain.as_str(), range, filter, (after, wanted.limit())).await?;
    Ok(Json(app.pager.page(&wanted, rows, key, |denial| json!(denial))))
}

fn key(denial: &Denial) -> String {
    format!("{}.{}", denial.time.as_millis(), denial.id)
}

fn read_key(text: &str) -> Result<After, Problem> {
    let read = || {
        let (time, id) = text.split_once('.')?;
        Some((time.parse().ok()?, Uuid::parse_str(id).ok()?))
    };
    read().ok_or_else(|| Problem::mistake("page_token", "is not the next_page_token of this list"))
}
