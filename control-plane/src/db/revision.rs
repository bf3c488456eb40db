//! Published revisions: what they hold.

use sqlx::PgConnection;
use weir_core::item::Item;

/// The items that a revision of a set holds. Empty for a revision that is not kept any more, or not there yet.
///
/// # Errors
/// The database's.
pub async fn items(connection: &mut PgConnection, domain: &str, revision: u64) -> Result<Vec<Item>, sqlx::Error> {
    let sql = "SELECT r.kind, r.name, i.body, r.requires FROM revision_items r JOIN items i USING (hash) \
               WHERE r.domain = $1 AND r.from_revision <= $2 AND (r.until_revision IS NULL OR r.until_revision > $2) ORDER BY r.kind, r.name";
    let rows: Vec<(String, String, Vec<u8>, Vec<String>)> =
        sqlx::query_as(sql).bind(domain).bind(revision.cast_signed()).fetch_all(connection).await?;
    Ok(rows.into_iter().map(|(kind, name, body, requires)| Item { kind, name, body, requires }).collect())
}
