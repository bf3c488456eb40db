//! Certificates of a private authority, and a proxy that ends TLS in front of a server that has none.

use std::net::SocketAddr;
use std::sync::{Arc, RwLock};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::error::{Doing, Error};
use crate::port::loopback;

/// A certificate is good for this long, or has not been any more for this long.
const DAY: Duration = Duration::from_secs(86_400);

/// A certificate with its key, both PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// A certificate authority of its own.
#[derive(Debug)]
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one, which nobody trusts yet.
    ///
    /// # Errors
    /// No key can be made.
    pub fn new() -> Result<Self, Error> {
        let make = || {
            let mut params = CertificateParams::default();
            params.distinguished_name = name("testbed authority");
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
            let key = KeyPair::generate()?;
            let certificate = params.self_signed(&key)?.pem();
            Ok(Self { certificate, issuer: Issuer::new(params, key) })
        };
        made(make())
    }

    /// Its own certificate, PEM: who trusts that trusts what it has signed.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A certificate for servers (and clients) called `host`, a name or an address; good for a day.
    ///
    /// # Errors
    /// `host` is neither.
    pub fn issue(&self, host: &str) -> Result<Identity, Error> {
        let now = wall();
        self.issue_between(host, now - DAY, now + DAY)
    }

    /// One that expired a day ago.
    ///
    /// # Errors
    /// As [`issue`](Self::issue).
    pub fn issue_expired(&self, host: &str) -> Result<Identity, Error> {
        let now = wall();
        self.issue_between(host, now - 2 * DAY, now - DAY)
    }

    fn issue_between(&self, host: &str, from: SystemTime, to: SystemTime) -> Result<Identity, Error> {
        let make = || {
            let mut params = CertificateParams::new([host.to_owned()])?;
            params.distinguished_name = name(host);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            (params.not_before, params.not_after) = (from.into(), to.into());
            let key = KeyPair::generate()?;
            Ok(Identity { certificate: params.signed_by(&key, &self.issuer)?.pem(), key: key.serialize_pem() })
        };
        made(make())
    }
}

#[allow(clippy::disallowed_methods, reason = "certificates are good by the clock on the wall")]
fn wall() -> SystemTime {
    SystemTime::now()
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}

fn made<T>(result: Result<T, rcgen::Error>) -> Result<T, Error> {
    result.map_err(std::io::Error::other).doing(|| "make a certificate".into())
}

/// Ends TLS on a free port of 127.0.0.1 and passes what is within on, until it is dropped.
#[derive(Debug)]
pub struct TlsProxy {
    addr: SocketAddr,
    acceptor: Arc<RwLock<Acceptor>>,
    task: AbortHandle,
}

struct Acceptor(TlsAcceptor);

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acceptor")
    }
}

impl TlsProxy {
    /// Shows itself as `identity`, and passes on to `target`. With `clients` it serves only those that this authority has signed.
    ///
    /// # Errors
    /// No port is free, or the identity cannot be used.
    pub async fn start(target: SocketAddr, identity: &Identity, clients: Option<&Authority>) -> Result<Self, Error> {
        let listener = TcpListener::bind(loopback(0)).await.doing(|| "find a port for the TLS proxy".into())?;
        let addr = listener.local_addr().doing(|| "look up the TLS proxy's port".into())?;
        let acceptor = Arc::new(RwLock::new(acceptor(identity, clients)?));
        let current = acceptor.clone();
        let task = tokio::spawn(async move {
            // Its connections end with it.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = current.read().unwrap_or_else(std::sync::PoisonError::into_inner).0.clone();
                connections.spawn(serve(stream, acceptor, target));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { addr, acceptor, task: task.abort_handle() })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Shows itself as another from the next connection on.
    ///
    /// # Errors
    /// The identity cannot be used.
    pub fn present(&self, identity: &Identity, clients: Option<&Authority>) -> Result<(), Error> {
        *self.acceptor.write().unwrap_or_else(std::sync::PoisonError::into_inner) = acceptor(identity, clients)?;
        Ok(())
    }
}

impl Drop for TlsProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, target: SocketAddr) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut client = acceptor.accept(stream).await?;
    let mut server = TcpStream::connect(target).await?;
    server.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

fn acceptor(identity: &Identity, clients: Option<&Authority>) -> Result<Acceptor, Error> {
    let make = || {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().map_err(other)?;
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(authority.certificate.as_bytes()).map_err(other)?).map_err(other)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().map_err(other)?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let chain = vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes()).map_err(other)?];
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(other)?;
        Ok::<_, std::io::Error>(Acceptor(TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).map_err(other)?))))
    };
    make().doing(|| "set up TLS".into())
}

fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> std::io::Error {
    std::io::Error::other(error)
}
