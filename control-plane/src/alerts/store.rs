//! Alerts in the database.

use sqlx::{FromRow, PgConnection};
use weir_core::name::Name;
use weir_core::span::Span;

use super::alert::{Alert, Webhook};
use super::state::State;
use crate::db::time::Time;

/// A stored alert.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Its domain.
    pub domain: String,
    /// What it says. The webhook's secret is with it: it is never shown.
    pub alert: Alert,
    /// Grows with every change; the ETag.
    pub version: i64,
    /// When it was first written.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
    /// Who changed it last.
    pub updated_by: String,
    /// What the evaluator knows.
    pub state: State,
}

#[derive(FromRow)]
struct Row {
    domain: String,
    name: String,
    rule: String,
    denied_share_percent: f64,
    for_seconds: i64,
    webhook_url: Option<String>,
    webhook_secret: Option<String>,
    enabled: bool,
    version: i64,
    created_at: Time,
    updated_at: Time,
    updated_by: String,
    firing: bool,
    since: Option<i64>,
    above_since: Option<i64>,
    denied_share: Option<f64>,
    evaluated_at: Option<i64>,
}

impl TryFrom<Row> for Stored {
    type Error = sqlx::Error;

    fn try_from(row: Row) -> Result<Self, sqlx::Error> {
        let name = |text: &str| Name::new(text).map_err(|error| sqlx::Error::Decode(Box::new(error)));
        let secret = row.webhook_secret;
        let alert = Alert {
            name: name(&row.name)?,
            rule: name(&row.rule)?,
            denied_share_percent: row.denied_share_percent,
            r#for: Span::from_secs(row.for_seconds.unsigned_abs()),
            webhook: row.webhook_url.map(|url| Webhook { url, secret }),
            enabled: row.enabled,
        };
        let state = State {
            firing: row.firing,
            since: row.since,
            above_since: row.above_since,
            evaluated_at: row.evaluated_at,
            denied_share: row.denied_share,
        };
        Ok(Self {
            domain: row.domain,
            alert,
            version: row.version,
            created_at: row.created_at,
            updated_at: row.updated_at,
            updated_by: row.updated_by,
            state,
        })
    }
}

const INSERT: &str = "INSERT INTO alerts (domain, name, rule, denied_share_percent, for_seconds, webhook_url, webhook_secret, enabled, updated_by) \
                      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING *";
// What it waits for has changed: what it saw so far does not count.
const UPDATE: &str = "UPDATE alerts SET rule = $3, denied_share_percent = $4, for_seconds = $5, webhook_url = $6, webhook_secret = $7, enabled = $8, \
                      updated_by = $9, updated_at = now(), version = nextval('alert_versions'), above_since = NULL WHERE domain = $1 AND name = $2 RETURNING *";

/// Adds an alert.
///
/// # Errors
/// The database's; a unique violation if the name is taken.
pub async fn insert(connection: &mut PgConnection, domain: &str, alert: &Alert, author: &str) -> sqlx::Result<Stored> {
    write(connection, INSERT, domain, alert, author).await
}

/// Replaces an alert; a webhook's secret must be there.
///
/// # Errors
/// The database's.
pub async fn update(connection: &mut PgConnection, domain: &str, alert: &Alert, author: &str) -> sqlx::Result<Stored> {
    write(connection, UPDATE, domain, alert, author).await
}

async fn write(connection: &mut PgConnection, sql: &'static str, domain: &str, alert: &Alert, author: &str) -> sqlx::Result<Stored> {
    let row: Row = sqlx::query_as(sql)
        .bind(domain)
        .bind(alert.name.as_str())
        .bind(alert.rule.as_str())
        .bind(alert.denied_share_percent)
        .bind(i64::try_from(alert.r#for.as_millis() / 1_000).unwrap_or(i64::MAX))
        .bind(alert.webhook.as_ref().map(|webhook| &webhook.url))
        .bind(alert.webhook.as_ref().and_then(|webhook| webhook.secret.as_ref()))
        .bind(alert.enabled)
        .bind(author)
        .fetch_one(connection)
        .await?;
    row.try_into()
}

/// One alert, locked until the transaction ends.
///
/// # Errors
/// The database's.
pub async fn lock(connection: &mut PgConnection, domain: &str, name: &str) -> sqlx::Result<Option<Stored>> {
    let sql = "SELECT * FROM alerts WHERE domain = $1 AND name = $2 FOR UPDATE";
    let row: Option<Row> = sqlx::query_as(sql).bind(domain).bind(name).fetch_optional(connection).await?;
    row.map(Stored::try_from).transpose()
}

/// One alert.
///
/// # Errors
/// The database's.
pub async fn get(connection: &mut PgConnection, domain: &str, name: &str) -> sqlx::Result<Option<Stored>> {
    let sql = "SELECT * FROM alerts WHERE domain = $1 AND name = $2";
    let row: Option<Row> = sqlx::query_as(sql).bind(domain).bind(name).fetch_optional(connection).await?;
    row.map(Stored::try_from).transpose()
}

/// Up to `limit` alerts of a domain by name, after a name.
///
/// # Errors
/// The database's.
pub async fn page(connection: &mut PgConnection, domain: &str, after: &str, limit: i64) -> sqlx::Result<Vec<Stored>> {
    let sql = "SELECT * FROM alerts WHERE domain = $1 AND name > $2 ORDER BY name LIMIT $3";
    let rows: Vec<Row> = sqlx::query_as(sql).bind(domain).bind(after).bind(limit).fetch_all(connection).await?;
    rows.into_iter().map(Stored::try_from).collect()
}

/// How many alerts a domain has.
///
/// # Errors
/// The database's.
pub async fn count(connection: &mut PgConnection, domain: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT count(*) FROM alerts WHERE domain = $1").bind(domain).fetch_one(connection).await
}

/// All alerts that are to be looked at, or that still fire; locked, so that what an operator changes meanwhile waits.
///
/// # Errors
/// The database's.
pub async fn lock_watched(connection: &mut PgConnection) -> sqlx::Result<Vec<Stored>> {
    let sql = "SELECT * FROM alerts WHERE enabled OR firing ORDER BY domain, name FOR UPDATE";
    let rows: Vec<Row> = sqlx::query_as(sql).fetch_all(connection).await?;
    rows.into_iter().map(Stored::try_from).collect()
}

/// Removes an alert and what was still to be told of it.
///
/// # Errors
/// The database's.
pub async fn delete(connection: &mut PgConnection, domain: &str, name: &str) -> sqlx::Result<()> {
    for sql in ["DELETE FROM alert_deliveries WHERE domain = $1 AND alert = $2", "DELETE FROM alerts WHERE domain = $1 AND name = $2"] {
        sqlx::query(sql).bind(domain).bind(name).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Writes what the evaluator knows.
///
/// # Errors
/// The database's.
pub async fn save_state(connection: &mut PgConnection, stored: &Stored, state: State) -> sqlx::Result<()> {
    let sql =
        "UPDATE alerts SET firing = $3, since = $4, above_since = $5, denied_share = $6, evaluated_at = $7 WHERE domain = $1 AND name = $2";
    sqlx::query(sql)
        .bind(&stored.domain)
        .bind(stored.alert.name.as_str())
        .bind(state.firing)
        .bind(state.since)
        .bind(state.above_since)
        .bind(state.denied_share)
        .bind(state.evaluated_at)
        .execute(connection)
        .await?;
    Ok(())
}
