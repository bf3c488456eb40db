//! The body of a question, within its bounds of type, size and time; and JSON as an answer.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest as _, Request};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue};

use crate::agent::Agent;
use crate::answer;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// How long a client may take to send the body.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The whole body.
///
/// # Errors
/// The answer to who sent none, of another type, too large or too slowly.
pub(super) async fn read(request: Request, agent: &Agent) -> Result<Bytes, Response> {
    read_within(request, agent, TIMEOUT).await
}

async fn read_within(request: Request, agent: &Agent, within: Duration) -> Result<Bytes, Response> {
    if !is_json(request.headers()) {
        // A web page can have a browser post to this machine whatever it likes, with any other type or none, but not JSON.
        let refusal =
            answer::refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", "send the question with Content-Type: application/json");
        return Err(refusal.into_response());
    }
    match tokio::time::timeout(within, Bytes::from_request(request, agent)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(rejection)) => Err(answer::refused(rejection.status(), "body", &rejection.body_text()).into_response()),
        Err(_) => {
            let mut refusal = answer::refused(StatusCode::REQUEST_TIMEOUT, "body", "the body did not come in time").into_response();
            refusal.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            Err(refusal)
        }
    }
}

/// 200 with JSON that is written already.
pub(super) fn json(body: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, JSON)], body).into_response()
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| {
        let value = value.to_str().unwrap_or_default();
        let essence = value.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case("application/json")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{AgentSettings, RulesFrom};

    #[tokio::test]
    async fn a_body_that_does_not_come_is_not_waited_for() {
        let settings = AgentSettings::new("test".parse().unwrap(), RulesFrom::Given(Vec::new()));
        let agent = Agent::start(settings).await.unwrap();
        let request = |body| Request::builder().header(CONTENT_TYPE, "application/json").body(body).unwrap();
        let never = axum::body::Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
        let refusal = read_within(request(never), &agent, Duration::from_millis(50)).await.unwrap_err();
        assert_eq!((refusal.status(), &refusal.headers()[CONNECTION]), (StatusCode::REQUEST_TIMEOUT, &HeaderValue::from_static("close")));
        assert_eq!(read(request("{}".into()), &agent).await.unwrap(), "{}");
        agent.shutdown().await;
    }
}
