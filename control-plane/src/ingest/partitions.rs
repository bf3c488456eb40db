//! Partitions of the event tables: made ahead, dropped when their time is over. Any replica may do it; an advisory lock lets one at a time.

use std::ops::Range;

use sqlx::{AssertSqlSafe, PgConnection, PgPool};

use super::batch::Batch;
use super::level::Level;
use super::row::Window;

const DAY: i64 = 86_400;
/// How far ahead partitions are made: a control plane may be down for two days before the first event has none.
const AHEAD: i64 = 3 * DAY;
/// The advisory lock of everything that makes or drops partitions.
const LOCK: i64 = 0x7765_6972_0001;

/// A partitioned table.
struct Table {
    name: &'static str,
    /// Seconds per partition. The coarse tables have a few rows per hour: a month in one.
    width: i64,
    /// How long a row is kept, in seconds.
    kept: i64,
}

const TABLES: [Table; 6] = [
    Table { name: "traffic_10s", width: DAY, kept: Level::TenSeconds.kept() },
    Table { name: "traffic_1m", width: DAY, kept: Level::Minute.kept() },
    Table { name: "traffic_1h", width: 30 * DAY, kept: Level::Hour.kept() },
    Table { name: "subjects_1m", width: DAY, kept: 3 * DAY },
    Table { name: "subjects_1h", width: DAY, kept: 35 * DAY },
    Table { name: "denials", width: DAY, kept: 14 * DAY },
];

/// Whether an insert failed since its partition does not exist.
pub(crate) fn is_missing(error: &sqlx::Error) -> bool {
    let Some(error) = error.as_database_error() else { return false };
    // A row without a partition violates a constraint that has no name.
    error.code().as_deref() == Some("23514") && error.constraint().is_none()
}

/// Makes the partitions around `now` (seconds since the epoch) and drops those that are over. False: another replica is at it.
///
/// # Errors
/// The database is away, or busy with the tables; the next run tries again.
pub async fn maintain(pool: &PgPool, now: i64) -> sqlx::Result<bool> {
    let mut transaction = pool.begin().await?;
    let locked: bool = sqlx::query_scalar("SELECT pg_try_advisory_xact_lock($1)").bind(LOCK).fetch_one(&mut *transaction).await?;
    if !locked {
        return Ok(false);
    }
    sqlx::query("SET LOCAL lock_timeout = '2s'").execute(&mut *transaction).await?;
    let wanted = now - Window::LATE..now + AHEAD;
    for table in &TABLES {
        let there = starts(&mut transaction, table).await?;
        table.make(&mut transaction, &there, &wanted).await?;
        table.drop_old(&mut transaction, &there, now).await?;
    }
    transaction.commit().await?;
    Ok(true)
}

/// Makes the partitions that `batches` need.
pub(crate) async fn make_for(pool: &PgPool, batches: &[Batch]) -> sqlx::Result<()> {
    let seconds = || batches.iter().flat_map(Batch::seconds);
    let (Some(first), Some(last)) = (seconds().min(), seconds().max()) else { return Ok(()) };
    let mut transaction = pool.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *transaction).await?;
    for table in &TABLES {
        let there = starts(&mut transaction, table).await?;
        table.make(&mut transaction, &there, &(first..last + 1)).await?;
    }
    transaction.commit().await
}

/// The starts of a table's partitions, read from their names.
async fn starts(connection: &mut PgConnection, table: &Table) -> sqlx::Result<Vec<i64>> {
    let names: Vec<String> =
        sqlx::query_scalar("SELECT c.relname::text FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid WHERE inhparent = $1::regclass")
            .bind(table.name)
            .fetch_all(connection)
            .await?;
    Ok(names.iter().filter_map(|name| name.strip_prefix(table.name)?.strip_prefix('_')?.parse().ok()).collect())
}

impl Table {
    async fn make(&self, connection: &mut PgConnection, there: &[i64], wanted: &Range<i64>) -> sqlx::Result<()> {
        let first = wanted.start - wanted.start.rem_euclid(self.width);
        let mut start = first;
        while start < wanted.end {
            if !there.contains(&start) {
                self.make_one(connection, start).await?;
            }
            start += self.width;
        }
        Ok(())
    }

    /// Attaching locks the table less than CREATE .. PARTITION OF does: inserts and reads go on.
    async fn make_one(&self, connection: &mut PgConnection, start: i64) -> sqlx::Result<()> {
        let (table, end) = (self.name, start + self.width);
        let create = format!("CREATE TABLE {table}_{start} (LIKE {table} INCLUDING DEFAULTS) WITH (fillfactor = 85)");
        let attach = format!("ALTER TABLE {table} ATTACH PARTITION {table}_{start} FOR VALUES FROM ({start}) TO ({end})");
        for statement in [create, attach] {
            // Safe: made of this file's names and of numbers.
            sqlx::query(AssertSqlSafe(statement)).execute(&mut *connection).await?;
        }
        tracing::debug!(table, start, "partition made");
        Ok(())
    }

    async fn drop_old(&self, connection: &mut PgConnection, there: &[i64], now: i64) -> sqlx::Result<()> {
        for start in there.iter().filter(|start| **start + self.width <= now - self.kept) {
            sqlx::query(AssertSqlSafe(format!("DROP TABLE {}_{start}", self.name))).execute(&mut *connection).await?;
            tracing::info!(table = self.name, start, "partition dropped: its time is over");
        }
        Ok(())
    }
}
