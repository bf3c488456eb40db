//! One request on its way through the layer.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use http_body_util::Either;
use tower::Service;
use weir_core::headers;
use weir_core::request::Request as Question;

use super::error::Undecidable;
use super::in_flight::{Ending, InFlight, Leased};
use super::layer::{RateLimitLayer, Scope};
use super::service::Body;
use crate::answer;
use crate::identity;
use crate::lease::Lease;

type Answer<B, E> = Result<Response<Body<B>>, E>;

/// Resolves to the inner service's answer with rate-limit headers, to a refusal, or to the inner service's error.
pub struct ResponseFuture<B, E>(Pin<Box<dyn Future<Output = Answer<B, E>> + Send>>);

impl<B, E> ResponseFuture<B, E> {
    pub(super) fn new<S, ReqBody>(layer: RateLimitLayer, mut inner: S, request: Request<ReqBody>) -> Self
    where
        S: Service<Request<ReqBody>, Response = Response<B>, Error = E> + Send + 'static,
        S::Future: Send,
        ReqBody: Send + 'static,
    {
        Self(Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            match decide(&layer, &parts).await {
                Err(response) => Ok(response.map(Either::Right)),
                Ok((headers, lease)) => {
                    let held = lease.map(|lease| InFlight::new(layer.agent.hold(&lease), parts.extensions.get().cloned()));
                    // Also if the service fails, or nobody waits for its answer.
                    let ending = held.clone().map(Ending);
                    if let Some(held) = held {
                        parts.extensions.insert(held);
                    }
                    let mut response = inner.call(Request::from_parts(parts, body)).await?;
                    add(response.headers_mut(), &headers);
                    Ok(response.map(|body| Either::Left(Leased::new(body, ending))))
                }
            }
        }))
    }
}

impl<B, E> Future for ResponseFuture<B, E> {
    type Output = Answer<B, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl<B, E> std::fmt::Debug for ResponseFuture<B, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResponseFuture")
    }
}

/// The headers of a request that may pass and what it holds, or the answer to one that may not.
async fn decide(layer: &RateLimitLayer, parts: &Parts) -> Result<(HeaderMap, Option<Lease>), Response<http_body_util::Full<bytes::Bytes>>> {
    let question = question(&layer.scope, parts).map_err(Undecidable::into_response)?;
    let (decision, lease) = layer.agent.acquire(&question).await.map_err(|error| Undecidable::from(error).into_response())?;
    let (style, wall) = (layer.agent.header_style(), layer.agent.wall());
    if decision.allowed() { Ok((headers::headers(&decision, style, wall), lease)) } else { Err(answer::decided(&decision, style, wall)) }
}

fn question<'a>(scope: &'a Scope, parts: &'a Parts) -> Result<Question<'a>, Undecidable> {
    let caller = scope.identity.caller(identity::peer(&parts.extensions), &parts.headers)?;
    Ok(Question {
        domain: &scope.domain,
        subject: caller.subject,
        tier: caller.tier,
        method: Some(parts.method.as_str()),
        // HTTP/2 and requests to proxies carry the host in the target, HTTP/1.1 in a header.
        host: parts.uri.host().or_else(|| parts.headers.get(HOST).and_then(|host| host.to_str().ok())),
        path: Some(parts.uri.path()),
        headers: &parts.headers,
        client_ip: caller.client_ip,
        descriptors: &[],
        cost: 1,
        limits: None,
    })
}

/// Adds the headers, unless the inner service has set them itself: its own word about its limits is better than ours (a service that
/// calls another limiter passes that one's on).
fn add(to: &mut HeaderMap, headers: &HeaderMap) {
    for (name, value) in headers {
        to.entry(name).or_insert_with(|| value.clone());
    }
}
