//! Accepts connections and serves the router on them, HTTP/1.1 with keep-alive, until the control plane stops.
//!
//! Every wait for a client has an end: for its handshake, for the head of its request, and (in [`extract`](super::extract)) for its body.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use crate::tls::Peer;

/// The most connections at once; more wait in the system's queue.
const MAX_CONNECTIONS: usize = 2_048;
/// How long clients may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// To agree on keys.
    pub handshake: Duration,
    /// To send the head of a request, the time since the last one included: an idle connection is closed then.
    pub head: Duration,
}

/// What a client on a bad line needs, and no more.
pub const PATIENCE: Patience = Patience { handshake: Duration::from_secs(10), head: Duration::from_secs(30) };
/// The most headers of a request.
const MAX_HEADERS: usize = 128;
/// A pause after an error of accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop`, then finishes the requests under way; `tasks` knows the connections.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    patience: Patience,
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    while let Some(Ok(permit)) = stop.run_until_cancelled(room.clone().acquire_owned()).await {
        let (stream, peer) = match stop.run_until_cancelled(listener.accept()).await {
            Some(Ok(accepted)) => accepted,
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
            None => return,
        };
        let (tls, router, stop) = (tls.clone(), router.clone(), stop.clone());
        tasks.spawn(async move {
            match tls {
                Some(tls) => handshake(stream, peer, &tls, router, patience, stop).await,
                None => requests(stream, peer, router, patience, stop).await,
            }
            drop(permit);
        });
    }
}

async fn handshake(stream: TcpStream, peer: SocketAddr, tls: &TlsAcceptor, router: Router, patience: Patience, stop: CancellationToken) {
    match stop.run_until_cancelled(timeout(patience.handshake, tls.accept(stream))).await {
        Some(Ok(Ok(stream))) => requests(stream, peer, router, patience, stop).await,
        Some(Ok(Err(error))) => tracing::debug!(%peer, %error, "TLS handshake failed"),
        Some(Err(_)) => tracing::debug!(%peer, "TLS handshake took too long"),
        None => {}
    }
}

async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    peer: SocketAddr,
    router: Router,
    patience: Patience,
    stop: CancellationToken,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(Peer(peer)));
        router.clone().oneshot(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.head)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "a connection broke");
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_client_that_does_not_finish_its_request_is_hung_up_on() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let router = Router::new().route("/", get(|ConnectInfo(Peer(peer)): ConnectInfo<Peer>| async move { peer.ip().to_string() }));
        let patience = Patience { handshake: Duration::from_millis(200), head: Duration::from_millis(200) };
        tasks.spawn(serve(listener, None, router, patience, stop.clone(), tasks.clone()));
        for begun in ["", "GET / HTTP/1.1\r\nHost: a\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"] {
            let mut slow = TcpStream::connect(address).await.unwrap();
            slow.write_all(begun.as_bytes()).await.unwrap();
            let mut answer = String::new();
            timeout(Duration::from_secs(20), slow.read_to_string(&mut answer)).await.expect("closed in time").unwrap();
            assert_eq!(answer.contains("127.0.0.1"), begun.ends_with("\r\n\r\n"), "{answer}");
        }
        stop.cancel();
        tasks.close();
        timeout(Duration::from_secs(20), tasks.wait()).await.unwrap();
    }
}
