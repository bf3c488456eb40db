//! Secrets: read by push, sent to agents in a message of their own, and nowhere else.

use sqlx::PgConnection;

/// The secret that counter keys are hashed with. Made once, at first use.
const HASH_SECRET: &str = "hash_secret";
/// The key that page tokens are signed with.
const PAGE_KEY: &str = "page_key";
/// First byte of a value that is stored as it is.
const PLAIN: u8 = 0;

/// What agents need to log in to a shard.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The shard.
    pub shard: String,
    /// The ACL user.
    pub username: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// The user that the sentinels ask for which know the shard.
    pub sentinel_username: Option<String>,
    /// The password that they ask for.
    pub sentinel_password: Option<String>,
}

impl Credentials {
    /// None at all, for this shard.
    #[must_use]
    pub fn none(shard: String) -> Self {
        Self { shard, ..Self::default() }
    }

    /// Whether nothing is needed.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::none(self.shard.clone())
    }
}

/// The secret that counter keys are hashed with; the same for ever, or all counters start anew.
///
/// # Errors
/// The database's.
pub async fn hash_secret(connection: &mut PgConnection) -> Result<[u8; 32], sqlx::Error> {
    get_or_make(connection, HASH_SECRET).await
}

/// The key that page tokens are signed with, the same in all replicas.
///
/// # Errors
/// The database's.
pub async fn page_key(connection: &mut PgConnection) -> Result<[u8; 32], sqlx::Error> {
    get_or_make(connection, PAGE_KEY).await
}

async fn get_or_make(connection: &mut PgConnection, name: &str) -> Result<[u8; 32], sqlx::Error> {
    let fresh = encode(&rand::random::<[u8; 32]>());
    sqlx::query("INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING")
        .bind(name)
        .bind(fresh)
        .execute(&mut *connection)
        .await?;
    let value: Vec<u8> = sqlx::query_scalar("SELECT value FROM secrets WHERE name = $1").bind(name).fetch_one(connection).await?;
    decode(&value)?.try_into().map_err(|_| sqlx::Error::Decode("a secret has the wrong length".into()))
}

/// The credentials of all shards that have some.
///
/// # Errors
/// The database's.
pub async fn credentials(connection: &mut PgConnection) -> Result<Vec<Credentials>, sqlx::Error> {
    type Row = (String, Option<Vec<u8>>, Option<Vec<u8>>, Option<Vec<u8>>, Option<Vec<u8>>);
    let sql = "SELECT shard, username, password, sentinel_username, sentinel_password FROM shard_credentials ORDER BY shard";
    let rows: Vec<Row> = sqlx::query_as(sql).fetch_all(connection).await?;
    let text = |value: Option<Vec<u8>>| value.map(|v| decode(&v).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())).transpose();
    rows.into_iter()
        .map(|(shard, username, password, sentinel_username, sentinel_password)| {
            let (username, password) = (text(username)?, text(password)?);
            let (sentinel_username, sentinel_password) = (text(sentinel_username)?, text(sentinel_password)?);
            Ok(Credentials { shard, username, password, sentinel_username, sentinel_password })
        })
        .collect()
}

/// The credentials of one shard.
///
/// # Errors
/// The database's.
pub async fn credentials_of(connection: &mut PgConnection, shard: &str) -> Result<Option<Credentials>, sqlx::Error> {
    Ok(credentials(connection).await?.into_iter().find(|c| c.shard == shard))
}

/// Stores the credentials of a shard, and tells agents' streams; none at all: removes them.
///
/// # Errors
/// The database's.
pub async fn put_credentials(transaction: &mut PgConnection, new: &Credentials) -> Result<(), sqlx::Error> {
    if new.is_none() {
        sqlx::query("DELETE FROM shard_credentials WHERE shard = $1").bind(&new.shard).execute(&mut *transaction).await?;
    } else {
        let encoded = |text: &Option<String>| text.as_ref().map(|t| encode(t.as_bytes()));
        let sql = include_str!("sql/put_credentials.sql");
        let query = sqlx::query(sql).bind(&new.shard).bind(encoded(&new.username)).bind(encoded(&new.password));
        let query = query.bind(encoded(&new.sentinel_username)).bind(encoded(&new.sentinel_password));
        query.execute(&mut *transaction).await?;
    }
    sqlx::query("SELECT pg_notify($1, '')").bind(super::SECRETS_CHANNEL).execute(transaction).await?;
    Ok(())
}

fn encode(value: &[u8]) -> Vec<u8> {
    [&[PLAIN], value].concat()
}

fn decode(value: &[u8]) -> Result<Vec<u8>, sqlx::Error> {
    match value.split_first() {
        Some((&PLAIN, rest)) => Ok(rest.to_vec()),
        _ => Err(sqlx::Error::Decode("a secret is stored in a way that this build does not know".into())),
    }
}
