//! TLS towards shards: whom to trust, and who we are.
//!
//! Keys do not travel: they are files on the agent's machine, read anew for every connection, so that a renewed certificate is used without a
//! restart.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::authorities;

/// The files that TLS towards shards needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate authorities that may have signed a shard's certificate, PEM; none: those that the system trusts.
    pub ca_file: Option<PathBuf>,
    /// This agent's certificate chain and private key, both PEM, for shards that ask for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Why the files are of no use.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {0}: {1}")]
    File(String, io::Error),
    /// A file holds something else.
    #[error("{0}: {1}")]
    Content(String, String),
    /// What they hold does not fit together.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The host's name cannot be in a certificate.
    #[error("{0:?} cannot be the name of a TLS server")]
    Name(String, #[source] InvalidDnsNameError),
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`] names the file.
    pub fn load(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let mut roots = RootCertStore::empty();
        let ca_file = self.ca_file.as_deref().unwrap_or_else(|| authorities::of_system());
        roots.add_parsable_certificates(certificates(ca_file)?);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?.with_root_certificates(roots);
        Ok(Arc::new(match &self.identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let content = |error: rustls::pki_types::pem::Error| TlsError::Content(key.display().to_string(), error.to_string());
                let der = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(content)?;
                builder.with_client_auth_cert(certificates(chain)?, der)?
            }
        }))
    }

    /// Speaks TLS over `stream` with the server called `host`.
    ///
    /// # Errors
    /// [`TlsError`] as an I/O error, or what is wrong with the other side's certificate.
    pub(super) async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let files = self.clone();
        let config = tokio::task::spawn_blocking(move || files.load()).await.map_err(io::Error::other)?.map_err(io::Error::other)?;
        let name = ServerName::try_from(host.to_owned()).map_err(|error| io::Error::other(TlsError::Name(host.to_owned(), error)))?;
        TlsConnector::from(config).connect(name, stream).await
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| TlsError::File(path.display().to_string(), error))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let content = |detail: String| TlsError::Content(path.display().to_string(), detail);
    let found = CertificateDer::pem_slice_iter(&read(path)?).collect::<Result<Vec<_>, _>>().map_err(|error| content(error.to_string()))?;
    if found.is_empty() { Err(content("holds no certificate".to_owned())) } else { Ok(found) }
}
