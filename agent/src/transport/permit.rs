//! Which operations beyond the usual ones a request may ask for, by the listener that it came in through.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::StatusCode;
use http::request::Parts;

use crate::answer::{self, Problem};
use crate::settings::{Permission, Permissions};

/// How a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Entrance {
    /// The agent's TCP listener.
    Tcp,
    /// Its Unix socket.
    Unix,
    /// A server of the program that embeds the agent.
    #[default]
    Embedded,
}

/// What is served there. A request that nobody put this into, as an extension, may ask for nothing beyond the usual.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Permitted {
    pub(super) entrance: Entrance,
    pub(super) permissions: Permissions,
}

impl Permitted {
    /// Whether `permission` is given here.
    ///
    /// # Errors
    /// The answer to who asks without it: 403, and what would change that.
    pub(super) fn demand(self, permission: Permission) -> Result<(), Problem> {
        if self.permissions.has(permission) {
            return Ok(());
        }
        let what = match permission {
            Permission::Limits => "the field limits".to_owned(),
            operation => format!("the operation {operation}"),
        };
        let how = match self.entrance {
            Entrance::Tcp => format!("name {permission} in WEIR_AGENT_TCP_OPERATIONS, and give the listener a token"),
            Entrance::Unix => format!("name {permission} in WEIR_AGENT_SOCKET_OPERATIONS"),
            Entrance::Embedded => format!("the program that serves it must permit {permission}"),
        };
        Err(answer::refused(
            StatusCode::FORBIDDEN,
            "not-permitted",
            &format!("{what} is not accepted by this listener; to allow it, {how}"),
        ))
    }
}

impl<S: Sync> FromRequestParts<S> for Permitted {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().copied().unwrap_or_default())
    }
}
