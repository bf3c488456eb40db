//! The service: decides, then refuses or calls the service within.

use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Either, Full};
use tower::Service;

use super::future::ResponseFuture;
use super::in_flight::Leased;
use super::layer::RateLimitLayer;

/// The body of an answer: the inner service's, or the layer's own.
pub type Body<B> = Either<Leased<B>, Full<Bytes>>;

/// A service that answers only what the agent allows.
#[derive(Debug, Clone)]
pub struct RateLimit<S> {
    inner: S,
    layer: RateLimitLayer,
}

impl<S> RateLimit<S> {
    pub(super) const fn new(inner: S, layer: RateLimitLayer) -> Self {
        Self { inner, layer }
    }
}

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for RateLimit<S>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone + Send + 'static,
    S::Future: Send,
    ReqBody: Send + 'static,
    ResBody: 'static,
    S::Error: 'static,
{
    type Response = Response<Body<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<ResBody, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        // The clone has not been polled ready: the one that has goes with the request, the clone stays for the next.
        let fresh = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, fresh);
        ResponseFuture::new(self.layer.clone(), ready, request)
    }
}
