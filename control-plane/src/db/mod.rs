//! SQL as plain functions on a connection, one file per noun. The database is the truth; NOTIFY tells the rest.

pub mod agent;
pub mod audit;
pub mod document;
pub mod error;
pub mod publish;
pub mod revision;
pub mod secret;
pub mod session;
pub mod set;
pub mod time;
pub mod token;

use std::time::Duration;

use secrecy::ExposeSecret as _;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection, PgPool};

use crate::settings::Settings;

/// Channel that tells of a new revision of a set; the payload is its domain, empty for the ring.
pub const REVISION_CHANNEL: &str = "weir_revision";
/// Channel that tells of changed secrets (hash secret, shard credentials); no payload.
pub const SECRETS_CHANNEL: &str = "weir_secrets";

/// How long a request waits for a connection before it is answered with 503.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

static MIGRATIONS: Migrator = sqlx::migrate!("../migrations");

/// Opens the pool; connections are made when they are needed.
///
/// # Errors
/// The database's address cannot be read.
pub fn pool(settings: &Settings) -> Result<PgPool, sqlx::Error> {
    let options: PgConnectOptions = settings.database_url.expose_secret().parse()?;
    let options = options.application_name("weir-control-plane").options([("timezone", "UTC"), ("statement_timeout", "30s")]);
    Ok(PgPoolOptions::new().max_connections(settings.database_connections).acquire_timeout(ACQUIRE_TIMEOUT).connect_lazy_with(options))
}

/// Brings the schema up to date. Each migration is a transaction of its own; an advisory lock lets one process at a time do it, so that
/// replicas may start together. Migrations of a newer release that are there already are left alone: this release must work with them.
///
/// # Errors
/// The database is away, or a migration failed (it then left nothing behind).
pub async fn migrate(pool: &PgPool) -> Result<(), MigrateError> {
    // A connection of its own, since a migration, and the wait for another replica's, may take longer than any request.
    let mut connection = pool.acquire().await?.detach();
    sqlx::query("SET statement_timeout = 0").execute(&mut connection).await?;
    let mut migrator = Migrator { migrations: MIGRATIONS.migrations.clone(), ..Migrator::DEFAULT };
    migrator.set_ignore_missing(true);
    let before = newest(&mut connection).await?;
    migrator.run(&mut connection).await?;
    for migration in migrator.iter().filter(|m| m.version > before) {
        tracing::info!(version = migration.version, description = %migration.description, "database schema brought forward");
    }
    connection.close().await?;
    Ok(())
}

/// The newest migration that is there, 0 for an empty database.
async fn newest(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let there: bool = sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL").fetch_one(&mut *connection).await?;
    if !there {
        return Ok(0);
    }
    sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM _sqlx_migrations").fetch_one(connection).await
}
