//! The agent as one handle: starts its parts, checks, and stops them again.

mod operations;
mod start;
mod status;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_core::clock::Clock;
use weir_core::decision::Decision;
use weir_core::headers::HeaderStyle;
use weir_core::name::Name;
use weir_core::request::Request;

pub use self::start::StartError;
pub use self::status::AgentStatus;
use crate::check::{CheckError, Checker};
use crate::events::Recorder;
use crate::events::spool::Spool;
use crate::identity::Identity;
use crate::limiter::Limiter;
use crate::metrics::Metrics;
use crate::middleware::{LayerSettings, RateLimitLayer};
use crate::rules::store::RuleStore;
use crate::settings::{AgentSettings, Permissions};

/// A running agent. A clone is another handle to the same one; it runs until [`Agent::shutdown`].
#[derive(Clone)]
pub struct Agent(Arc<Parts>);

struct Parts {
    settings: AgentSettings,
    /// Random per start; with a sequence number it names a batch of events.
    boot: String,
    domains: Vec<Name>,
    clock: Arc<dyn Clock>,
    store: Arc<RuleStore>,
    checker: Arc<Checker>,
    limiter: Arc<Limiter>,
    recorder: Arc<Recorder>,
    spool: Option<Arc<Spool>>,
    metrics: Arc<Metrics>,
    authz_identity: Identity,
    draining: AtomicBool,
    tasks: TaskTracker,
    /// Ends everything but the upload of events.
    stop: CancellationToken,
    stop_upload: CancellationToken,
}

impl Agent {
    /// Starts an agent. It is ready at once if its rules are given, in a file, or on disk; else as soon as the control plane has sent them.
    ///
    /// # Errors
    /// [`StartError`] says which setting cannot be used. A control plane that cannot be reached is no error.
    pub async fn start(settings: AgentSettings) -> Result<Self, StartError> {
        start::start(settings).await
    }

    /// Whether an agent could start with `settings` and the rules that they name. Nothing is opened.
    ///
    /// # Errors
    /// [`StartError`] says which setting cannot be used.
    pub fn check_settings(settings: &AgentSettings) -> Result<(), StartError> {
        start::check(settings)
    }

    /// Decides `request` within the budget, whatever the shards do. What it takes of `concurrency` rules is held until it expires: where it can
    /// be released, [acquire](Agent::acquire).
    ///
    /// # Errors
    /// [`CheckError`]: the question is bad, and nothing was counted.
    pub async fn check(&self, request: &Request<'_>) -> Result<Decision, CheckError> {
        self.acquire(request).await.map(|(decision, _)| decision)
    }

    /// The HTTP interface: the operations under `/v1`, `/authz`, `/livez`, `/readyz` and `/metrics`. To know its callers it must be served with
    /// `into_make_service_with_connect_info::<SocketAddr>()`, or by [`crate::transport::serve`], which knows what its listeners may serve.
    /// Served by anything else it refuses `record`, `refund`, `reset` and the field `limits`.
    pub fn router(&self) -> axum::Router {
        crate::transport::router(self.clone())
    }

    /// [`Agent::router`], where all callers are trusted with what `permissions` allow: whoever has them can lift any limit.
    pub fn router_permitting(&self, permissions: Permissions) -> axum::Router {
        crate::transport::router_permitting(self.clone(), permissions)
    }

    /// A tower layer that limits the service within.
    ///
    /// # Errors
    /// [`StartError::NotServed`]: the settings name a domain that the agent does not serve.
    pub fn layer(&self, settings: LayerSettings) -> Result<RateLimitLayer, StartError> {
        start::served(&self.0.domains, settings.domain.as_ref(), "the layer")?;
        Ok(RateLimitLayer::new(self.clone(), settings))
    }

    /// How the agent is doing.
    #[must_use]
    pub fn status(&self) -> AgentStatus {
        status::status(&self.0)
    }

    /// Waits until every shard has been reached or has failed once, so that first checks need not wait for connections.
    pub async fn settled(&self) {
        self.0.limiter.settled().await;
    }

    /// All metrics in the OpenMetrics text format.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        self.0.metrics.text(&self.status())
    }

    /// What the agent was told.
    #[must_use]
    pub fn settings(&self) -> &AgentSettings {
        &self.0.settings
    }

    /// Random per start of the agent.
    #[must_use]
    pub fn boot(&self) -> &str {
        &self.0.boot
    }

    /// Says "not ready" from now on, so that callers go elsewhere; checks are still answered.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
    }

    /// Stops: hands over the last events, for at most `grace`, and closes all connections. Checks after this are degraded.
    pub async fn shutdown_within(&self, grace: Duration) {
        self.drain();
        self.0.stop.cancel();
        self.0.recorder.flush(true);
        if let Some(spool) = &self.0.spool
            && tokio::time::timeout(grace, spool.emptied()).await.is_err()
        {
            let (batches, _) = spool.waiting();
            tracing::warn!(batches, "event batches were not taken in time and are lost");
        }
        self.0.stop_upload.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
        self.0.limiter.shutdown().await;
    }

    /// [`Agent::shutdown_within`] the grace of the settings.
    pub async fn shutdown(&self) {
        self.shutdown_within(self.0.settings.listen.grace).await;
    }

    /// Whether the agent serves this domain.
    pub(crate) fn serves(&self, domain: &str) -> bool {
        self.0.domains.iter().any(|served| served.as_str() == domain)
    }

    /// The first domain that the agent serves.
    #[must_use]
    pub fn first_domain(&self) -> &str {
        self.0.domains.first().map_or("default", Name::as_str)
    }

    /// Which headers answers carry.
    #[must_use]
    pub fn header_style(&self) -> HeaderStyle {
        self.0.settings.headers
    }

    /// The time since the epoch, for what people and protocols read.
    #[must_use]
    pub fn wall(&self) -> Duration {
        self.0.clock.wall()
    }

    pub(crate) fn authz_identity(&self) -> &Identity {
        &self.0.authz_identity
    }

    pub(crate) fn authz_domain(&self) -> &str {
        self.0.settings.authz.domain.as_ref().map_or_else(|| self.first_domain(), Name::as_str)
    }
}

impl Drop for Parts {
    /// An agent that is dropped without a shutdown loses its last events, but leaves nothing running.
    fn drop(&mut self) {
        self.stop.cancel();
        self.stop_upload.cancel();
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("name", &self.0.settings.name).field("domains", &self.0.domains).finish_non_exhaustive()
    }
}
