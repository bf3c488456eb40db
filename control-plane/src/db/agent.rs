//! Agents, as far as revisions are concerned.

use sqlx::{FromRow, PgConnection};

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

/// How every agent that wants a set stands to it.
///
/// # Errors
/// The database's.
pub async fn standings(connection: &mut PgConnection, domain: &str) -> Result<Vec<Standing>, sqlx::Error> {
    let sql = "SELECT s.agent, s.revision, s.refused_revision, s.errors, a.connected_to IS NOT NULL AS connected \
               FROM agent_sets s JOIN agents a ON a.name = s.agent WHERE s.domain = $1 ORDER BY s.agent";
    sqlx::query_as(sql).bind(domain).fetch_all(connection).await
}
