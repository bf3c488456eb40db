//! The write transaction: rows, revision, audit and NOTIFY together, or none of them.
//!
//! The caller has locked the set ([`super::set::lock`]) and brings the whole new content, valid as a whole. What differs from the
//! content before becomes a new revision; nothing differs: no revision.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use sqlx::PgConnection;
use weir_core::item::{Item, SetHash};

use super::document::Document;
use super::set::Head;
use super::{audit, revision};

/// What happened to a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It is new.
    Create,
    /// It is different.
    Update,
    /// It is gone.
    Delete,
    /// Somebody signed in; only in the audit.
    SignIn,
}

impl Action {
    /// The name in the API and the audit.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::SignIn => "sign_in",
        }
    }
}

/// One changed document.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = Change)]
pub struct Change {
    /// `domain`, `tier`, `rule` or `shard`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What happened to it.
    pub action: Action,
    /// The document before; null where there was none.
    pub before: Option<Value>,
    /// The document after; null where there is none.
    pub after: Option<Value>,
}

/// What a write did.
#[derive(Debug, Clone)]
pub struct Published {
    /// The newest revision of the set: the new one, or the old one where nothing changed.
    pub revision: u64,
    /// What changed; empty: nothing.
    pub changes: Vec<Change>,
}

/// Who writes, and what it is about.
#[derive(Debug, Clone, Copy)]
pub struct Note<'a> {
    /// The author, as in the audit.
    pub author: &'a str,
    /// One line for people.
    pub summary: &'a str,
}

/// Writes `new` as the content of the locked set, which was `before`. `touched` counts as updated though its document is the same, since
/// something that belongs to it and is kept elsewhere (credentials) changed.
///
/// # Errors
/// The database's.
pub async fn publish(
    transaction: &mut PgConnection,
    head: &Head,
    before: &[Document],
    new: &[Item],
    touched: Option<&str>,
    note: Note<'_>,
) -> Result<Published, sqlx::Error> {
    let changes = changes(before, new, touched);
    if changes.is_empty() && head.revision > 0 {
        return Ok(Published { revision: head.revision, changes });
    }
    let next = Head { domain: head.domain.clone(), revision: head.revision + 1, hash: SetHash::of(new) };
    revision::insert(transaction, head, &next, new, &changes, note).await?;
    write_documents(transaction, &next, &changes, note.author).await?;
    audit::insert(transaction, &next.domain, Some(next.revision), &changes, note.author).await?;
    sqlx::query("UPDATE sets SET revision = $2, hash = $3, updated_at = now() WHERE domain = $1")
        .bind(&next.domain)
        .bind(next.revision.cast_signed())
        .bind(&next.hash.0[..])
        .execute(&mut *transaction)
        .await?;
    sqlx::query("SELECT pg_notify($1, $2)").bind(super::REVISION_CHANNEL).bind(&next.domain).execute(transaction).await?;
    Ok(Published { revision: next.revision, changes })
}

/// Removes a domain's documents. Its last revision, which has no rules, stays with the agents that have it.
///
/// # Errors
/// The database's.
pub async fn remove_domain(
    transaction: &mut PgConnection,
    head: &Head,
    before: &[Document],
    author: &str,
) -> Result<Published, sqlx::Error> {
    let changes = changes(before, &[], None);
    // Its alerts too: a domain of the same name that is made later is another one.
    for sql in [
        "DELETE FROM documents WHERE domain = $1",
        "DELETE FROM alert_deliveries WHERE domain = $1",
        "DELETE FROM alerts WHERE domain = $1",
    ] {
        sqlx::query(sql).bind(&head.domain).execute(&mut *transaction).await?;
    }
    audit::insert(transaction, &head.domain, None, &changes, author).await?;
    Ok(Published { revision: head.revision, changes })
}

/// What differs, by kind and name.
fn changes(before: &[Document], new: &[Item], touched: Option<&str>) -> Vec<Change> {
    type Sides = (Option<Value>, Option<Value>);
    let mut sides: BTreeMap<(&str, &str), Sides> = BTreeMap::new();
    for document in before {
        sides.entry((&document.kind, &document.name)).or_default().0 = Some(document.body.0.clone());
    }
    for item in new {
        sides.entry((&item.kind, &item.name)).or_default().1 = serde_json::from_slice(&item.body).ok();
    }
    let changed = sides.into_iter().filter(|((_, name), (before, after))| before != after || touched == Some(*name));
    changed
        .map(|((kind, name), (before, after))| {
            let action = match (&before, &after) {
                (None, _) => Action::Create,
                (_, None) => Action::Delete,
                _ => Action::Update,
            };
            Change { kind: kind.to_owned(), name: name.to_owned(), action, before, after }
        })
        .collect()
}

async fn write_documents(transaction: &mut PgConnection, next: &Head, changes: &[Change], author: &str) -> Result<(), sqlx::Error> {
    let (gone, kept): (Vec<&Change>, Vec<&Change>) = changes.iter().partition(|c| c.action == Action::Delete);
    let sql = "DELETE FROM documents d USING unnest($2::text[], $3::text[]) AS gone (kind, name) \
               WHERE d.domain = $1 AND d.kind = gone.kind AND d.name = gone.name";
    sqlx::query(sql)
        .bind(&next.domain)
        .bind(column(&gone, |c| &c.kind))
        .bind(column(&gone, |c| &c.name))
        .execute(&mut *transaction)
        .await?;
    let bodies: Vec<String> = kept.iter().filter_map(|c| c.after.as_ref()).map(Value::to_string).collect();
    let sql = include_str!("sql/put_documents.sql");
    sqlx::query(sql)
        .bind(&next.domain)
        .bind(column(&kept, |c| &c.kind))
        .bind(column(&kept, |c| &c.name))
        .bind(bodies)
        .bind(next.revision.cast_signed())
        .bind(author)
        .execute(transaction)
        .await?;
    Ok(())
}

fn column<'c>(changes: &[&'c Change], part: fn(&'c Change) -> &'c String) -> Vec<&'c str> {
    changes.iter().map(|c| part(c).as_str()).collect()
}
