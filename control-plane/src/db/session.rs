//! Dashboard sessions, and the single-use codes of sign-in links. Both are kept by hash only.

use std::time::Duration;

use sqlx::{FromRow, PgConnection};
use uuid::Uuid;

use super::time::Time;
use crate::auth::{Principal, token::Hash};

#[derive(FromRow)]
struct Row {
    name: String,
    role: String,
    domains: Option<Vec<String>>,
    token_id: Option<Uuid>,
    until: Option<Time>,
}

impl Row {
    fn into_principal(self) -> Option<Principal> {
        Some(Principal { name: self.name, role: self.role.parse().ok()?, domains: self.domains, token: self.token_id, until: self.until })
    }
}

/// The principal of a session, unless it has ended.
///
/// # Errors
/// The database's.
pub async fn find(connection: &mut PgConnection, hash: &Hash) -> Result<Option<Principal>, sqlx::Error> {
    let sql = "SELECT name, role, domains, token_id, CASE WHEN token_id IS NULL THEN expires_at END AS until \
               FROM sessions WHERE hash = $1 AND expires_at > now()";
    let row: Option<Row> = sqlx::query_as(sql).bind(&hash[..]).fetch_optional(connection).await?;
    Ok(row.and_then(Row::into_principal))
}

/// Begins a session, and forgets those that have ended.
///
/// # Errors
/// The database's.
pub async fn insert(connection: &mut PgConnection, hash: &Hash, who: &Principal, lifetime: Duration) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM sessions WHERE expires_at <= now()").execute(&mut *connection).await?;
    let sql = include_str!("sql/insert_session.sql");
    let insert = sqlx::query(sql).bind(&hash[..]).bind(&who.name).bind(who.role.as_str()).bind(&who.domains).bind(who.token);
    insert.bind(lifetime.as_secs_f64()).bind(who.until).execute(connection).await?;
    Ok(())
}

/// Ends a session.
///
/// # Errors
/// The database's.
pub async fn delete(connection: &mut PgConnection, hash: &Hash) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM sessions WHERE hash = $1").bind(&hash[..]).execute(connection).await?;
    Ok(())
}

/// Stores a sign-in code, forgets those that are over, and says when it ends.
///
/// # Errors
/// The database's.
pub async fn insert_code(connection: &mut PgConnection, hash: &Hash, who: &Principal, lifetime: Duration) -> Result<Time, sqlx::Error> {
    sqlx::query("DELETE FROM sign_in_codes WHERE expires_at <= now()").execute(&mut *connection).await?;
    let sql = "INSERT INTO sign_in_codes (hash, name, role, domains, token_id, until, expires_at) \
               VALUES ($1, $2, $3, $4, $5, $6, now() + make_interval(secs => $7)) RETURNING expires_at";
    let insert = sqlx::query_scalar(sql).bind(&hash[..]).bind(&who.name).bind(who.role.as_str()).bind(&who.domains).bind(who.token);
    insert.bind(who.until).bind(lifetime.as_secs_f64()).fetch_one(connection).await
}

/// Uses a sign-in code up; `None`: there is no such code, or it is over.
///
/// # Errors
/// The database's.
pub async fn take_code(connection: &mut PgConnection, hash: &Hash) -> Result<Option<Principal>, sqlx::Error> {
    let sql = "DELETE FROM sign_in_codes WHERE hash = $1 AND expires_at > now() RETURNING name, role, domains, token_id, until";
    let row: Option<Row> = sqlx::query_as(sql).bind(&hash[..]).fetch_optional(connection).await?;
    Ok(row.and_then(Row::into_principal))
}
