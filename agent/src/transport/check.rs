//! `POST /v1/check`: 200 whenever a decision was made, allowed or not.

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use weir_core::headers;

use super::question::Question;
use crate::agent::Agent;
use crate::answer;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(super) async fn check(State(agent): State<Agent>, headers: HeaderMap, body: Result<Bytes, BytesRejection>) -> Response {
    if !is_json(&headers) {
        // A web page can make a browser post a form to this machine, but not JSON.
        return answer::refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", "send the question as application/json").into_response();
    }
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return answer::refused(rejection.status(), "body", &rejection.body_text()).into_response(),
    };
    let question = match Question::from_json(&body) {
        Ok(question) => question,
        Err(mistakes) => return answer::bad_request(&mistakes).into_response(),
    };
    match question.ask(&agent).await {
        Ok(decision) => {
            let headers = headers::headers(&decision, agent.header_style(), agent.wall());
            let body = headers::answer(&decision, &headers).to_string();
            ([(CONTENT_TYPE, JSON)], body).into_response()
        }
        Err(error) => answer::undecidable(&error).into_response(),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_none_or(|value| {
        let value = value.to_str().unwrap_or_default();
        let essence = value.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case("application/json")
    })
}
