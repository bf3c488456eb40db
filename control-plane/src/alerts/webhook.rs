//! One attempt to deliver a webhook: signed, to the checked address only, bounded in time and size, no redirect followed.
//!
//! The receiver proves the sender and the freshness of a delivery by
//! `Weir-Signature: t=<seconds since the epoch>,v1=<hex of HMAC-SHA256(secret, "<t>.<body>")>`.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{Request, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sha2::Sha256;
use tokio::net::TcpStream;
use uuid::Uuid;

use super::target::{AllowList, Target, TargetError};

/// How long one attempt may take, name resolution included.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// What is sent.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The same at every attempt, so that a receiver can tell a repetition.
    pub id: Uuid,
    /// JSON.
    pub body: &'a str,
    /// The key of the signature.
    pub secret: &'a str,
    /// Seconds since the epoch, now.
    pub time: i64,
}

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The alert has no webhook any more.
    #[error("the alert has no webhook any more")]
    NoTarget,
    /// The target is not allowed (any more).
    #[error("target {0}")]
    Target(#[from] TargetError),
    /// The receiver answered, but not with success.
    #[error("the receiver answered {0}")]
    Status(u16),
    /// It did not answer in time.
    #[error("no answer within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// It could not be reached.
    #[error("not reachable: {0}")]
    Unreachable(String),
}

impl SendError {
    /// The status that the receiver answered with, if it did.
    #[must_use]
    pub const fn status(&self) -> Option<u16> {
        if let Self::Status(status) = self { Some(*status) } else { None }
    }
}

/// The value of `Weir-Signature`.
#[must_use]
pub fn signature(secret: &str, time: i64, body: &str) -> String {
    // A key of any length is good for HMAC.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return String::new() };
    mac.update(format!("{time}.{body}").as_bytes());
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={time},v1={hex}")
}

/// Sends the message once; the status of success.
///
/// # Errors
/// [`SendError`] says why it did not arrive.
pub async fn send(allowed: &AllowList, url: &str, message: Message<'_>) -> Result<u16, SendError> {
    let target: Target = url.parse()?;
    let attempt = async {
        let address = allowed.resolve(&target).await?;
        post(&target, address, message).await
    };
    tokio::time::timeout(TIMEOUT, attempt).await.map_err(|_| SendError::Timeout)?
}

async fn post(target: &Target, address: SocketAddr, message: Message<'_>) -> Result<u16, SendError> {
    let request = Request::post(target.uri.clone())
        .header("content-type", "application/json")
        .header("user-agent", concat!("weir/", env!("CARGO_PKG_VERSION")))
        .header("weir-delivery", message.id.to_string())
        .header("weir-signature", signature(message.secret, message.time, message.body))
        .body(Full::new(Bytes::copy_from_slice(message.body.as_bytes())))
        .map_err(|error| SendError::Unreachable(error.to_string()))?;
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_provider_and_webpki_roots(rustls::crypto::ring::default_provider())
        .map_err(|error| SendError::Unreachable(error.to_string()))?
        .https_or_http()
        .enable_http1()
        .wrap_connector(Pinned(address));
    // No pool: the next attempt resolves and checks anew. The answer's body is not read: only its status counts.
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
    let response = client.request(request).await.map_err(|error| SendError::Unreachable(reason(&error)))?;
    let status = response.status();
    if status.is_success() { Ok(status.as_u16()) } else { Err(SendError::Status(status.as_u16())) }
}

/// The innermost cause: "connection refused" says more than "client error".
fn reason(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// Connects to one address, whatever the URL names: the name was resolved and checked before, and must not be resolved again.
#[derive(Debug, Clone, Copy)]
struct Pinned(SocketAddr);

impl tower::Service<Uri> for Pinned {
    type Response = TokioIo<TcpStream>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = std::io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let address = self.0;
        Box::pin(async move { Ok(TokioIo::new(TcpStream::connect(address).await?)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_time_and_body() {
        // Checked with: printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac topsecret
        let expected = "6a939b0c71853d606167625a15168ee9188c6a511c773ef4f42d307f3849e50f";
        assert_eq!(signature("topsecret", 1_700_000_000, "{\"a\":1}"), format!("t=1700000000,v1={expected}"));
        assert_ne!(signature("topsecret", 1_700_000_001, "{\"a\":1}"), signature("topsecret", 1_700_000_000, "{\"a\":1}"));
    }
}
