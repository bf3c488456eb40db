//! Which agent tokens are good: as the database says, and from memory while it is away.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use sqlx::{PgConnection, PgPool};
use tokio::sync::watch;
use tonic::Status;
use tonic::metadata::MetadataMap;
use uuid::Uuid;

use crate::auth::agent::{AgentToken, authenticate};
use crate::auth::{guard, token};
use crate::http::problem::Problem;
use crate::state::App;

/// The most tokens kept in memory. Beyond it, a new stream asks the database.
const MAX_KNOWN: i64 = 50_000;

/// A good token, and when it ends (milliseconds since the epoch).
#[derive(Debug, Clone)]
struct Known {
    token: AgentToken,
    expires: Option<i64>,
}

/// Id, name, domains, hash and end of a token.
type Row = (Uuid, String, Option<Vec<String>>, Vec<u8>, Option<i64>);

/// The ids of all good tokens; `None` if there are too many to know.
pub type Good = Option<Arc<HashSet<Uuid>>>;

/// The tokens that were good when the database was last asked.
#[derive(Debug, Default)]
pub struct Tokens {
    by_hash: RwLock<HashMap<token::Hash, Known>>,
    good: watch::Sender<Good>,
}

impl Tokens {
    /// Checks what an agent presents. A token that was good a few seconds ago is good: streams of one that is revoked are ended by the
    /// same look at the database that takes it out of here.
    ///
    /// # Errors
    /// `Unauthenticated`, `PermissionDenied`, `ResourceExhausted` after too many failures, `Unavailable` if nobody can tell.
    pub async fn check(&self, app: &App, metadata: &MetadataMap, peer: IpAddr) -> Result<AgentToken, Status> {
        let presented = metadata.get("authorization").and_then(|value| value.to_str().ok());
        let secret = presented.and_then(guard::bearer).filter(|secret| token::is_well_formed(secret));
        let Some(secret) = secret else { return Err(status(&guard::refuse(app, &app.wrong_tokens, peer, "no agent token"))) };
        let known = self.by_hash.read().unwrap_or_else(PoisonError::into_inner).get(&token::hash(secret)).cloned();
        let now = i64::try_from(app.clock.wall().as_millis()).unwrap_or(i64::MAX);
        if let Some(known) = known.filter(|known| known.expires.is_none_or(|at| at > now)) {
            return Ok(known.token);
        }
        match authenticate(app, presented).await {
            Ok(token) => {
                // A new one. Should the database go away before the next look at it, it is known all the same.
                self.by_hash
                    .write()
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(token::hash(secret), Known { token: token.clone(), expires: None });
                Ok(token)
            }
            Err(problem) if problem.status() == http::StatusCode::UNAUTHORIZED => {
                Err(status(&guard::refuse(app, &app.wrong_tokens, peer, "unknown or expired agent token")))
            }
            Err(problem) => Err(status(&problem)),
        }
    }

    /// Watches which tokens are good: whoever serves one for long must end when it is not among them any more.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Good> {
        self.good.subscribe()
    }

    /// Learns which tokens are good now.
    ///
    /// # Errors
    /// The database is away: what is known stays.
    pub async fn refresh(&self, connection: &mut PgConnection) -> sqlx::Result<Good> {
        let sql = "SELECT id, name, domains, hash, (extract(epoch FROM expires_at) * 1000)::bigint FROM tokens WHERE kind = 'agent' AND (expires_at IS NULL OR expires_at > now()) LIMIT $1";
        let rows: Vec<Row> = sqlx::query_as(sql).bind(MAX_KNOWN).fetch_all(connection).await?;
        let all = i64::try_from(rows.len()).is_ok_and(|known| known < MAX_KNOWN);
        let good = all.then(|| Arc::new(rows.iter().map(|(id, ..)| *id).collect()));
        let known = rows.into_iter().filter_map(|(id, name, domains, hash, expires)| {
            Some((token::Hash::try_from(hash).ok()?, Known { token: AgentToken { id, name, domains }, expires }))
        });
        *self.by_hash.write().unwrap_or_else(PoisonError::into_inner) = known.collect();
        self.good.send_replace(good.clone());
        Ok(good)
    }
}

/// Notes that these tokens are in use: a stream lasts for days, and only its start would count otherwise.
///
/// # Errors
/// The database is away.
pub async fn note_use(pool: &PgPool, ids: &[Uuid]) -> sqlx::Result<()> {
    let sql = "UPDATE tokens SET last_used_at = now() WHERE id = ANY($1) AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')";
    sqlx::query(sql).bind(ids).execute(pool).await?;
    Ok(())
}

/// A problem as gRPC says it.
fn status(problem: &Problem) -> Status {
    let detail = problem.detail().to_owned();
    match problem.status().as_u16() {
        401 => Status::unauthenticated("send a valid agent token: authorization: Bearer weir_..."),
        403 => Status::permission_denied(detail),
        429 => Status::resource_exhausted(detail),
        503 => Status::unavailable(detail),
        _ => Status::internal(detail),
    }
}
