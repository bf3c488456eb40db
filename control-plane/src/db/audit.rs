//! Who changed what. Entries are only ever added, in the transaction of the change itself.

use serde_json::Value;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection};

use super::publish::Change;
use super::time::Time;

/// An entry of the audit.
#[derive(Debug, Clone, FromRow)]
pub struct Entry {
    /// Its number; later entries have higher ones.
    pub id: i64,
    /// When.
    pub at: Time,
    /// Who.
    pub author: String,
    /// In which domain; empty: in none.
    pub domain: String,
    /// What kind of thing.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// `create`, `update`, `delete`, `sign_in`, ...
    pub action: String,
    /// The document before.
    pub before: Option<Json<Value>>,
    /// The document after.
    pub after: Option<Json<Value>>,
    /// The revision that the change was published as.
    pub revision: Option<i64>,
}

/// Adds one entry per change.
///
/// # Errors
/// The database's.
pub async fn insert(
    transaction: &mut PgConnection,
    domain: &str,
    revision: Option<u64>,
    changes: &[Change],
    author: &str,
) -> Result<(), sqlx::Error> {
    let text = |value: &Option<Value>| value.as_ref().map(Value::to_string);
    let sql = include_str!("sql/insert_audit.sql");
    sqlx::query(sql)
        .bind(author)
        .bind(domain)
        .bind(revision.map(u64::cast_signed))
        .bind(changes.iter().map(|c| c.kind.as_str()).collect::<Vec<_>>())
        .bind(changes.iter().map(|c| c.name.as_str()).collect::<Vec<_>>())
        .bind(changes.iter().map(|c| c.action.as_str()).collect::<Vec<_>>())
        .bind(changes.iter().map(|c| text(&c.before)).collect::<Vec<_>>())
        .bind(changes.iter().map(|c| text(&c.after)).collect::<Vec<_>>())
        .execute(transaction)
        .await?;
    Ok(())
}

/// Which entries are wanted; an absent part: any.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter<'a> {
    /// Of these domains only (a principal's scope).
    pub among: Option<&'a [String]>,
    /// In this domain.
    pub domain: Option<&'a str>,
    /// Of this kind.
    pub kind: Option<&'a str>,
    /// Of this name.
    pub name: Option<&'a str>,
}

/// Up to `limit` entries, newest first, before the entry `before`.
///
/// # Errors
/// The database's.
pub async fn page(connection: &mut PgConnection, filter: Filter<'_>, before: i64, limit: i64) -> Result<Vec<Entry>, sqlx::Error> {
    let sql = include_str!("sql/page_of_audit.sql");
    sqlx::query_as(sql)
        .bind(before)
        .bind(filter.among)
        .bind(filter.domain)
        .bind(filter.kind)
        .bind(filter.name)
        .bind(limit)
        .fetch_all(connection)
        .await
}
