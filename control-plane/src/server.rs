//! The control plane as a running thing: start, addresses, stop.

use std::net::SocketAddr;
use std::sync::Arc;

use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_core::clock::{Clock, SystemClock};

use crate::auth::attempts::Attempts;
use crate::bootstrap::{self, BootstrapError};
use crate::db;
use crate::db::token::NewToken;
use crate::http::paging::Pager;
use crate::http::router::router;
use crate::http::session;
use crate::push;
use crate::settings::Settings;
use crate::state::{App, Parts};

/// Why a control plane did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database is away, or its address is wrong.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
    /// The schema could not be brought up to date.
    #[error("database schema: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// An address to listen on is taken or not ours.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
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
        let (http_listener, http) = listen(settings.http_listen).await?;
        let (grpc_listener, grpc) = listen(settings.grpc_listen).await?;
        let pool = db::pool(&settings)?;
        db::migrate(&pool).await?;
        let pager = Pager::new(db::secret::page_key(&mut *pool.acquire().await?).await?);
        let public_url = settings.base_url(http);
        let app = App::new(Parts {
            pool,
            settings,
            public_url,
            clock,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            pager,
            attempts: Attempts::default(),
        });
        serve_http(&app, http_listener);
        serve_grpc(&app, grpc_listener);
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

    /// Stops taking requests, finishes those under way, ends all tasks and closes the database connections.
    pub async fn shutdown(self) {
        self.app.stop.cancel();
        self.app.tasks.close();
        self.app.tasks.wait().await;
        self.app.pool.close().await;
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let fail = |source| StartError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(fail)?;
    let address = listener.local_addr().map_err(fail)?;
    Ok((listener, address))
}

fn serve_http(app: &App, listener: TcpListener) {
    let service = router(app.clone()).into_make_service_with_connect_info::<SocketAddr>();
    let stop = app.stop.clone();
    app.tasks.spawn(async move {
        let server = axum::serve(listener, service).with_graceful_shutdown(stop.cancelled_owned());
        if let Err(error) = server.await {
            tracing::error!(%error, "HTTP server ended");
        }
    });
}

fn serve_grpc(app: &App, listener: TcpListener) {
    let services = push::services(app);
    let stop = app.stop.clone();
    app.tasks.spawn(async move {
        let server = tonic::transport::Server::builder().add_routes(services);
        let connections = TcpListenerStream::new(listener);
        if let Err(error) = server.serve_with_incoming_shutdown(connections, stop.cancelled_owned()).await {
            tracing::error!(%error, "gRPC server ended");
        }
    });
}
