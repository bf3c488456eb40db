//! Who was refused most.

use serde::Serialize;
use sqlx::{AssertSqlSafe, FromRow, PgConnection};

use super::range::Range;
use super::table;
use crate::db::time::Time;

const TOP: &str = include_str!("sql/top_subjects.sql");

/// A subject that was refused.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct Offender {
    /// As people read it: `kind:id`.
    pub subject: String,
    /// Its tier, of late.
    pub tier: String,
    /// The rules that refused it.
    pub rules: Vec<String>,
    /// Requests refused.
    pub denied: i64,
    /// Requests let through in the same time, as far as agents know (they watch the refused ones).
    pub allowed: i64,
    /// denied / (denied + allowed), 0 to 1.
    pub denied_share: f64,
    /// When it was first refused within the range.
    #[schema(value_type = String, format = DateTime)]
    pub first_seen: Time,
    /// When it was last refused within the range.
    #[schema(value_type = String, format = DateTime)]
    pub last_seen: Time,
    /// By how much `denied` may be too high.
    pub error: i64,
}

#[derive(FromRow)]
struct Row {
    subject: String,
    tier: String,
    rules: Vec<String>,
    denied: i64,
    allowed: i64,
    error: i64,
    first_second: i64,
    last_second: i64,
}

/// The `limit` most refused subjects of a range, by one rule or any.
///
/// # Errors
/// The database's.
pub async fn top(
    connection: &mut PgConnection,
    domain: &str,
    (range, now): (Range, i64),
    rule: Option<&str>,
    limit: i64,
) -> sqlx::Result<Vec<Offender>> {
    let (table, from, to) = table::subjects(range, now);
    let rows: Vec<Row> = sqlx::query_as(AssertSqlSafe(TOP.replace("FROM TABLE", &format!("FROM {table}"))))
        .bind(domain)
        .bind(from)
        .bind(to)
        .bind(limit)
        .bind(rule)
        .fetch_all(connection)
        .await?;
    Ok(rows.into_iter().filter_map(Offender::read).collect())
}

impl Offender {
    #[allow(clippy::cast_precision_loss, reason = "a share is shown with a few digits")]
    fn read(row: Row) -> Option<Self> {
        let all = row.denied.saturating_add(row.allowed).max(1);
        Some(Self {
            subject: row.subject,
            tier: row.tier,
            rules: row.rules,
            denied: row.denied,
            allowed: row.allowed,
            denied_share: row.denied as f64 / all as f64,
            first_seen: Time::from_millis(row.first_second.checked_mul(1_000)?)?,
            last_seen: Time::from_millis(row.last_second.checked_mul(1_000)?)?,
            error: row.error,
        })
    }
}
