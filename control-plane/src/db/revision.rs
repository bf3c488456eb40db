//! Published revisions: immutable, the newest 1,000 of each set.

use std::collections::HashMap;

use serde_json::Value;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, PgPool};
use weir_core::item::Item;

use super::publish::{Change, Note};
use super::set::Head;
use super::time::Time;

/// How many revisions of a set are kept.
pub const KEPT: u64 = 1_000;
/// Advisory lock that keeps the removal of unused items away from writers that are about to use them. The number is arbitrary.
const ITEMS_LOCK: i64 = 0x5745_4952_0001;

/// A published revision.
#[derive(Debug, Clone, FromRow)]
pub struct Revision {
    /// The domain; empty for the ring.
    pub domain: String,
    /// Its number.
    pub revision: i64,
    /// The hash of its items.
    pub hash: Vec<u8>,
    /// When it was published.
    pub created_at: Time,
    /// Who published it.
    pub author: String,
    /// What it is about.
    pub summary: String,
    /// `[{"kind", "name", "action"}]`
    pub changes: Json<Value>,
}

/// One revision, if it is kept.
///
/// # Errors
/// The database's.
pub async fn get(connection: &mut PgConnection, domain: &str, revision: i64) -> Result<Option<Revision>, sqlx::Error> {
    let sql = "SELECT domain, revision, hash, created_at, author, summary, changes FROM revisions WHERE domain = $1 AND revision = $2";
    sqlx::query_as(sql).bind(domain).bind(revision).fetch_optional(connection).await
}

/// Up to `limit` revisions, newest first, before the revision `before`.
///
/// # Errors
/// The database's.
pub async fn page(connection: &mut PgConnection, domain: &str, before: i64, limit: i64) -> Result<Vec<Revision>, sqlx::Error> {
    let sql = "SELECT domain, revision, hash, created_at, author, summary, changes FROM revisions \
               WHERE domain = $1 AND revision < $2 ORDER BY revision DESC LIMIT $3";
    sqlx::query_as(sql).bind(domain).bind(before).bind(limit).fetch_all(connection).await
}

/// The items that a revision of a set holds. Empty for a revision that is not kept any more, or not there yet.
///
/// # Errors
/// The database's.
pub async fn items(connection: &mut PgConnection, domain: &str, revision: u64) -> Result<Vec<Item>, sqlx::Error> {
    let sql = include_str!("sql/items_of_revision.sql");
    let rows: Vec<(String, String, Vec<u8>, Vec<String>)> =
        sqlx::query_as(sql).bind(domain).bind(revision.cast_signed()).fetch_all(connection).await?;
    Ok(rows.into_iter().map(|(kind, name, body, requires)| Item { kind, name, body, requires }).collect())
}

/// Adds the revision `next`, whose content is `new`, after `head`.
///
/// # Errors
/// The database's.
pub(super) async fn insert(
    transaction: &mut PgConnection,
    head: &Head,
    next: &Head,
    new: &[Item],
    changes: &[Change],
    note: Note<'_>,
) -> Result<(), sqlx::Error> {
    let listed: Vec<Value> = changes.iter().map(|c| serde_json::json!({ "kind": c.kind, "name": c.name, "action": c.action })).collect();
    sqlx::query("INSERT INTO revisions (domain, revision, hash, author, summary, changes) VALUES ($1, $2, $3, $4, $5, $6)")
        .bind(&next.domain)
        .bind(next.revision.cast_signed())
        .bind(&next.hash.0[..])
        .bind(note.author)
        .bind(note.summary)
        .bind(Json(listed))
        .execute(&mut *transaction)
        .await?;
    let old = current(transaction, &head.domain).await?;
    let added: Vec<&Item> =
        new.iter().filter(|item| old.get(&key(item)).is_none_or(|o| *o != (item.hash().to_vec(), item.requires.clone()))).collect();
    let same: std::collections::HashSet<_> = new.iter().map(key).collect();
    let gone = old.keys().filter(|k| !same.contains(*k)).cloned();
    let ended: Vec<(String, String)> = gone.chain(added.iter().map(|item| key(item))).collect();
    end_items(transaction, next, &ended).await?;
    add_items(transaction, next, &added).await
}

