//! Reads requests strictly: unknown query parameters, odd bodies and missing conditions are refused, always as a problem.

use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, IF_MATCH};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use super::problem::Problem;
use super::strict;

/// The largest body of one resource.
pub const MAX_BODY: usize = 1 << 20;
/// How long a client may take to send a body.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest rules document.
pub const MAX_RULES_BODY: usize = 8 << 20;

/// Query parameters. `T` denies unknown fields.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let read = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        let query = read.map_err(|error| Problem::mistake("", format!("query parameters: {}", innermost(&error))))?;
        Ok(Self(query.0))
    }
}

/// A path's variable part. What cannot be read names nothing that exists.
#[derive(Debug)]
pub struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        read.map(|path| Self(path.0)).map_err(|error: PathRejection| Problem::not_found(innermost(&error)))
    }
}

/// A JSON body of at most `LIMIT` bytes, as a value that the reader of its kind looks into. The member `meta` of the top level is
/// dropped: answers have it, and what was read may be sent back.
#[derive(Debug)]
pub struct Body<const LIMIT: usize = MAX_BODY>(pub Value);

impl<S: Send + Sync, const LIMIT: usize> FromRequest<S> for Body<LIMIT> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            let detail = "send JSON, with the header Content-Type: application/json";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "Not JSON", detail));
        }
        let bytes = whole(request.into_body(), LIMIT, BODY_TIMEOUT).await?;
        let mut value =
            strict::read(&bytes).map_err(|error| Problem::malformed(format!("the body is not JSON that can be read: {error}")))?;
        if let Some(object) = value.as_object_mut() {
            object.shift_remove("meta");
        }
        Ok(Self(value))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// A body of at most `limit` bytes that comes in time.
async fn whole(body: axum::body::Body, limit: usize, patience: Duration) -> Result<Bytes, Problem> {
    let bytes = timeout(patience, to_bytes(body, limit)).await.map_err(|_| too_slow())?;
    bytes.map_err(|error| too_large(limit, &error))
}

/// The connection is closed with it: the rest of the body would still come.
fn too_slow() -> Problem {
    let detail = format!("the body did not come within {} s", BODY_TIMEOUT.as_secs());
    let problem = Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "The body came too slowly", detail);
    problem.with_header(CONNECTION, HeaderValue::from_static("close"))
}

fn too_large(limit: usize, error: &axum::Error) -> Problem {
    let limited = std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<http_body_util::LengthLimitError>);
    if limited {
        let detail = format!("the body has more than {limit} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "The body is too large", detail)
    } else {
        Problem::malformed("the body broke off")
    }
}

/// The condition of a write: the ETag that the client has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfMatch {
    /// `*`: whatever is there.
    Any,
    /// One of these.
    OneOf(Vec<String>),
}

impl IfMatch {
    /// That the condition holds for a resource that has `etag`.
    ///
    /// # Errors
    /// 412: somebody else was faster.
    pub fn check(&self, etag: &str) -> Result<(), Problem> {
        match self {
            Self::OneOf(tags) if !tags.iter().any(|tag| tag == etag) => {
                let detail = format!("it was changed meanwhile and has the ETag {etag} now: read it again and decide anew");
                Err(Problem::new(StatusCode::PRECONDITION_FAILED, "changed", "Changed meanwhile", detail))
            }
            _ => Ok(()),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let values: Vec<&str> = parts.headers.get_all(IF_MATCH).iter().filter_map(|v| v.to_str().ok()).collect();
        if values.is_empty() {
            let detail = "send the ETag that you have read: If-Match: \"...\" (or If-Match: * for whatever is there)";
            return Err(Problem::new(StatusCode::PRECONDITION_REQUIRED, "if-match-needed", "If-Match needed", detail));
        }
        let tags: Vec<String> = values.iter().flat_map(|v| v.split(',')).map(|tag| tag.trim().to_owned()).collect();
        Ok(if tags.iter().any(|tag| tag == "*") { Self::Any } else { Self::OneOf(tags) })
    }
}

/// The last cause of an error: the one that says what is wrong.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_that_does_not_come_is_not_waited_for_for_ever() {
        let never = axum::body::Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
        let problem = whole(never, MAX_BODY, Duration::from_millis(20)).await.unwrap_err();
        assert_eq!(problem.status(), StatusCode::REQUEST_TIMEOUT);
    }

    #[test]
    fn conditions_hold_for_the_etag_seen_and_for_a_star() {
        let seen = IfMatch::OneOf(vec!["\"7\"".into(), "\"8\"".into()]);
        assert!(seen.check("\"8\"").is_ok());
        assert_eq!(seen.check("\"9\"").unwrap_err().status(), 412);
        assert_eq!(IfMatch::OneOf(vec!["W/\"9\"".into()]).check("\"9\"").unwrap_err().status(), 412);
        assert!(IfMatch::Any.check("\"9\"").is_ok());
    }
}
