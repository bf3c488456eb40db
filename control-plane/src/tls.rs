//! TLS on both listeners, from PEM files.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Identity, ServerTlsConfig};

use crate::settings::TlsFiles;

/// How long a client may take to agree on keys.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most handshakes at a time; further clients wait.
const MAX_HANDSHAKES: usize = 256;

/// What is wrong with certificate or key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not PEM.
    #[error("{file}: {cause}")]
    File {
        /// The file.
        file: String,
        /// Why.
        cause: String,
    },
    /// They do not belong together, or are of a kind that is not supported.
    #[error("certificate and key: {0}")]
    Pair(#[from] rustls::Error),
}

fn in_file(path: &Path) -> impl Fn(&dyn std::fmt::Display) -> TlsError + '_ {
    move |cause| TlsError::File { file: path.display().to_string(), cause: cause.to_string() }
}

/// For the HTTP listener.
///
/// # Errors
/// The files are not there, are not PEM, or do not belong together.
pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let wrong = in_file(&files.certificate);
    let certificates = CertificateDer::pem_file_iter(&files.certificate).map_err(|e| wrong(&e))?;
    let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(|e| wrong(&e))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| in_file(&files.key)(&e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(TlsAcceptor::from(Arc::new(config.with_no_client_auth().with_single_cert(certificates, key)?)))
}

/// For the gRPC listener.
///
/// # Errors
/// The files cannot be read.
pub fn for_grpc(files: &TlsFiles) -> Result<ServerTlsConfig, TlsError> {
    let read = |path: &Path| std::fs::read(path).map_err(|error| in_file(path)(&error));
    Ok(ServerTlsConfig::new().identity(Identity::from_pem(read(&files.certificate)?, read(&files.key)?)))
}

/// The address at the other end of a connection, with or without TLS.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

impl Connected<IncomingStream<'_, TcpListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        Self(*stream.remote_addr())
    }
}

impl Connected<IncomingStream<'_, TlsListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TlsListener>) -> Self {
        Self(*stream.remote_addr())
    }
}

type Ready = (TlsStream<TcpStream>, SocketAddr);

/// Accepts connections whose handshake is done. Handshakes run beside each other, so that a slow client keeps nobody waiting.
pub struct TlsListener {
    ready: mpsc::Receiver<Ready>,
    address: SocketAddr,
}

impl TlsListener {
    /// Accepts on `listener` until `stop`.
    #[must_use]
    pub fn new(listener: TcpListener, address: SocketAddr, acceptor: TlsAcceptor, stop: CancellationToken) -> Self {
        let (sender, ready) = mpsc::channel(1);
        tokio::spawn(stop.run_until_cancelled_owned(accept(listener, acceptor, sender)));
        Self { ready, address }
    }
}

async fn accept(mut listener: TcpListener, acceptor: TlsAcceptor, ready: mpsc::Sender<Ready>) {
    let handshakes = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    while let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await {
        // axum's listener waits after errors such as too many open files.
        let (stream, peer) = Listener::accept(&mut listener).await;
        let (acceptor, ready) = (acceptor.clone(), ready.clone());
        tokio::spawn(async move {
            match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => drop(ready.send((stream, peer)).await),
                Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
                Err(_) => tracing::debug!(%peer, "TLS handshake took too long"),
            }
            drop(permit);
        });
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> Ready {
        match self.ready.recv().await {
            Some(ready) => ready,
            // The control plane stops: no more connections.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.address)
    }
}