fn key(item: &Item) -> (String, String) {
    (item.kind.clone(), item.name.clone())
}

type Current = HashMap<(String, String), (Vec<u8>, Vec<String>)>;

async fn current(connection: &mut PgConnection, domain: &str) -> Result<Current, sqlx::Error> {
    let sql = "SELECT kind, name, hash, requires FROM revision_items WHERE domain = $1 AND until_revision IS NULL";
    let rows: Vec<(String, String, Vec<u8>, Vec<String>)> = sqlx::query_as(sql).bind(domain).fetch_all(connection).await?;
    Ok(rows.into_iter().map(|(kind, name, hash, requires)| ((kind, name), (hash, requires))).collect())
}

async fn end_items(transaction: &mut PgConnection, next: &Head, ended: &[(String, String)]) -> Result<(), sqlx::Error> {
    let (kinds, names): (Vec<&str>, Vec<&str>) = ended.iter().map(|(kind, name)| (kind.as_str(), name.as_str())).unzip();
    let sql = include_str!("sql/end_items.sql");
    sqlx::query(sql).bind(&next.domain).bind(next.revision.cast_signed()).bind(kinds).bind(names).execute(transaction).await?;
    Ok(())
}

async fn add_items(transaction: &mut PgConnection, next: &Head, added: &[&Item]) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT pg_advisory_xact_lock_shared($1)").bind(ITEMS_LOCK).execute(&mut *transaction).await?;
    let hashes: Vec<Vec<u8>> = added.iter().map(|item| item.hash().to_vec()).collect();
    let bodies: Vec<&[u8]> = added.iter().map(|item| item.body.as_slice()).collect();
    let sql = "INSERT INTO items (hash, body) SELECT * FROM unnest($1::bytea[], $2::bytea[]) ON CONFLICT (hash) DO NOTHING";
    sqlx::query(sql).bind(&hashes).bind(bodies).execute(&mut *transaction).await?;
    // Postgres has no ragged arrays; features are words without spaces.
    let requires: Vec<String> = added.iter().map(|item| item.requires.join(" ")).collect();
    let sql = include_str!("sql/add_items.sql");
    sqlx::query(sql)
        .bind(&next.domain)
        .bind(next.revision.cast_signed())
        .bind(added.iter().map(|item| item.kind.as_str()).collect::<Vec<_>>())
        .bind(added.iter().map(|item| item.name.as_str()).collect::<Vec<_>>())
        .bind(&hashes)
        .bind(requires)
        .execute(transaction)
        .await?;
    Ok(())
}

/// Removes what is older than the newest [`KEPT`] revisions of a set, and the items that no revision holds any more. Does nothing while
/// another process does the same or writes: the next write tries again.
///
/// # Errors
/// The database's.
pub async fn prune(pool: &PgPool, domain: &str, newest: u64) -> Result<(), sqlx::Error> {
    let Some(last_gone) = newest.checked_sub(KEPT).filter(|last| *last > 0).map(u64::cast_signed) else { return Ok(()) };
    let mut transaction = pool.begin().await?;
    let alone: bool = sqlx::query_scalar("SELECT pg_try_advisory_xact_lock($1)").bind(ITEMS_LOCK).fetch_one(&mut *transaction).await?;
    if !alone {
        return Ok(());
    }
    sqlx::query("DELETE FROM revisions WHERE domain = $1 AND revision <= $2")
        .bind(domain)
        .bind(last_gone)
        .execute(&mut *transaction)
        .await?;
    // An item that ended at the oldest kept revision or before is in none of those kept.
    let sql = "WITH gone AS (DELETE FROM revision_items WHERE domain = $1 AND until_revision <= $2 + 1 RETURNING hash) \
               SELECT DISTINCT hash FROM gone";
    let hashes: Vec<Vec<u8>> = sqlx::query_scalar(sql).bind(domain).bind(last_gone).fetch_all(&mut *transaction).await?;
    let sql = "DELETE FROM items i WHERE hash = ANY ($1) AND NOT EXISTS (SELECT FROM revision_items r WHERE r.hash = i.hash)";
    sqlx::query(sql).bind(hashes).execute(&mut *transaction).await?;
    transaction.commit().await
}
