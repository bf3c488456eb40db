//! `POST /v1/acquire` and `/v1/release`: a check whose leases of `concurrency` rules are given back once its request is over.

use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use weir_core::decision::{Cause, Decision};
use weir_core::headers;
use weir_core::mistake::Mistakes;
use weir_core::name::MAX_LENGTH;

use super::check::question;
use super::json::{Json, REPEATED, escaped, text};
use super::permit::Permitted;
use super::question::Form;
use super::{body, written};
use crate::agent::Agent;
use crate::answer;
use crate::lease::{Lease, holds};

/// Decides as a check does. `lease` is what to release; null: nothing is held.
pub(super) async fn acquire(State(agent): State<Agent>, permitted: Permitted, request: Request) -> Response {
    let body = match body::read(request, &agent).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let question = match question(&body, Form::Check, permitted) {
        Ok(question) => question,
        Err(problem) => return problem.into_response(),
    };
    match agent.acquire(&question.request(&question.descriptors())).await {
        Ok((decision, lease)) => acquired(&decision, lease.as_ref(), &agent),
        Err(error) => answer::undecidable(&error).into_response(),
    }
}

#[derive(Serialize)]
struct Acquired<A> {
    #[serde(flatten)]
    answer: A,
    lease: Option<String>,
    lease_expires_after_ms: Option<u64>,
}

fn acquired(decision: &Decision, lease: Option<&Lease>, agent: &Agent) -> Response {
    let headers = headers::headers(decision, agent.header_style(), agent.wall());
    let expires = decision.limits.iter().filter(|limit| holds(limit)).map(|limit| limit.window_us / 1_000).min();
    let answer = Acquired {
        answer: headers::answer(decision, &headers),
        lease: lease.map(Lease::to_string),
        lease_expires_after_ms: expires.filter(|_| lease.is_some()),
    };
    body::json(written::json(&answer))
}

/// Ends what a lease holds. To do it again is no mistake.
pub(super) async fn release(State(agent): State<Agent>, request: Request) -> Response {
    let body = match body::read(request, &agent).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let lease = match lease(&body, &agent) {
        Ok(lease) => lease,
        Err(mistakes) => return answer::bad_request(&mistakes).into_response(),
    };
    let released = agent.release(&lease).await;
    let answer = Released { released: released.ok(), error: released.err() };
    body::json(written::json(&answer))
}

/// Whether it held anything; null: a shard did not answer, and what it holds there expires.
#[derive(Serialize)]
struct Released {
    released: Option<bool>,
    error: Option<Cause>,
}

/// The lease of `{"domain": "...", "lease": "..."}`.
fn lease(body: &[u8], agent: &Agent) -> Result<Lease, Mistakes> {
    let (mut domain, mut lease, mut mistakes) = (None, None, Mistakes::new());
    for (field, value) in Json::parse(body)?.into_object()? {
        let place = match &*field {
            "domain" => &mut domain,
            "lease" => &mut lease,
            _ => {
                mistakes.add(format!("/{}", escaped(&field)), "is not a field; the fields are domain, lease");
                continue;
            }
        };
        match value {
            _ if place.is_some() => mistakes.add(format!("/{field}"), REPEATED),
            value => *place = Some(value),
        }
    }
    match domain.filter(|domain| !matches!(domain, Json::Null)).map_or(Ok("default".into()), |domain| text(domain, 1, MAX_LENGTH)) {
        Ok(domain) if agent.serves(&domain) => {}
        Ok(domain) => mistakes.add("/domain", format!("this agent does not serve the domain {domain:?}")),
        Err(mistake) => mistakes.add("/domain", mistake),
    }
    let lease = match lease {
        None | Some(Json::Null) => Err("is missing".to_owned()),
        Some(lease) => text(lease, 1, usize::MAX).and_then(|lease| lease.parse().map_err(|error: crate::lease::NoLease| error.to_string())),
    };
    match lease {
        Ok(lease) => mistakes.into_result(lease),
        Err(mistake) => {
            mistakes.add("/lease", mistake);
            Err(mistakes)
        }
    }
}
