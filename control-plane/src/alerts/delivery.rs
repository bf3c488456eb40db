//! What is to be told to webhooks, in the database: written with the change of state, sent by whichever replica takes it first.

use serde_json::json;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use super::state::{Change, State};
use super::store::Stored;
use super::webhook::SendError;
use crate::db::time::Time;

/// Attempts before a delivery is given up: with the waits between them that is about 40 minutes.
pub const MAX_ATTEMPTS: i32 = 10;
/// How long a replica has for one attempt before another may try, in seconds: longer than any attempt takes.
const LEASE: f64 = 60.0;
/// How long finished deliveries are kept, in days.
const KEPT: i32 = 30;

/// One delivery that is due.
#[derive(Debug, Clone, FromRow)]
pub struct Due {
    /// Its id, the same at every attempt.
    pub id: Uuid,
    /// The alert's domain.
    pub domain: String,
    /// The alert.
    pub alert: String,
    /// What is sent.
    pub body: String,
    /// Attempts so far, this one included.
    pub attempts: i32,
    /// Where to; `None`: the alert has no webhook any more.
    pub url: Option<String>,
    /// The key of the signature.
    pub secret: Option<String>,
}

/// How the last delivery of an alert went.
#[derive(Debug, Clone, FromRow, serde::Serialize, utoipa::ToSchema)]
pub struct Delivery {
    /// Its id, which the receiver gets as `Weir-Delivery`.
    #[schema(value_type = String)]
    pub id: Uuid,
    /// `firing` or `resolved`.
    pub event: String,
    /// `pending`, `delivered` or `failed`.
    pub state: String,
    /// How often it was tried.
    pub attempts: i32,
    /// The status that the receiver answered with last.
    pub last_status: Option<i32>,
    /// Why the last attempt failed; empty: it did not.
    pub last_error: String,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    /// When it was delivered or given up.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Time>,
}

/// Notes that a change is to be told.
///
/// # Errors
/// The database's.
pub async fn add(connection: &mut PgConnection, stored: &Stored, state: State, change: Change, link: &str) -> sqlx::Result<()> {
    let event = match change {
        Change::Firing => "firing",
        Change::Resolved => "resolved",
    };
    let id = Uuid::now_v7();
    let since = state.since.and_then(|since| Time::from_millis(since.checked_mul(1_000)?));
    let alert = &stored.alert;
    let body = json!({
        "id": id, "event": event, "domain": stored.domain, "alert": alert.name, "rule": alert.rule, "since": since,
        "denied_share_percent": state.denied_share, "threshold_percent": alert.denied_share_percent, "for": alert.r#for, "link": link,
    });
    sqlx::query("INSERT INTO alert_deliveries (id, domain, alert, event, body) VALUES ($1, $2, $3, $4, $5)")
        .bind(id)
        .bind(&stored.domain)
        .bind(alert.name.as_str())
        .bind(event)
        .bind(body.to_string())
        .execute(connection)
        .await?;
    Ok(())
}

/// Takes up to `most` deliveries that are due, so that no other replica sends them.
///
/// # Errors
/// The database's.
pub async fn take(pool: &PgPool, most: i64) -> sqlx::Result<Vec<Due>> {
    sqlx::query_as(include_str!("sql/take_deliveries.sql")).bind(most).bind(LEASE).fetch_all(pool).await
}

/// Notes how an attempt went; the next one comes later each time.
///
/// # Errors
/// The database's.
pub async fn finish(pool: &PgPool, due: &Due, result: &Result<u16, SendError>) -> sqlx::Result<()> {
    let (state, status, error) = match result {
        Ok(status) => ("delivered", Some(i32::from(*status)), String::new()),
        Err(error) => {
            let state = if due.attempts >= MAX_ATTEMPTS { "failed" } else { "pending" };
            (state, error.status().map(i32::from), error.to_string())
        }
    };
    let sql = "UPDATE alert_deliveries SET state = $2, last_status = $3, last_error = $4, next_attempt = now() + make_interval(secs => $5), \
               finished_at = CASE WHEN $2 <> 'pending' THEN now() END WHERE id = $1";
    sqlx::query(sql).bind(due.id).bind(state).bind(status).bind(error).bind(backoff(due.attempts, rand::random())).execute(pool).await?;
    Ok(())
}

/// Seconds until the next attempt: 5 s doubled each time, at most half an hour; the last quarter of it by chance (0 to 1).
fn backoff(attempts: i32, chance: f64) -> f64 {
    let full = 5.0 * 2.0_f64.powi(attempts.clamp(1, 20) - 1);
    full.min(1_800.0) * (0.75 + 0.25 * chance)
}

/// The last delivery of each of these alerts.
///
/// # Errors
/// The database's.
pub async fn last(connection: &mut PgConnection, domain: &str, alert: &str) -> sqlx::Result<Option<Delivery>> {
    let sql = "SELECT id, event, state, attempts, last_status, last_error, created_at, finished_at FROM alert_deliveries \
               WHERE domain = $1 AND alert = $2 ORDER BY created_at DESC, id DESC LIMIT 1";
    sqlx::query_as(sql).bind(domain).bind(alert).fetch_optional(connection).await
}

/// Forgets what was finished long ago.
///
/// # Errors
/// The database's.
pub async fn forget(pool: &PgPool) -> sqlx::Result<()> {
    let sql = "DELETE FROM alert_deliveries WHERE state <> 'pending' AND finished_at < now() - make_interval(days => $1)";
    sqlx::query(sql).bind(KEPT).execute(pool).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_come_later_each_time() {
        let waits: Vec<f64> = (1..MAX_ATTEMPTS).map(|attempt| backoff(attempt, 1.0)).collect();
        assert!(waits.windows(2).all(|w| w[0] < w[1] || w[1] == 1_800.0), "{waits:?}");
        assert_eq!((waits[0], backoff(1, 0.0), backoff(100, 1.0)), (5.0, 3.75, 1_800.0));
        assert!((2_400.0..7_200.0).contains(&waits.iter().sum::<f64>()), "{waits:?}");
    }
}
