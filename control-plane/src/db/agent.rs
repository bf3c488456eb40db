//! Agents: as the push service last wrote them ([`crate::push::record`]).

use sqlx::types::Json;
use sqlx::{FromRow, PgConnection};

use super::time::Time;
use crate::push::DEAD_AFTER;
use crate::push::report::ShardReport;

/// An agent.
#[derive(Debug, Clone, FromRow)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// Whether its stream is open and it said something lately.
    pub connected: bool,
    /// Version of its build.
    pub build: String,
    /// Version of its time-zone database; empty: it does not say.
    pub time_zones: String,
    /// Random per start of its process.
    pub boot: String,
    /// The name of its token; `None`: the token is gone.
    pub token: Option<String>,
    /// When it said something last.
    pub last_seen: Time,
    /// Since when its stream is open.
    pub connected_since: Option<Time>,
    /// What went wrong last.
    pub last_error: String,
    /// Problems that it reports.
    pub warnings: Vec<String>,
    /// How it sees its shards.
    pub shards: Json<Vec<ShardReport>>,
    /// Decisions per second of late.
    pub decisions_per_second: f64,
    /// Age of its rules while it had no control plane.
    pub stale_seconds: i64,
    /// Events it lost.
    pub dropped_events: i64,
}

/// What an agent has of one set.
#[derive(Debug, Clone, FromRow)]
pub struct AgentSet {
    /// The agent.
    pub agent: String,
    /// The set's domain; empty for the ring.
    pub domain: String,
    /// What it runs; 0: nothing yet.
    pub revision: i64,
    /// The hash of what it runs.
    pub hash: Option<Vec<u8>>,
    /// The newest revision of the set; `None`: there is no such domain.
    pub latest: Option<i64>,
    /// Whether it runs the newest content.
    pub is_latest: bool,
    /// Whether it refused the newest content.
    pub refused_latest: bool,
    /// Why it refused what it refused last.
    pub errors: Vec<String>,
}

/// How an agent stands to a set.
#[derive(Debug, Clone, FromRow)]
pub struct Standing {
    /// The agent.
    pub agent: String,
    /// The revision that it runs; 0: none.
    pub revision: i64,
    /// The revision that it refused last.
    pub refused_revision: Option<i64>,
    /// Why it refused.
    pub errors: Vec<String>,
    /// Whether it is connected.
    pub connected: bool,
}

/// Which agents; an absent part: any.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter<'a> {
    /// Those that serve one of these domains (a principal's scope).
    pub among: Option<&'a [String]>,
    /// Those that serve this domain.
    pub domain: Option<&'a str>,
    /// The one of this name.
    pub name: Option<&'a str>,
}

/// Up to `limit` agents by name, after a name.
///
/// # Errors
/// The database's.
pub async fn page(connection: &mut PgConnection, filter: Filter<'_>, after: &str, limit: i64) -> Result<Vec<Agent>, sqlx::Error> {
    sqlx::query_as(include_str!("sql/agents.sql"))
        .bind(DEAD_AFTER.as_secs_f64())
        .bind(filter.among)
        .bind(filter.domain)
        .bind(filter.name)
        .bind(after)
        .bind(limit)
        .fetch_all(connection)
        .await
}

/// What these agents have of each set.
///
/// # Errors
/// The database's.
pub async fn sets(connection: &mut PgConnection, agents: &[&str]) -> Result<Vec<AgentSet>, sqlx::Error> {
    let sql = include_str!("sql/sets_of_agents.sql");
    sqlx::query_as(sql).bind(agents).fetch_all(connection).await
}

/// Something that connected agents find amiss with a shard.
#[derive(Debug, Clone, FromRow)]
pub struct ShardWarning {
    /// The shard.
    pub shard: String,
    /// A stable name of what is amiss.
    pub code: String,
    /// In words.
    pub text: String,
    /// How many agents say so.
    pub agents: i64,
}

/// What connected agents find amiss with all shards, or with one.
///
/// # Errors
/// The database's.
pub async fn shard_warnings(connection: &mut PgConnection, shard: Option<&str>) -> Result<Vec<ShardWarning>, sqlx::Error> {
    let sql = include_str!("sql/shard_warnings.sql");
    sqlx::query_as(sql).bind(DEAD_AFTER.as_secs_f64()).bind(shard).fetch_all(connection).await
}

/// How every agent that wants a set stands to it.
///
/// # Errors
/// The database's.
pub async fn standings(connection: &mut PgConnection, domain: &str) -> Result<Vec<Standing>, sqlx::Error> {
    let sql = include_str!("sql/standings.sql");
    sqlx::query_as(sql).bind(domain).bind(DEAD_AFTER.as_secs_f64()).fetch_all(connection).await
}

/// Forgets an agent, if it is not connected; whether it is forgotten now.
///
/// # Errors
/// The database's.
pub async fn delete(connection: &mut PgConnection, name: &str) -> Result<bool, sqlx::Error> {
    let sql = "DELETE FROM agents WHERE name = $1 AND (stream IS NULL OR last_seen <= now() - make_interval(secs => $2))";
    let done = sqlx::query(sql).bind(name).bind(DEAD_AFTER.as_secs_f64()).execute(connection).await?;
    Ok(done.rows_affected() > 0)
}
