//! Dashboard sessions.

use sqlx::PgConnection;

use crate::auth::{Principal, token::Hash};

/// The principal of a session, unless it has ended.
///
/// # Errors
/// The database's.
pub async fn find(connection: &mut PgConnection, hash: &Hash) -> Result<Option<Principal>, sqlx::Error> {
    let sql = "SELECT name, role, domains, token_id FROM sessions WHERE hash = $1 AND expires_at > now()";
    let row: Option<(String, String, Option<Vec<String>>, Option<uuid::Uuid>)> =
        sqlx::query_as(sql).bind(&hash[..]).fetch_optional(connection).await?;
    Ok(row.and_then(|(name, role, domains, token)| Some(Principal { name, role: role.parse().ok()?, domains, token })))
}
