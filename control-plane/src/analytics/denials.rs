//! Sampled refusals, newest first.

use serde::Serialize;
use sqlx::{FromRow, PgConnection};
use uuid::Uuid;
use weir_core::decision::Outcome;

use super::outcome;
use super::range::Range;
use crate::db::time::Time;

/// One refusal, whole.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Denial {
    /// Its id.
    #[schema(value_type = String)]
    pub id: Uuid,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub time: Time,
    /// The agent that decided.
    pub agent: String,
    /// The rule that refused, or would have.
    pub rule: String,
    /// The subject's tier.
    pub tier: String,
    /// Who, as people read it: `kind:id`.
    pub subject: String,
    /// What became of the request.
    pub outcome: Outcome,
    /// Why: `limited`, `blocked`, `cost_exceeds_capacity`, `unavailable`.
    pub reason: String,
    /// The request's method.
    pub method: String,
    /// Its host.
    pub host: String,
    /// Its path, normalised, without query.
    pub path: String,
    /// The address that it came from.
    pub client_ip: String,
    /// The limit in force, in units.
    pub limit: i64,
    /// Its window in milliseconds.
    pub window_ms: i64,
    /// When the client may try again, in milliseconds from then; 0: never, or unknown.
    pub retry_after_ms: i64,
    /// The request's cost in units.
    pub cost: i64,
    /// The shard that counted.
    pub shard: String,
    /// The counter.
    pub key: String,
    /// How many refusals this one stands for.
    pub weight: f64,
}

#[derive(FromRow)]
struct Row {
    id: Uuid,
    time_ms: i64,
    agent: String,
    rule: String,
    tier: String,
    subject: String,
    outcome: i16,
    reason: String,
    method: String,
    host: String,
    path: String,
    client_ip: String,
    limit_units: i64,
    window_ms: i64,
    retry_after_ms: i64,
    cost: i64,
    shard: String,
    counter_key: String,
    weight: f64,
}

/// Which refusals.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter<'a> {
    /// By this rule.
    pub rule: Option<&'a str>,
    /// Of subjects that contain this text, A to Z and a to z being the same.
    pub subject: Option<&'a str>,
}

/// Where a page starts: after the refusal of that time (ms) and id.
pub type After = (i64, Uuid);

/// Up to `limit` refusals of a range, newest first.
///
/// # Errors
/// The database's.
pub async fn page(
    connection: &mut PgConnection,
    domain: &str,
    range: Range,
    filter: Filter<'_>,
    (after, limit): (Option<After>, i64),
) -> sqlx::Result<Vec<Denial>> {
    let (time, id) = after.unwrap_or((i64::MAX, Uuid::max()));
    let rows: Vec<Row> = sqlx::query_as(include_str!("sql/denials.sql"))
        .bind(domain)
        .bind(range.from)
        .bind(range.to)
        .bind(filter.rule)
        .bind(filter.subject)
        .bind(time)
        .bind(id)
        .bind(limit)
        .fetch_all(connection)
        .await?;
    Ok(rows.into_iter().filter_map(Denial::read).collect())
}

impl Denial {
    fn read(row: Row) -> Option<Self> {
        Some(Self {
            id: row.id,
            time: Time::from_millis(row.time_ms)?,
            agent: row.agent,
            rule: row.rule,
            tier: row.tier,
            subject: row.subject,
            outcome: outcome::from_number(row.outcome)?,
            reason: row.reason,
            method: row.method,
            host: row.host,
            path: row.path,
            client_ip: row.client_ip,
            limit: row.limit_units,
            window_ms: row.window_ms,
            retry_after_ms: row.retry_after_ms,
            cost: row.cost,
            shard: row.shard,
            key: row.counter_key,
            weight: row.weight,
        })
    }
}
