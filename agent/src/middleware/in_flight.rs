//! A request that holds leases of `concurrency` rules: from the decision until the body of its answer has ended or is dropped.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use pin_project_lite::pin_project;

use crate::lease::LeaseGuard;

/// A request in flight, as its service finds it in the request's extensions wherever a `concurrency` rule applies. Of several layers around
/// the service it holds what all of them hold.
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
pub struct InFlight {
    guard: Arc<Mutex<Option<LeaseGuard>>>,
    /// Of the layer around.
    outer: Option<Arc<InFlight>>,
}

impl InFlight {
    pub(super) fn new(guard: LeaseGuard, outer: Option<Self>) -> Self {
        Self { guard: Arc::new(Mutex::new(Some(guard))), outer: outer.map(Arc::new) }
    }

    /// Takes over: the request is in flight until what this returns is dropped. `None` if it has ended, or somebody has taken over already.
    #[must_use]
    pub fn keep(&self) -> Option<Kept> {
        let outer = self.outer.as_ref().and_then(|outer| outer.keep());
        let guards: Vec<LeaseGuard> = self.guard.lock().take().into_iter().chain(outer.into_iter().flat_map(|outer| outer.0)).collect();
        (!guards.is_empty()).then_some(Kept(guards))
    }
}

/// What a service holds that has taken over its request: dropped, it ends the leases of all layers around the service.
#[derive(Debug)]
pub struct Kept(Vec<LeaseGuard>);

/// Ends a request in flight when it is dropped, unless somebody keeps it.
#[derive(Debug)]
pub(super) struct Ending(pub(super) InFlight);

impl Drop for Ending {
    fn drop(&mut self) {
        drop(self.0.guard.lock().take());
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
