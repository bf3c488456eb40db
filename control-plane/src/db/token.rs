//! Tokens.

use sqlx::{FromRow, PgConnection};
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use super::time::Time;
use crate::auth::{Principal, Role, token as text};

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The admin API.
    Api,
    /// An agent's stream.
    Agent,
}

impl Kind {
    /// The name in the API and the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Agent => "agent",
        }
    }
}

impl std::str::FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        [Self::Api, Self::Agent].into_iter().find(|kind| kind.as_str() == text).ok_or(UnknownKind)
    }
}

/// A text that names no kind of token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be api or agent")]
pub struct UnknownKind;

/// A stored token.
#[derive(Debug, Clone)]
pub struct Token {
    /// Its id.
    pub id: Uuid,
    /// Its name, unique.
    pub name: String,
    /// What it is for.
    pub kind: Kind,
    /// What it may do; only API tokens have a role.
    pub role: Option<Role>,
    /// Where it may; `None`: everywhere.
    pub domains: Option<Vec<String>>,
    /// When it was made.
    pub created_at: Time,
    /// When it ends.
    pub expires_at: Option<Time>,
    /// When it was last used, give or take a minute.
    pub last_used_at: Option<Time>,
}

impl Token {
    /// The principal behind an API token; `None` for an agent's.
    #[must_use]
    pub fn into_principal(self) -> Option<Principal> {
        let role = self.role.filter(|_| self.kind == Kind::Api)?;
        Some(Principal { name: self.name, role, domains: self.domains, token: Some(self.id), until: None })
    }
}

#[derive(FromRow)]
struct Row {
    id: Uuid,
    name: String,
    kind: String,
    role: Option<String>,
    domains: Option<Vec<String>>,
    created_at: Time,
    expires_at: Option<Time>,
    last_used_at: Option<Time>,
    hash: Vec<u8>,
}

impl From<Row> for Token {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            name: row.name,
            kind: if row.kind == Kind::Agent.as_str() { Kind::Agent } else { Kind::Api },
            role: row.role.and_then(|role| role.parse().ok()),
            domains: row.domains,
            created_at: row.created_at,
            expires_at: row.expires_at,
            last_used_at: row.last_used_at,
        }
    }
}

/// The token with that secret, unless it has expired. Notes its use, at most once a minute.
///
/// # Errors
/// The database's.
pub async fn find(connection: &mut PgConnection, secret: &str) -> Result<Option<Token>, sqlx::Error> {
    let hash = text::hash(secret);
    let sql = "SELECT id, name, kind, role, domains, created_at, expires_at, last_used_at, hash FROM tokens \
               WHERE hash = $1 AND (expires_at IS NULL OR expires_at > now())";
    let row: Option<Row> = sqlx::query_as(sql).bind(&hash[..]).fetch_optional(&mut *connection).await?;
    let Some(row) = row.filter(|row| bool::from(row.hash.ct_eq(&hash))) else { return Ok(None) };
    let used =
        "UPDATE tokens SET last_used_at = now() WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')";
    sqlx::query(used).bind(row.id).execute(connection).await?;
    Ok(Some(row.into()))
}

/// What a new token shall be.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Its name, unique.
    pub name: String,
    /// What it is for.
    pub kind: Kind,
    /// What it may do; for API tokens only.
    pub role: Option<Role>,
    /// Where it may; `None`: everywhere.
    pub domains: Option<Vec<String>>,
    /// When it ends; `None`: never.
    pub expires_at: Option<Time>,
    /// Who made it.
    pub created_by: String,
}

/// Stores a new token by its hash.
///
/// # Errors
/// The database's; a unique violation if the name is taken.
pub async fn insert(connection: &mut PgConnection, new: &NewToken, hash: &text::Hash) -> Result<Token, sqlx::Error> {
    let sql = include_str!("sql/insert_token.sql");
    let row: Row = sqlx::query_as(sql)
        .bind(Uuid::now_v7())
        .bind(&new.name)
        .bind(new.kind.as_str())
        .bind(new.role.map(Role::as_str))
        .bind(&new.domains)
        .bind(&hash[..])
        .bind(&new.created_by)
        .bind(new.expires_at)
        .fetch_one(connection)
        .await?;
    Ok(row.into())
}

/// One token.
///
/// # Errors
/// The database's.
pub async fn get(connection: &mut PgConnection, id: Uuid) -> Result<Option<Token>, sqlx::Error> {
    let sql = "SELECT id, name, kind, role, domains, created_at, expires_at, last_used_at, hash FROM tokens WHERE id = $1";
    let row: Option<Row> = sqlx::query_as(sql).bind(id).fetch_optional(connection).await?;
    Ok(row.map(Token::from))
}

/// Up to `limit` tokens, by name, after the name `after`.
///
/// # Errors
/// The database's.
pub async fn page(connection: &mut PgConnection, after: &str, limit: i64) -> Result<Vec<Token>, sqlx::Error> {
    let sql = "SELECT id, name, kind, role, domains, created_at, expires_at, last_used_at, hash FROM tokens \
               WHERE name > $1 ORDER BY name LIMIT $2";
    let rows: Vec<Row> = sqlx::query_as(sql).bind(after).bind(limit).fetch_all(connection).await?;
    Ok(rows.into_iter().map(Token::from).collect())
}

/// Deletes a token, and with it the sessions and sign-in codes that were made from it.
///
/// # Errors
/// The database's.
pub async fn delete(connection: &mut PgConnection, id: Uuid) -> Result<Option<Token>, sqlx::Error> {
    let sql = "DELETE FROM tokens WHERE id = $1 RETURNING id, name, kind, role, domains, created_at, expires_at, last_used_at, hash";
    let row: Option<Row> = sqlx::query_as(sql).bind(id).fetch_optional(connection).await?;
    Ok(row.map(Token::from))
}
