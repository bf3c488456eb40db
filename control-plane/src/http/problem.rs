//! What went wrong, for the client: `application/problem+json` (RFC 9457).

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use weir_core::mistake::{Mistake, Mistakes};

/// A refusal or failure, ready to be answered. Boxed, since it is the rare half of many results.
#[derive(Debug, Clone)]
pub struct Problem(Box<Parts>);

#[derive(Debug, Clone)]
struct Parts {
    status: StatusCode,
    name: &'static str,
    title: &'static str,
    detail: String,
    errors: Vec<Mistake>,
    used_by: Vec<UsedBy>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Something that uses what was to be deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct UsedBy {
    /// `rule`, `tier`, ...
    pub kind: String,
    /// The domain it is in.
    pub domain: String,
    /// Its name.
    pub name: String,
}

impl UsedBy {
    /// A user of the thing.
    #[must_use]
    pub fn new(kind: &str, domain: &str, name: &str) -> Self {
        Self { kind: kind.to_owned(), domain: domain.to_owned(), name: name.to_owned() }
    }
}

/// The body of every answer that reports a problem.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Problem)]
pub struct Body {
    /// `urn:weir:problem:<name>`: stable, for programs.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same for people.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What went wrong here.
    pub detail: String,
    /// One entry per mistake in the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// What uses the thing that was to be deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub used_by: Vec<UsedBy>,
}

/// One mistake in a request.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Mistake)]
pub struct FieldError {
    /// Where: a JSON pointer (RFC 6901) into the body, or the name of a query parameter.
    pub pointer: String,
    /// What is wrong and what is allowed.
    pub detail: String,
}

impl Problem {
    /// A problem without extras. `name` goes into the type URI and never changes once released.
    #[must_use]
    pub fn new(status: StatusCode, name: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self(Box::new(Parts { status, name, title, detail, errors: Vec::new(), used_by: Vec::new(), headers: Vec::new() }))
    }

    /// 400: the request is wrong; `errors` says where.
    #[must_use]
    pub fn invalid(mistakes: Mistakes) -> Self {
        let count = mistakes.as_slice().len();
        let detail = match mistakes.as_slice().first() {
            Some(only) if count == 1 && only.pointer.is_empty() => only.detail.clone(),
            Some(only) if count == 1 => format!("{}: {}", only.pointer, only.detail),
            _ => format!("there are {count} mistakes"),
        };
        let mut problem = Self::new(StatusCode::BAD_REQUEST, "invalid", "The request has mistakes", detail);
        problem.0.errors = mistakes.into_iter().collect();
        problem
    }

    /// 400 with one mistake.
    #[must_use]
    pub fn mistake(pointer: &str, detail: impl Into<String>) -> Self {
        let mut mistakes = Mistakes::new();
        mistakes.add(pointer, detail);
        Self::invalid(mistakes)
    }

    /// 400: the body is no JSON at all, or the request cannot be read.
    #[must_use]
    pub fn malformed(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", "The request cannot be read", detail)
    }

    /// 401.
    #[must_use]
    pub fn unauthorized() -> Self {
        let detail = "sign in, or send a valid token: Authorization: Bearer weir_...";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "Credentials needed", detail)
            .with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"weir\""))
    }

    /// 403.
    #[must_use]
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "Not allowed", detail)
    }

    /// 404.
    #[must_use]
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "There is no such thing", detail)
    }

    /// 409: it exists already, or the state does not allow it.
    #[must_use]
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", "In conflict with what is there", detail)
    }

    /// 409: something still uses it.
    #[must_use]
    pub fn in_use(detail: impl Into<String>, used_by: Vec<UsedBy>) -> Self {
        let mut problem = Self::new(StatusCode::CONFLICT, "in-use", "Still in use", detail);
        problem.0.used_by = used_by;
        problem
    }

    /// 429: too many failed log-ins.
    #[must_use]
    pub fn too_many_attempts(wait: Duration) -> Self {
        let seconds = wait.as_millis().div_ceil(1000).max(1);
        let detail = format!("too many failed log-ins; try again in {seconds} s");
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many-attempts", "Too many failed log-ins", detail);
        match HeaderValue::from_str(&seconds.to_string()) {
            Ok(value) => problem.with_header(RETRY_AFTER, value),
            Err(_) => problem,
        }
    }

    /// 503: the database is away.
    #[must_use]
    pub fn unavailable() -> Self {
        let detail = "the database cannot be reached; nothing was changed. Agents go on with the rules they have";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "Not available now", detail)
            .with_header(RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// 503: the database is there, but took too long.
    #[must_use]
    pub fn slow() -> Self {
        let detail = "the database took too long to answer; nothing was changed. Ask for less at a time, or try again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "slow", "The database took too long", detail)
            .with_header(RETRY_AFTER, HeaderValue::from_static("5"))
    }

    /// 500: a fault of ours. The cause is logged, never answered.
    #[must_use]
    pub fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(%cause, "internal error");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "An error of the control plane", "the control plane's log says more")
    }

    /// The same with one more response header.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// What went wrong, for people.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.0.detail
    }
}

impl From<Mistakes> for Problem {
    fn from(mistakes: Mistakes) -> Self {
        Self::invalid(mistakes)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let parts = *self.0;
        let body = Body {
            kind: format!("urn:weir:problem:{}", parts.name),
            title: parts.title.to_owned(),
            status: parts.status.as_u16(),
            detail: parts.detail,
            errors: parts.errors.into_iter().map(|m| FieldError { pointer: m.pointer, detail: m.detail }).collect(),
            used_by: parts.used_by,
        };
        let text = serde_json::to_string(&body).unwrap_or_default();
        let mut response = (parts.status, [(CONTENT_TYPE, "application/problem+json")], text).into_response();
        response.headers_mut().extend(parts.headers);
        response
    }
}
