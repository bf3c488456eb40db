//! Who asks, and what they may do.
//!
//! [`guard`] looks at every request before any handler: without credentials only health, static assets and sign-in answer. It leaves a
//! [`Principal`] behind, and handlers ask for the role they need by taking a [`Viewer`], an [`Operator`] or an [`Admin`]. Agents present a
//! token of their own kind on their gRPC stream: [`agent`].

pub mod agent;
pub mod attempts;
pub mod csrf;
pub mod guard;
pub mod role;
pub mod session;
pub mod token;

use axum::extract::FromRequestParts;
use http::request::Parts;
use uuid::Uuid;

pub use role::Role;

use crate::db::time::Time;
use crate::http::problem::Problem;
use crate::state::App;

/// A person or program that has proved who it is.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The name of its token or session: the author in the audit.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Where; `None`: in all domains, and outside of them.
    pub domains: Option<Vec<String>>,
    /// The token behind it, if there is one.
    pub token: Option<Uuid>,
    /// When the session ends that has no token behind it; nothing that it makes lasts longer.
    pub until: Option<Time>,
}

impl Principal {
    /// Whether it may look into `domain`.
    #[must_use]
    pub fn sees(&self, domain: &str) -> bool {
        self.domains.as_ref().is_none_or(|domains| domains.iter().any(|d| d == domain))
    }

    /// That it may act in `domain`.
    ///
    /// # Errors
    /// 403: its token is for other domains.
    pub fn enter(&self, domain: &str) -> Result<(), Problem> {
        if self.sees(domain) { Ok(()) } else { Err(Problem::forbidden(format!("your token is not for the domain {domain:?}"))) }
    }

    /// That it may act on what belongs to no domain: shards, tokens, agents.
    ///
    /// # Errors
    /// 403: its token is for some domains only.
    pub fn enter_all(&self) -> Result<(), Problem> {
        if self.domains.is_none() {
            Ok(())
        } else {
            Err(Problem::forbidden("your token is for some domains only; this belongs to none of them"))
        }
    }

    fn with_role(parts: &Parts, needed: Role) -> Result<Self, Problem> {
        let principal = parts.extensions.get::<Self>().ok_or_else(Problem::unauthorized)?;
        if principal.role < needed {
            return Err(Problem::forbidden(format!("this needs the role {needed}; you have the role {}", principal.role)));
        }
        Ok(principal.clone())
    }
}

/// A principal that may read.
pub struct Viewer(pub Principal);
/// A principal that may also change domains, tiers, rules and alerts.
pub struct Operator(pub Principal);
/// A principal that may also change shards, tokens and agents.
pub struct Admin(pub Principal);

impl FromRequestParts<App> for Viewer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        Principal::with_role(parts, Role::Viewer).map(Self)
    }
}

impl FromRequestParts<App> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        Principal::with_role(parts, Role::Operator).map(Self)
    }
}

impl FromRequestParts<App> for Admin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        Principal::with_role(parts, Role::Admin).map(Self)
    }
}
