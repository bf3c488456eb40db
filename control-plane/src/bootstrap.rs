//! What is done directly on the database, before anybody can sign in.

use secrecy::SecretString;
use sqlx::PgPool;

use crate::auth::{Principal, Role, token as text};
use crate::db;
use crate::db::publish::{Action, Change};
use crate::db::token::NewToken;
use crate::http::session;
use crate::settings::Settings;

/// Why it failed.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// The database is away, or refused.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
    /// The schema could not be brought up to date.
    #[error("database schema: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// The name is taken.
    #[error("there is a token {0:?} already")]
    Taken(String),
}

/// Makes a token.
///
/// # Errors
/// The database is away, or the name is taken.
pub async fn token(settings: &Settings, new: &NewToken) -> Result<SecretString, BootstrapError> {
    let pool = ready(settings).await?;
    create_token(&pool, new).await
}

/// Makes a token, with its entry in the audit.
pub(crate) async fn create_token(pool: &PgPool, new: &NewToken) -> Result<SecretString, BootstrapError> {
    let secret = text::generate();
    let mut transaction = pool.begin().await?;
    let inserted = db::token::insert(&mut transaction, new, &text::hash_secret(&secret)).await;
    inserted.map_err(|error| match &error {
        sqlx::Error::Database(database) if database.is_unique_violation() => BootstrapError::Taken(new.name.clone()),
        _ => error.into(),
    })?;
    let after = serde_json::json!({ "name": new.name, "kind": new.kind, "role": new.role, "domains": new.domains });
    let entry = Change { kind: "token".to_owned(), name: new.name.clone(), action: Action::Create, before: None, after: Some(after) };
    db::audit::insert(&mut transaction, "", None, &[entry], &new.created_by).await?;
    transaction.commit().await?;
    Ok(secret)
}

/// Makes a sign-in link with the role `admin`. Its address is the public one, else the one listened on.
///
/// # Errors
/// The database is away.
pub async fn sign_in_link(settings: Settings) -> Result<String, BootstrapError> {
    let pool = ready(&settings).await?;
    let url = settings.base_url(settings.http_listen);
    Ok(session::link(&pool, &url, &admin()).await?.url)
}

/// Who signs in by a link that no signed-in person made.
pub(crate) fn admin() -> Principal {
    Principal { name: "sign-in-link".to_owned(), role: Role::Admin, domains: None, token: None, until: None }
}

async fn ready(settings: &Settings) -> Result<PgPool, BootstrapError> {
    let pool = db::pool(settings)?;
    db::migrate(&pool).await?;
    Ok(pool)
}
