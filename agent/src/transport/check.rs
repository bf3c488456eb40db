//! `POST /v1/check` and `/v1/peek`: 200 whenever a decision was made, allowed or not.

use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};

use super::permit::Permitted;
use super::question::{Form, Question};
use super::{body, written};
use crate::agent::Agent;
use crate::answer::{self, Problem};
use crate::settings::Permission;

pub(super) async fn check(State(agent): State<Agent>, permitted: Permitted, request: Request) -> Response {
    let body = match body::read(request, &agent).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let question = match question(&body, Form::Check, permitted) {
        Ok(question) => question,
        Err(problem) => return problem.into_response(),
    };
    match agent.check(&question.request(&question.descriptors())).await {
        Ok(decision) => body::json(written::decision(&decision, &agent)),
        Err(error) => answer::undecidable(&error).into_response(),
    }
}

/// The same answer, and nothing is written.
pub(super) async fn peek(State(agent): State<Agent>, permitted: Permitted, request: Request) -> Response {
    let body = match body::read(request, &agent).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let question = match question(&body, Form::Check, permitted) {
        Ok(question) => question,
        Err(problem) => return problem.into_response(),
    };
    match agent.peek(&question.request(&question.descriptors())).await {
        Ok(decision) => body::json(written::decision(&decision, &agent)),
        Err(error) => answer::undecidable(&error).into_response(),
    }
}

/// The question of a body, if its listener accepts all of it.
pub(super) fn question(body: &[u8], form: Form, permitted: Permitted) -> Result<Question<'_>, Problem> {
    accepted(Question::from_json(body, form).map_err(|mistakes| answer::bad_request(&mistakes))?, permitted)
}

/// A question whose listener accepts all its fields.
pub(super) fn accepted(question: Question<'_>, permitted: Permitted) -> Result<Question<'_>, Problem> {
    if question.has_limits() {
        permitted.demand(Permission::Limits)?;
    }
    Ok(question)
}
