//! The connection to the control plane, shared by the stream of rules and the stream of events.

use std::net::{IpAddr, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Uri};

use crate::authorities;
use crate::settings::ControlPlaneSettings;

/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A dead peer behind a silent network is noticed by HTTP/2 pings.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Why a control plane cannot be used at all; trying again does not help.
#[derive(Debug, thiserror::Error)]
pub enum UplinkError {
    /// The address is no `http://` or `https://` URL with a host.
    #[error("{0:?} is not an http:// or https:// address")]
    Address(String),
    /// Plain text beyond loopback.
    #[error("{0:?} would carry the token and secrets in plain text; use https://, or allow it where the network is protected otherwise")]
    Plaintext(String),
    /// The token cannot be sent.
    #[error("the agent token has characters that cannot be sent")]
    Token,
    /// The certificate authorities cannot be read.
    #[error("cannot read certificate authorities from {0}: {1}")]
    Authorities(String, std::io::Error),
    /// TLS could not be set up.
    #[error("TLS: {0}")]
    Tls(#[from] tonic::transport::Error),
}

/// A lazily connected channel, and the token to send on it.
#[derive(Clone)]
pub struct Uplink {
    channel: Channel,
    authorization: MetadataValue<Ascii>,
}

impl Uplink {
    /// Checks the settings; connects when first used.
    ///
    /// # Errors
    /// [`UplinkError`] says which setting cannot be used.
    pub fn new(settings: &ControlPlaneSettings) -> Result<Self, UplinkError> {
        let url = settings.url.as_str();
        let uri: Uri = url.parse().map_err(|_| UplinkError::Address(url.to_owned()))?;
        let host = uri.host().ok_or_else(|| UplinkError::Address(url.to_owned()))?;
        let endpoint = Endpoint::from(uri.clone())
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true);
        let endpoint = match uri.scheme_str() {
            Some("https") => endpoint.tls_config(tls(settings.ca_file.as_deref())?)?,
            Some("http") if settings.allow_plaintext || is_loopback(host) => endpoint,
            Some("http") => return Err(UplinkError::Plaintext(url.to_owned())),
            _ => return Err(UplinkError::Address(url.to_owned())),
        };
        let mut authorization: MetadataValue<Ascii> =
            format!("Bearer {}", settings.token.expose_secret()).parse().map_err(|_| UplinkError::Token)?;
        authorization.set_sensitive(true);
        Ok(Self { channel: endpoint.connect_lazy(), authorization })
    }

    /// The channel for a generated client.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// `message` as an authenticated request.
    pub fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        request.metadata_mut().insert("authorization", self.authorization.clone());
        request
    }
}

impl std::fmt::Debug for Uplink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Uplink")
    }
}

/// Reads a token file: its content without the white space around it.
///
/// # Errors
/// What the system says.
pub fn read_secret(path: &Path) -> std::io::Result<SecretString> {
    Ok(SecretString::from(std::fs::read_to_string(path)?.trim().to_owned()))
}

fn tls(ca_file: Option<&Path>) -> Result<ClientTlsConfig, UplinkError> {
    let path = ca_file.unwrap_or_else(|| authorities::of_system());
    let pem = std::fs::read(path).map_err(|error| UplinkError::Authorities(path.display().to_string(), error))?;
    Ok(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)))
}

/// Whether every address of `host` is this machine.
fn is_loopback(host: &str) -> bool {
    if let Ok(ip) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
        return ip.to_canonical().is_loopback();
    }
    host.eq_ignore_ascii_case("localhost")
        && (host, 0).to_socket_addrs().is_ok_and(|mut found| found.all(|address| address.ip().is_loopback()))
}
