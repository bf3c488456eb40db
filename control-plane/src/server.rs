//! The control plane as a running thing: start, addresses, stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use weir_core::client_ip::ClientIp;
use weir_core::clock::{Clock, SystemClock};

use crate::alerts;
use crate::alerts::target::AllowList;
use crate::auth::attempts::Attempts;
use crate::bootstrap::{self, BootstrapError};
use crate::db;
use crate::db::token::NewToken;
use crate::http::metrics::Metrics;
use crate::http::paging::Pager;
use crate::http::router::router;
use crate::http::{serve, session};
use crate::push;
use crate::settings::Settings;
use crate::state::{App, Parts};
use crate::tls::{self, TlsError};

/// How long requests under way may take when the control plane stops.
const DRAIN: Duration = Duration::from_secs(3);

/// Connections of agents are looked after this often, so that a dead one is noticed though nothing is sent.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// One agent needs two streams; a sidecar for many agents needs some more.
const STREAMS_PER_CONNECTION: u32 = 256;

/// Why a control plane did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database is away, or its address is wrong.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
    /// The schema could not be brought up to date.
    #[error("database schema: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// An entry of the webhook targets is wrong.
    #[error("webhook_allow: {0}")]
    WebhookAllow(String),
    /// An address to listen on is taken or not ours.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Certificate or key cannot be used.
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    /// The gRPC server refuses certificate or key.
    #[error("TLS of the agents' listener: {0}")]
    GrpcTls(#[from] tonic::transport::Error),
}

/// A running control plane.
pub struct ControlPlane {
    app: App,
    http: SocketAddr,
    grpc: SocketAddr,
}

impl ControlPlane {
    /// Brings the schema up to date, then serves until [`shutdown`](Self::shutdown).
    ///
    /// # Errors
    /// The database is away, or an address is taken.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        Self::start_with_clock(settings, Arc::new(SystemClock)).await
    }

    /// The same with another clock.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with_clock(settings: Settings, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let allowed = AllowList::new(settings.webhook_allow.iter().map(String::as_str)).map_err(StartError::WebhookAllow)?;
        let tls = settings.tls.as_ref().map(|files| Ok::<_, TlsError>((tls::acceptor(files)?, tls::for_grpc(files)?))).transpose()?;
        let (acceptor, grpc_tls) = tls.unzip();
        let mut grpc_server = Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE))
            .max_concurrent_streams(Some(STREAMS_PER_CONNECTION));
        if let Some(tls) = grpc_tls {
            grpc_server = grpc_server.tls_config(tls)?;
        }
        let (http_listener, http) = listen(settings.http_listen).await?;
        let (grpc_listener, grpc) = listen(settings.grpc_listen).await?;
        let pool = db::pool(&settings)?;
        db::migrate(&pool).await?;
        let mut connection = pool.acquire().await?;
        let pager = Pager::new(db::secret::page_key(&mut connection).await?);
        // Made now, so that the first agent need not wait for it.
        db::secret::hash_secret(&mut connection).await?;
        drop(connection);
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        let public_url = settings.base_url(http);
        let client_ip = ClientIp::new(settings.client_ip_header, &settings.trusted_proxies);
        let app = App::new(Parts {
            pool,
            settings,
            public_url,
            client_ip,
            clock,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            pager,
            registry,
            metrics,
            sign_ins: Attempts::default(),
            wrong_tokens: Attempts::default(),
        });
        serve_http(&app, http_listener, acceptor);
        serve_grpc(&app, grpc_server, grpc_listener);
        alerts::watch::start(&app, Arc::new(allowed));
        tracing::info!(%http, %grpc, "control plane runs");
        Ok(Self { app, http, grpc })
    }

    /// Where dashboard and admin API listen.
    #[must_use]
    pub fn http_addr(&self) -> SocketAddr {
        self.http
    }

    /// Where agents connect.
    #[must_use]
    pub fn grpc_addr(&self) -> SocketAddr {
        self.grpc
    }

    /// The shared parts.
    #[must_use]
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Makes a token; its text is not kept.
    ///
    /// # Errors
    /// The name is taken, or the database is away.
    pub async fn create_token(&self, new: &NewToken) -> Result<SecretString, BootstrapError> {
        bootstrap::create_token(&self.app.pool, new).await
    }

    /// Makes a sign-in link with the role `admin`: single use, ten minutes.
    ///
    /// # Errors
    /// The database is away.
    pub async fn sign_in_link(&self) -> Result<String, BootstrapError> {
        Ok(session::link(&self.app.pool, &self.app.public_url, &bootstrap::admin()).await?.url)
    }

    /// Stops taking requests, finishes those under way, ends all tasks and closes the database connections; after three seconds whatever
    /// is not done by then is left.
    pub async fn shutdown(self) {
        self.app.stop.cancel();
        self.app.tasks.close();
        let done = async {
            self.app.tasks.wait().await;
            self.app.pool.close().await;
        };
        if tokio::time::timeout(DRAIN, done).await.is_err() {
            tracing::warn!(tasks = self.app.tasks.len(), "stopped with requests or streams still open");
        }
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let fail = |source| StartError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(fail)?;
    let address = listener.local_addr().map_err(fail)?;
    Ok((listener, address))
}

fn serve_http(app: &App, listener: TcpListener, tls: Option<TlsAcceptor>) {
    let serving = serve::serve(listener, tls, router(app.clone()), serve::PATIENCE, app.stop.clone(), app.tasks.clone());
    app.tasks.spawn(serving);
}

fn serve_grpc(app: &App, mut server: Server, listener: TcpListener) {
    let services = push::services(app);
    let stop = app.stop.clone();
    app.tasks.spawn(async move {
        let connections = TcpListenerStream::new(listener);
        if let Err(error) = server.add_routes(services).serve_with_incoming_shutdown(connections, stop.cancelled_owned()).await {
            tracing::error!(%error, "gRPC server ended");
        }
    });
}
