//! Sets: what is published as a whole. The rules of a domain, or the ring (whose domain is the empty text).

use sqlx::PgConnection;
use weir_core::item::SetHash;

/// The domain of the ring.
pub const RING: &str = "";

/// The newest revision of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The domain; empty for the ring.
    pub domain: String,
    /// The newest revision; 0: none yet.
    pub revision: u64,
    /// The hash of its items.
    pub hash: SetHash,
}

type Row = (String, i64, Vec<u8>);

impl TryFrom<Row> for Head {
    type Error = sqlx::Error;

    fn try_from((domain, revision, hash): Row) -> Result<Self, sqlx::Error> {
        let hash = hash.as_slice().try_into().map(SetHash).map_err(|e| sqlx::Error::Decode(Box::new(e)))?;
        Ok(Self { domain, revision: revision.unsigned_abs(), hash })
    }
}

/// The newest revision of every set, the ring included.
///
/// # Errors
/// The database's.
pub async fn heads(connection: &mut PgConnection) -> Result<Vec<Head>, sqlx::Error> {
    let rows: Vec<Row> = sqlx::query_as("SELECT domain, revision, hash FROM sets ORDER BY domain").fetch_all(connection).await?;
    rows.into_iter().map(Head::try_from).collect()
}

/// The newest revision of one set; `None`: there is no such domain.
///
/// # Errors
/// The database's.
pub async fn head(connection: &mut PgConnection, domain: &str) -> Result<Option<Head>, sqlx::Error> {
    let row: Option<Row> =
        sqlx::query_as("SELECT domain, revision, hash FROM sets WHERE domain = $1").bind(domain).fetch_optional(connection).await?;
    row.map(Head::try_from).transpose()
}

/// Locks a set until the end of the transaction, so that its revisions are written one after the other. Makes it if it is new.
///
/// # Errors
/// The database's.
pub async fn lock(transaction: &mut PgConnection, domain: &str) -> Result<Head, sqlx::Error> {
    let sql = "INSERT INTO sets (domain, hash) VALUES ($1, sha256('')) ON CONFLICT (domain) DO NOTHING";
    sqlx::query(sql).bind(domain).execute(&mut *transaction).await?;
    let sql = "SELECT domain, revision, hash FROM sets WHERE domain = $1 FOR UPDATE";
    let row: Row = sqlx::query_as(sql).bind(domain).fetch_one(transaction).await?;
    Head::try_from(row)
}
