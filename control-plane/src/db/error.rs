//! Database errors as answers: the one place where a constraint becomes a client error.

use sqlx::error::{DatabaseError, ErrorKind};

use crate::http::problem::Problem;

/// The database ended a statement that took too long.
const CANCELED: &str = "57014";

impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(database) => of_database(database.as_ref()).unwrap_or_else(|| Self::internal(&error)),
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::WorkerCrashed => {
                tracing::warn!(%error, "database unavailable");
                Self::unavailable()
            }
            _ => Self::internal(&error),
        }
    }
}

fn of_database(error: &dyn DatabaseError) -> Option<Problem> {
    match error.kind() {
        ErrorKind::UniqueViolation => Some(Problem::conflict("it exists already")),
        ErrorKind::ForeignKeyViolation => Some(Problem::conflict("it is used by, or it uses, something that is not there")),
        ErrorKind::CheckViolation | ErrorKind::NotNullViolation => Some(Problem::malformed("a value is out of its range")),
        _ => of_code(error.code()?.as_ref()),
    }
}

/// Whether the database looked at the values and refused them: data exceptions (class 22) and violated constraints (class 23). The same
/// again will be refused again.
#[must_use]
pub fn is_refusal(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| code.starts_with("22") || code.starts_with("23"))
}

/// By SQLSTATE class: lost or refused connections, shutdown, lack of resources, and conflicts that a repetition solves are 503; a value
/// that Postgres cannot hold is the client's.
fn of_code(code: &str) -> Option<Problem> {
    if code == CANCELED {
        tracing::warn!("a statement took too long");
        return Some(Problem::slow());
    }
    let class = code.get(..2)?;
    match class {
        "08" | "53" | "57" | "40" | "55" | "28" => {
            tracing::warn!(code, "database unavailable");
            Some(Problem::unavailable())
        }
        "22" => Some(Problem::malformed("a value is out of its range")),
        _ => None,
    }
}
