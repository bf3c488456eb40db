//! `/v1/analytics`: what was allowed and denied, over time and in all, and who was denied most.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use weir_core::mistake::Mistakes;
use weir_core::name::Name;

use super::extract::Query;
use super::params::domain;
use super::problem::Problem;
use crate::analytics::range::Range;
use crate::analytics::subjects::{self, Offender};
use crate::analytics::summary::{self, Totals};
use crate::analytics::timeseries::{self, Filter, GroupBy, Series};
use crate::auth::Viewer;
use crate::db::time::Time;
use crate::state::App;

/// The most offenders of an answer.
const MAX_OFFENDERS: i64 = 500;
const DEFAULT_OFFENDERS: i64 = 20;

/// A range in a domain. Times are RFC 3339, `now`, or a length of time before now such as `-1h`.
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
    /// Only this rule.
    pub rule: Option<String>,
}

/// A range in a domain, as a series.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WantedSeries {
    /// The domain (default `default`).
    pub domain: Option<String>,
    /// The beginning (default: an hour before the end).
    pub from: Option<String>,
    /// The end (default: now).
    pub to: Option<String>,
    /// Length of a step: seconds, or such as `5m`. Rounded up to what is kept for the range. Absent: chosen for a chart.
    pub step: Option<String>,
    /// What a series is of, beside the outcome (default `outcome`: nothing else).
    #[serde(default)]
    #[param(inline)]
    pub group_by: GroupBy,
    /// Only this rule.
    pub rule: Option<String>,
    /// Only this tier.
    pub tier: Option<String>,
}

/// A range in a domain, as a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WantedList {
    /// The domain (default `default`).
    pub domain: Option<String>,
    /// The beginning (default: an hour before the end).
    pub from: Option<String>,
    /// The end (default: now).
    pub to: Option<String>,
    /// Only this rule.
    pub rule: Option<String>,
    /// How many entries (default 20, at most 500).
    pub limit: Option<i64>,
}

/// Requests and units over time.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct TimeSeries {
    /// The beginning, rounded down to the resolution of the range.
    #[schema(value_type = String, format = DateTime)]
    pub from: Time,
    /// The end, rounded up.
    #[schema(value_type = String, format = DateTime)]
    pub to: Time,
    /// Length of a step.
    pub step_seconds: i64,
    /// The starts of the steps, in seconds since the epoch; multiples of the step, so the first may be before `from`.
    pub times: Vec<i64>,
    /// One number per step and series, 0 where there was nothing. Heaviest first.
    pub series: Vec<Series>,
}

/// The most denied subjects.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct TopSubjects {
    /// Most denied first.
    pub items: Vec<Offender>,
    /// Whether counts are estimates: agents report the heaviest subjects of a bounded sketch, and `error` says by how much a count may be too high.
    pub sampled: bool,
}

/// Totals of a range.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Summary {
    /// The beginning, rounded down to the resolution of the range.
    #[schema(value_type = String, format = DateTime)]
    pub from: Time,
    /// The end, rounded up.
    #[schema(value_type = String, format = DateTime)]
    pub to: Time,
    /// All requests; shadow denials are counted besides.
    pub requests: i64,
    #[serde(flatten)]
    #[allow(missing_docs, reason = "its fields have their own")]
    pub totals: Totals,
    /// Share of the requests that a limit refused, 0 to 1; 0 where there were none.
    pub denied_share: f64,
    /// Subjects that were denied: at least so many, since only the heaviest are kept.
    pub unique_denied_subjects: i64,
}

/// Requests and units over time
#[utoipa::path(get, path = "/v1/analytics/timeseries", tag = "analytics", operation_id = "timeseries", params(WantedSeries),
    security(("token" = ["viewer"])), responses((status = 200, description = "The series", body = TimeSeries)))]
pub async fn timeseries(
    State(app): State<App>,
    Viewer(who): Viewer,
    Query(query): Query<WantedSeries>,
) -> Result<Json<TimeSeries>, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    let range = Range::read(query.from.as_deref(), query.to.as_deref(), now(&app))?;
    let step = range.step(query.step.as_deref())?;
    let filter = Filter { rule: name("rule", query.rule.as_deref())?, tier: name("tier", query.tier.as_deref())? };
    let mut connection = app.pool.acquire().await?;
    let series = timeseries::series(&mut connection, domain.as_str(), (range, step), query.group_by, filter).await?;
    Ok(Json(TimeSeries { from: time(range.from), to: time(range.to), step_seconds: step, times: range.times(step).collect(), series }))
}

/// Totals of a range
///
/// They are the sums of the series of the same range.
#[utoipa::path(get, path = "/v1/analytics/summary", tag = "analytics", operation_id = "summary", params(Wanted),
    security(("token" = ["viewer"])), responses((status = 200, description = "The totals", body = Summary)))]
pub async fn summary(State(app): State<App>, Viewer(who): Viewer, Query(query): Query<Wanted>) -> Result<Json<Summary>, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    let range = Range::read(query.from.as_deref(), query.to.as_deref(), now(&app))?;
    let rule = name("rule", query.rule.as_deref())?;
    let mut connection = app.pool.acquire().await?;
    let totals = summary::totals(&mut connection, domain.as_str(), rule, range).await?;
    let subjects = summary::denied_subjects(&mut connection, domain.as_str(), rule, (range, now(&app))).await?;
    Ok(Json(Summary {
        from: time(range.from),
        to: time(range.to),
        requests: totals.requests(),
        totals,
        denied_share: totals.denied_share().unwrap_or_default(),
        unique_denied_subjects: subjects,
    }))
}

/// The most denied subjects
#[utoipa::path(get, path = "/v1/analytics/top-subjects", tag = "analytics", operation_id = "topSubjects", params(WantedList),
    security(("token" = ["viewer"])), responses((status = 200, description = "Most denied first", body = TopSubjects)))]
pub async fn top_subjects(
    State(app): State<App>,
    Viewer(who): Viewer,
    Query(query): Query<WantedList>,
) -> Result<Json<TopSubjects>, Problem> {
    let domain = domain(query.domain.as_deref(), &who)?;
    let now = now(&app);
    let range = Range::read(query.from.as_deref(), query.to.as_deref(), now)?;
    let limit = query.limit.unwrap_or(DEFAULT_OFFENDERS);
    if limit < 1 {
        return Err(Problem::mistake("limit", format!("must be from 1 to {MAX_OFFENDERS}")));
    }
    let rule = name("rule", query.rule.as_deref())?;
    let mut connection = app.pool.acquire().await?;
    let items = subjects::top(&mut connection, domain.as_str(), (range, now), rule, limit.min(MAX_OFFENDERS)).await?;
    Ok(Json(TopSubjects { sampled: items.iter().any(|offender| offender.error > 0), items }))
}

/// A filter by name; the empty text is what no rule or no tier is stored as.
pub(super) fn name<'a>(parameter: &str, text: Option<&'a str>) -> Result<Option<&'a str>, Mistakes> {
    let mut mistakes = Mistakes::new();
    if let Some(Err(error)) = text.filter(|text| !text.is_empty()).map(Name::new) {
        mistakes.add(parameter, error.to_string());
    }
    mistakes.into_result(text)
}

/// Seconds since the epoch.
pub(super) fn now(app: &App) -> i64 {
    i64::try_from(app.clock.wall().as_secs()).unwrap_or(i64::MAX)
}

fn time(seconds: i64) -> Time {
    Time::from_millis(seconds.saturating_mul(1_000)).unwrap_or(Time(jiff::Timestamp::MAX))
}
