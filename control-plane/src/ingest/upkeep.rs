//! What keeps the event tables small: partitions, the heaviest subjects only, no progress of processes long gone.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use tokio_util::sync::CancellationToken;
use weir_core::clock::Clock;

use super::level::Level;
use super::partitions;
use super::row::Window;

/// Subjects kept of each domain and bucket. Totals do not come from here, so what is forgotten is only missing from the list of offenders.
const KEPT_SUBJECTS: i64 = 2_000;
/// Between two runs; a minute, so that a flood of invented subjects never lies around for long.
const EVERY: Duration = Duration::from_secs(60);
/// The advisory lock of trimming.
const LOCK: i64 = 0x7765_6972_0002;

/// Runs the upkeep until `stop`, at once and then every minute.
pub async fn run(pool: PgPool, clock: Arc<dyn Clock>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let now = i64::try_from(clock.wall().as_secs()).unwrap_or(i64::MAX);
        if let Some(Err(error)) = stop.run_until_cancelled(once(&pool, now)).await {
            tracing::warn!(%error, "upkeep of the event tables failed; tried again in a minute");
        }
    }
}

/// One run at `now` (seconds since the epoch).
///
/// # Errors
/// The database is away.
pub async fn once(pool: &PgPool, now: i64) -> sqlx::Result<()> {
    partitions::maintain(pool, now).await?;
    trim(pool, now).await
}

async fn trim(pool: &PgPool, now: i64) -> sqlx::Result<()> {
    let mut transaction = pool.begin().await?;
    let locked: bool = sqlx::query_scalar("SELECT pg_try_advisory_xact_lock($1)").bind(LOCK).fetch_one(&mut *transaction).await?;
    if !locked {
        return Ok(());
    }
    // The running bucket too: what is trimmed from it is light so far, and comes back with what it is denied later.
    for (sql, level, back) in
        [(include_str!("sql/trim_subjects_1m.sql"), Level::Minute, 3 * 60), (include_str!("sql/trim_subjects_1h.sql"), Level::Hour, 3_600)]
    {
        let gone = sqlx::query(sql)
            .bind(level.floor(now - back))
            .bind(now + Window::EARLY)
            .bind(KEPT_SUBJECTS)
            .execute(&mut *transaction)
            .await?
            .rows_affected();
        if gone > 0 {
            tracing::info!(gone, seconds = level.seconds(), "subjects beyond the heaviest forgotten");
        }
    }
    // A process whose newest batch is older than what may still come late has nothing left that could be stored twice.
    sqlx::query("DELETE FROM ingest_progress WHERE updated_at < now() - make_interval(secs => $1)")
        .bind(f64::from(i32::try_from(2 * Window::LATE).unwrap_or(i32::MAX)))
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await
}
