//! What every part of the control plane shares.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_core::client_ip::ClientIp;
use weir_core::clock::Clock;

use crate::auth::attempts::Attempts;
use crate::http::metrics::Metrics;
use crate::http::paging::Pager;
use crate::settings::Settings;

/// Handle on the shared parts; cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// The shared parts.
pub struct Parts {
    /// The database.
    pub pool: PgPool,
    /// The settings, as given.
    pub settings: Settings,
    /// The dashboard's address as people reach it, without a slash at the end.
    pub public_url: String,
    /// Who is at the other end of a connection, behind the proxies that are trusted.
    pub client_ip: ClientIp,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Cancelled when the control plane stops; everything long-lived watches it.
    pub stop: CancellationToken,
    /// Background tasks; `shutdown` waits for them.
    pub tasks: TaskTracker,
    /// Signs page tokens.
    pub pager: Pager,
    /// All metrics of this process.
    pub registry: Registry,
    /// The HTTP server's own metrics.
    pub metrics: Metrics,
    /// Sign-ins that failed of late.
    pub sign_ins: Attempts,
    /// Requests with a wrong token of late. Counted apart: a program with an old token must not keep people from signing in.
    pub wrong_tokens: Attempts,
}

impl App {
    /// Wraps the parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

impl std::ops::Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
