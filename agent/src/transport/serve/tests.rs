//! How long a client may take between requests and for one.

use std::time::Instant;

use axum::routing::post;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::*;

const PACE: Pace = Pace { idle: Duration::from_secs(2), head: Duration::from_millis(300) };
const ASK: &[u8] = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";

fn connect() -> DuplexStream {
    // One handler that reads the body, and one that leaves it to the server.
    let router = Router::new().route("/", post(async |_: axum::body::Bytes| "read")).fallback(async || "unread");
    let (client, server) = tokio::io::duplex(64 << 10);
    tokio::spawn(connection(
        server,
        UNIX_PEER,
        Gate { router, token: None, permitted: Permitted::default(), pace: PACE },
        CancellationToken::new(),
    ));
    client
}

/// What the server says next; empty once it has closed the connection.
async fn read(client: &mut DuplexStream) -> String {
    let mut bytes = vec![0; 4096];
    let reading = tokio::time::timeout(Duration::from_secs(20), client.read(&mut bytes));
    let count = reading.await.expect("an answer or the end").unwrap_or_default();
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

async fn answers(client: &mut DuplexStream, request: &[u8]) {
    client.write_all(request).await.unwrap();
    let answer = read(client).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// The server has no time for a head left when a connection is idle, whatever came before: gateways keep theirs for long.
#[tokio::test]
async fn an_idle_connection_is_kept_longer_than_a_head_may_take() {
    let unread = String::from_utf8_lossy(ASK).replace("/ HTTP", "/unread HTTP");
    let (first, second) = ASK.split_at(20);
    for pieces in [&[ASK][..], &[unread.as_bytes()], &[first, second]] {
        let mut client = connect();
        for piece in &pieces[..pieces.len() - 1] {
            client.write_all(piece).await.unwrap();
            tokio::time::sleep(PACE.head / 3).await;
        }
        answers(&mut client, pieces[pieces.len() - 1]).await;
        tokio::time::sleep(PACE.head * 3).await;
        answers(&mut client, ASK).await;
        let idle = Instant::now();
        assert_eq!(read(&mut client).await, "");
        assert!(idle.elapsed() >= PACE.idle - PACE.head, "{:?}", idle.elapsed());
    }
    assert!(Pace::default().idle > Duration::from_secs(75));
}

/// A client that has begun a request must go on with it, however slowly it trickles, on its first request and on later ones.
#[tokio::test]
async fn a_head_that_has_begun_must_end_soon() {
    for before in 0..3 {
        let mut client = connect();
        for _ in 0..before {
            answers(&mut client, ASK).await;
        }
        let since = Instant::now();
        client.write_all(b"POST /").await.unwrap();
        while client.write_all(b"a").await.is_ok() {
            tokio::time::sleep(PACE.head / 10).await;
        }
        assert!(since.elapsed() >= PACE.head && since.elapsed() < PACE.idle, "{before}: {:?}", since.elapsed());
    }
}

/// Who connects has something to ask: silent connections do not take the places of others for long.
#[tokio::test]
async fn a_connection_that_says_nothing_is_closed_soon() {
    let since = Instant::now();
    assert_eq!(read(&mut connect()).await, "");
    assert!(since.elapsed() >= PACE.head && since.elapsed() < PACE.idle, "{:?}", since.elapsed());
}
