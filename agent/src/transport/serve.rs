//! Accepts connections and serves the router on them, HTTP/1.1 with keep-alive, until told to drain.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::response::IntoResponse as _;
use http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use super::listen::Listeners;
use super::paced::{Answering, Pace, Paced};
use super::permit::{Entrance, Permitted};
use crate::answer;

/// The most connections at once, per listener; more wait in the system's queue.
const MAX_CONNECTIONS: usize = 4_096;
/// The most headers of a request.
const MAX_HEADERS: usize = 128;
/// A pause after an error of accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// What a connection over the Unix socket counts as.
const UNIX_PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Paths that answer without a token.
const OPEN_PATHS: [&str; 2] = ["/livez", "/readyz"];

/// Serves `router` on all listeners until `drain`, then finishes the requests in flight; returns when the last is done or `grace` is over.
pub async fn serve(listeners: Listeners, router: Router, drain: CancellationToken, grace: Duration) {
    let connections = TaskTracker::new();
    let accepting = TaskTracker::new();
    let Listeners { tcp, unix, token, tcp_operations, socket_operations } = listeners;
    if let Some(listener) = tcp {
        let permitted = Permitted { entrance: Entrance::Tcp, permissions: tcp_operations };
        let gate = Gate { router: router.clone(), token: token.map(Arc::new), permitted, pace: Pace::default() };
        accepting.spawn(accept(Door::Tcp(listener), gate, connections.clone(), drain.clone()));
    }
    if let Some(socket) = unix {
        let permitted = Permitted { entrance: Entrance::Unix, permissions: socket_operations };
        let gate = Gate { router, token: None, permitted, pace: Pace::default() };
        let (connections, drain) = (connections.clone(), drain.clone());
        accepting.spawn(async move {
            accept(Door::Unix(&socket.listener), gate, connections, drain).await;
            drop(socket);
        });
    }
    accepting.close();
    accepting.wait().await;
    connections.close();
    if tokio::time::timeout(grace, connections.wait()).await.is_err() {
        tracing::warn!(connections = connections.len(), "closing connections that did not finish in time");
    }
}

enum Door<'a> {
    Tcp(TcpListener),
    Unix(&'a UnixListener),
}

/// The router behind the listener's token, and how long clients may take to ask it.
#[derive(Clone)]
struct Gate {
    router: Router,
    token: Option<Arc<SecretString>>,
    permitted: Permitted,
    pace: Pace,
}

async fn accept(door: Door<'_>, gate: Gate, connections: TaskTracker, drain: CancellationToken) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let permit = tokio::select! {
            () = drain.cancelled() => return,
            permit = room.clone().acquire_owned() => permit,
        };
        let accepted = tokio::select! {
            () = drain.cancelled() => return,
            accepted = next(&door) => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (gate, drain) = (gate.clone(), drain.clone());
                connections.spawn(async move {
                    match stream {
                        Stream::Tcp(stream) => connection(stream, peer, gate, drain).await,
                        Stream::Unix(stream) => connection(stream, peer, gate, drain).await,
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

enum Stream {
    Tcp(tokio::net::TcpStream),
    Unix(tokio::net::UnixStream),
}

async fn next(door: &Door<'_>) -> io::Result<(Stream, SocketAddr)> {
    match door {
        Door::Tcp(listener) => {
            let (stream, peer) = listener.accept().await?;
            stream.set_nodelay(true)?;
            Ok((Stream::Tcp(stream), peer))
        }
        Door::Unix(listener) => Ok((Stream::Unix(listener.accept().await?.0), UNIX_PEER)),
    }
}

async fn connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: S, peer: SocketAddr, gate: Gate, drain: CancellationToken) {
    let (answering, idle) = (Answering::default(), gate.pace.idle);
    let stream = Paced::new(stream, answering.clone(), gate.pace.head);
    let service = service_fn(move |request: Request<Incoming>| answering.clone().during(gate.clone().answer(request, peer)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // Runs from the end of the request before, so it bounds idle time.
        .header_read_timeout(idle)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = drain.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "a connection broke");
    }
}

impl Gate {
    async fn answer(mut self, request: Request<Incoming>, peer: SocketAddr) -> Result<Response<Body>, Infallible> {
        if !self.admits(&request) {
            let mut response = answer::refused(StatusCode::UNAUTHORIZED, "unauthorized", "send the listener's token").into_response();
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return Ok(response);
        }
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(self.permitted);
        // The router is always ready.
        Service::call(&mut self.router, request).await
    }

    fn admits<B>(&self, request: &Request<B>) -> bool {
        let Some(token) = &self.token else { return true };
        let sent = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
        let sent =
            sent.split_at_checked(7).filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer ")).map_or(&b""[..], |(_, token)| token);
        let right = bool::from(sent.ct_eq(token.expose_secret().as_bytes()));
        right || OPEN_PATHS.contains(&request.uri().path())
    }
}

#[cfg(test)]
mod tests;
