//! A request that holds leases of `concurrency` rules: from the decision until the body of its answer has ended or is dropped.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use pin_project_lite::pin_project;

use crate::lease::LeaseGuard;

/// A request in flight, as its service finds it in the request's extensions wherever a `concurrency` rule applies.
///
/// The layer ends it with the answer's body. A service that goes on after that (over an upgraded connection, in a task of its own) keeps it:
///
/// ```
/// # use weir_agent::middleware::InFlight;
/// # fn handle<B>(request: &http::Request<B>) {
/// let held = request.extensions().get::<InFlight>().and_then(InFlight::keep);
/// tokio::spawn(async move {
///     // ... talks over the upgraded connection ...
///     drop(held);
/// });
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct InFlight(Arc<Mutex<Option<LeaseGuard>>>);

impl InFlight {
    pub(super) fn new(guard: LeaseGuard) -> Self {
        Self(Arc::new(Mutex::new(Some(guard))))
    }

    /// Takes over: the request is in flight until the guard is dropped. `None` if it has ended, or somebody has taken over already.
    #[must_use]
    pub fn keep(&self) -> Option<LeaseGuard> {
        self.0.lock().take()
    }
}

/// Ends a request in flight when it is dropped, unless somebody keeps it.
#[derive(Debug)]
pub(super) struct Ending(pub(super) InFlight);

impl Drop for Ending {
    fn drop(&mut self) {
        drop(self.0.keep());
    }
}

pin_project! {
    /// The body of the inner service's answer; with it ends the request.
    #[derive(Debug)]
    pub struct Leased<B> {
        #[pin]
        body: B,
        ending: Option<Ending>,
    }
}

impl<B> Leased<B> {
    pub(super) const fn new(body: B, ending: Option<Ending>) -> Self {
        Self { body, ending }
    }
}

impl<B: Body> Body for Leased<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(context));
        let goes_on = matches!(frame, Some(Ok(_))) && !this.body.is_end_stream();
        if !goes_on {
            // Whoever reads it may keep it for long.
            this.ending.take();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
