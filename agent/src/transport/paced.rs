//! How long a client may take: little once it has begun a request, more between two.
//!
//! Gateways keep idle connections for a minute or more. If the agent closed them first, a request could meet the close on its way and fail.
//! A client that has begun a request has no reason to pause.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// The times of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// How long it may be idle.
    pub(super) idle: Duration,
    /// How long a client may take from the first byte of a request's head to its last.
    pub(super) head: Duration,
}

impl Default for Pace {
    /// Idle for longer than gateways keep connections, which is 60 s in nginx and up to 90 s elsewhere.
    fn default() -> Self {
        Self { idle: Duration::from_secs(120), head: Duration::from_secs(10) }
    }
}

/// How often answering a request has begun or ended: while it is odd, one is being answered. Shared by a connection and its service.
#[derive(Debug, Clone, Default)]
pub(super) struct Answering(Arc<AtomicU64>);

impl Answering {
    /// Runs `answer`, during which what arrives is no head.
    pub(super) async fn during<T>(self, answer: impl Future<Output = T>) -> T {
        self.0.fetch_add(1, Ordering::Relaxed);
        let answer = answer.await;
        self.0.fetch_add(1, Ordering::Relaxed);
        answer
    }
}

/// A connection whose reads fail once the head of a request takes too long. Idle time is for the server to bound, and so is a head whose
/// beginning came together with the request before it.
pub(super) struct Paced<S> {
    stream: S,
    answering: Answering,
    within: Duration,
    /// What `answering` was at the last read.
    turn: u64,
    /// Nothing has come since the last answer.
    idle: bool,
    /// When the head that has begun must be there.
    head: Option<Pin<Box<Sleep>>>,
}

impl<S> Paced<S> {
    /// A head must be there `within` so long, the first one from now on: who connects has something to ask.
    pub(super) fn new(stream: S, answering: Answering, within: Duration) -> Self {
        Self { stream, answering, within, turn: 0, idle: false, head: Some(Box::pin(tokio::time::sleep(within))) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let turn = self.answering.0.load(Ordering::Relaxed);
        if std::mem::replace(&mut self.turn, turn) != turn {
            // The head that had begun was there, and has been answered or will be.
            self.head = None;
        }
        let answering = turn % 2 == 1;
        let before = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) {
            if self.idle && !answering && buffer.filled().len() > before {
                self.head = Some(Box::pin(tokio::time::sleep(self.within)));
            }
            self.idle = false;
            return Poll::Ready(read);
        }
        let Some(head) = &mut self.head else {
            self.idle = !answering;
            return Poll::Pending;
        };
        ready!(head.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the head of a request did not come in time")))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
