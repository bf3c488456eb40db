//! From a decision to an HTTP answer, the same for `/authz` and the middleware.

use std::time::Duration;

use axum::response::IntoResponse;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use serde_json::{Value, json};
use weir_core::decision::Decision;
use weir_core::headers::{self, HeaderStyle};
use weir_core::mistake::{Mistake, Mistakes};
use weir_core::ruleset::ChoiceError;

use crate::check::CheckError;

/// The media type of every error body.
pub const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// An error as HTTP tells it (RFC 9457).
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    code: StatusCode,
    body: Value,
}

impl Problem {
    /// The body, which has the status too.
    #[must_use]
    pub const fn body(&self) -> &Value {
        &self.body
    }

    /// The whole answer.
    #[must_use]
    pub fn respond(&self) -> Response<Full<Bytes>> {
        problem(self.code, &self.body)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> axum::response::Response {
        self.respond().into_response()
    }
}

/// The answer to a request that may pass (200, no body) or not (by the status table, with a problem body).
#[must_use]
pub fn decided(decision: &Decision, style: HeaderStyle, wall: Duration) -> Response<Full<Bytes>> {
    let headers = headers::headers(decision, style, wall);
    let mut response = if decision.allowed() {
        Response::new(Full::default())
    } else {
        problem(status(decision.reason.status()), &headers::problem(decision))
    };
    response.headers_mut().extend(headers);
    response
}

/// The answer to a question that cannot be decided.
#[must_use]
pub fn undecidable(error: &CheckError) -> Problem {
    let (pointer, detail) = match error {
        CheckError::UnknownDomain(_) => ("/domain".to_owned(), error.to_string()),
        CheckError::NotApplied(_) => ("/rules".to_owned(), error.to_string()),
        CheckError::Choice(ChoiceError::Override { rule, field, detail }) => (format!("/limits/{rule}/{field}"), detail.clone()),
        CheckError::Choice(_) => (String::new(), error.to_string()),
    };
    let mut mistakes = Mistakes::new();
    mistakes.add(pointer, detail);
    bad_request(&mistakes)
}

/// 400 with one entry per mistake.
#[must_use]
pub fn bad_request(mistakes: &Mistakes) -> Problem {
    let detail = match mistakes.as_slice() {
        [Mistake { pointer, detail }] if pointer.is_empty() => detail.clone(),
        [Mistake { pointer, detail }] => format!("{pointer}: {detail}"),
        all => format!("the request has {} mistakes", all.len()),
    };
    let body = json!({
        "type": "urn:weir:problem:bad-request", "title": "Bad Request", "status": 400, "detail": detail, "errors": mistakes,
    });
    Problem { code: StatusCode::BAD_REQUEST, body }
}

/// Any other refusal of a listener.
#[must_use]
pub fn refused(code: StatusCode, name: &str, detail: &str) -> Problem {
    let body = json!({
        "type": format!("urn:weir:problem:{name}"),
        "title": code.canonical_reason().unwrap_or_default(),
        "status": code.as_u16(),
        "detail": detail,
    });
    Problem { code, body }
}

fn problem(code: StatusCode, body: &impl Serialize) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(serde_json::to_vec(body).unwrap_or_default()));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, PROBLEM_JSON);
    // A 429 must not be stored by a cache (RFC 6585, section 4), nor should the others be.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
