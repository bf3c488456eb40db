//! Tokens of agents, as they come with a gRPC stream.

use uuid::Uuid;

use crate::db;
use crate::http::problem::Problem;
use crate::state::App;

/// An agent's token that is good.
#[derive(Debug, Clone)]
pub struct AgentToken {
    /// The token: an agent's name belongs to the first one that used it.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// The domains whose rules it may have; `None`: all.
    pub domains: Option<Vec<String>>,
}

/// Checks the `authorization` value of an agent's stream.
///
/// # Errors
/// 401: no such token, or it has expired; 403: it is no agent's; 503: the database is away.
pub async fn authenticate(app: &App, authorization: Option<&str>) -> Result<AgentToken, Problem> {
    let secret = authorization.and_then(super::guard::bearer).ok_or_else(Problem::unauthorized)?;
    let mut connection = app.pool.acquire().await?;
    let token = db::token::find(&mut connection, secret).await?.ok_or_else(Problem::unauthorized)?;
    match token.kind {
        db::token::Kind::Agent => Ok(AgentToken { id: token.id, name: token.name, domains: token.domains }),
        db::token::Kind::Api => Err(Problem::forbidden("this is an API token; agents need a token of the kind \"agent\"")),
    }
}
