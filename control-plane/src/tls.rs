//! TLS on both listeners, from PEM files.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tonic::transport::{Identity, ServerTlsConfig};

use crate::settings::TlsFiles;

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
