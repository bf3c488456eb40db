//! An agent's name belongs to the first token that used it, until that token is deleted: one agent cannot pose as another.

use std::time::Duration;

use sqlx::PgPool;
use sqlx::error::DatabaseError;
use weir_core::item::SetHash;

use super::published::SetName;
use super::report::{Refusal, SetReport};
use super::roster::Stream;
use uuid::Uuid;

/// The most agents that are remembered. Those that are gone are forgotten after a day; more than this is a token gone wild.
pub const MAX_AGENTS: i64 = 100_000;

/// What came of a claim.
#[derive(Debug)]
pub enum Claim {
    /// The name is this token's; here is what this build of the agent refused for good before.
    Granted(Vec<(SetName, Refusal)>),
    /// The name is another token's.
    Taken,
}

/// Claims the name of a stream's agent, and makes the stream the agent's only one.
///
/// # Errors
/// The database is away: nobody knows, and the claim must be repeated.
pub async fn claim(pool: &PgPool, stream: &Stream, replica: Uuid) -> sqlx::Result<Claim> {
    let sets = stream.state().report.sets.clone();
    let mut transaction = pool.begin().await?;
    let granted: Result<Option<String>, _> = sqlx::query_scalar(include_str!("sql/claim.sql"))
        .bind(stream.agent.as_str())
        .bind(stream.token)
        .bind(&stream.boot)
        .bind(&stream.build)
        .bind(&stream.time_zones)
        .bind(stream.id)
        .bind(replica)
        .bind(stream.since)
        .bind(MAX_AGENTS)
        .fetch_optional(&mut *transaction)
        .await;
    match granted {
        Ok(Some(_)) => {}
        Ok(None) => return Ok(Claim::Taken),
        // The token was deleted in this very moment.
        Err(error) if error.as_database_error().is_some_and(DatabaseError::is_foreign_key_violation) => return Ok(Claim::Taken),
        Err(error) => return Err(error),
    }
    let names: Vec<&str> = sets.keys().map(|set| &**set).collect();
    sqlx::query("DELETE FROM agent_sets WHERE agent = $1 AND domain <> ALL($2)")
        .bind(stream.agent.as_str())
        .bind(&names)
        .execute(&mut *transaction)
        .await?;
    let runs = || sets.values().map(|SetReport { runs, .. }| *runs);
    sqlx::query(include_str!("sql/claim_sets.sql"))
        .bind(stream.agent.as_str())
        .bind(&names)
        .bind(runs().map(|runs| runs.map_or(0, |(revision, _)| revision.cast_signed())).collect::<Vec<i64>>())
        .bind(runs().map(|runs| runs.map(|(_, hash)| hash.0.to_vec())).collect::<Vec<Option<Vec<u8>>>>())
        .execute(&mut *transaction)
        .await?;
    let sql = "SELECT domain, refused_revision, refused_hash, errors FROM agent_sets \
               WHERE agent = $1 AND refused_build = $2 AND NOT temporary AND refused_revision IS NOT NULL AND refused_hash IS NOT NULL";
    let refused: Vec<(String, i64, Vec<u8>, Vec<String>)> =
        sqlx::query_as(sql).bind(stream.agent.as_str()).bind(&stream.build).fetch_all(&mut *transaction).await?;
    transaction.commit().await?;
    let refused = refused.into_iter().filter_map(|(set, revision, hash, errors)| {
        let hash = SetHash(hash.try_into().ok()?);
        Some((set.into(), Refusal { revision: revision.unsigned_abs(), hash, errors, temporary: false }))
    });
    Ok(Claim::Granted(refused.collect()))
}

/// Forgets agents that have been away for longer than `kept`.
///
/// # Errors
/// The database is away.
pub async fn forget(pool: &PgPool, kept: Duration) -> sqlx::Result<u64> {
    Ok(sqlx::query("DELETE FROM agents WHERE last_seen < now() - make_interval(secs => $1)")
        .bind(kept.as_secs_f64())
        .execute(pool)
        .await?
        .rows_affected())
}
