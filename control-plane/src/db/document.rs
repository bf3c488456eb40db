//! What operators wrote, as it stands now: domains, tiers, rules and shards.

use serde_json::Value;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection};
use weir_core::item::{Item, ItemKind};

use super::time::Time;

/// A document with its history's last entry.
#[derive(Debug, Clone, FromRow)]
pub struct Document {
    /// The domain; empty for shards.
    pub domain: String,
    /// `domain`, `tier`, `rule` or `shard`.
    pub kind: String,
    /// Its name, unique within domain and kind.
    pub name: String,
    /// What an operator wrote, in canonical form.
    pub body: Json<Value>,
    /// The revision that last changed it.
    pub revision: i64,
    /// When it was first written.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
    /// Who changed it last.
    pub updated_by: String,
}

impl Document {
    /// The document as an item, for reading it back.
    #[must_use]
    pub fn to_item(&self) -> Item {
        Item { kind: self.kind.clone(), name: self.name.clone(), body: self.body.to_string().into_bytes(), requires: Vec::new() }
    }
}

/// One document.
///
/// # Errors
/// The database's.
pub async fn get(connection: &mut PgConnection, domain: &str, kind: ItemKind, name: &str) -> Result<Option<Document>, sqlx::Error> {
    let sql = "SELECT domain, kind, name, body, revision, created_at, updated_at, updated_by FROM documents \
               WHERE domain = $1 AND kind = $2 AND name = $3";
    sqlx::query_as(sql).bind(domain).bind(kind.as_str()).bind(name).fetch_optional(connection).await
}

/// All documents of a set.
///
/// # Errors
/// The database's.
pub async fn all(connection: &mut PgConnection, domain: &str) -> Result<Vec<Document>, sqlx::Error> {
    let sql = "SELECT domain, kind, name, body, revision, created_at, updated_at, updated_by FROM documents \
               WHERE domain = $1 ORDER BY kind, name";
    sqlx::query_as(sql).bind(domain).fetch_all(connection).await
}

/// Up to `limit` documents of one kind in `domain`, by name, after the name `after`.
///
/// # Errors
/// The database's.
pub async fn page(
    connection: &mut PgConnection,
    domain: &str,
    kind: ItemKind,
    after: &str,
    limit: i64,
) -> Result<Vec<Document>, sqlx::Error> {
    let sql = "SELECT domain, kind, name, body, revision, created_at, updated_at, updated_by FROM documents \
               WHERE domain = $1 AND kind = $2 AND name > $3 ORDER BY name LIMIT $4";
    sqlx::query_as(sql).bind(domain).bind(kind.as_str()).bind(after).bind(limit).fetch_all(connection).await
}

/// Up to `limit` domains (of `among`, if given), by name, after the name `after`.
///
/// # Errors
/// The database's.
pub async fn domains(
    connection: &mut PgConnection,
    among: Option<&[String]>,
    after: &str,
    limit: i64,
) -> Result<Vec<Document>, sqlx::Error> {
    let sql = "SELECT domain, kind, name, body, revision, created_at, updated_at, updated_by FROM documents \
               WHERE kind = 'domain' AND name > $1 AND ($2::text[] IS NULL OR name = ANY ($2)) ORDER BY name LIMIT $3";
    sqlx::query_as(sql).bind(after).bind(among).bind(limit).fetch_all(connection).await
}

/// Up to `limit` rules of all domains, each with its domain.
///
/// # Errors
/// The database's.
pub async fn some_rules(connection: &mut PgConnection, limit: i64) -> Result<Vec<(String, String)>, sqlx::Error> {
    sqlx::query_as("SELECT domain, name FROM documents WHERE kind = 'rule' ORDER BY domain, name LIMIT $1")
        .bind(limit)
        .fetch_all(connection)
        .await
}
