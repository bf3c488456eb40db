//! `POST /v1/record`, `/v1/refund` and `/v1/reset`: what changes counters other than by a decision. Only where the listener's settings name it.
//!
//! 200 whenever it was done or tried: what each rule's counter came to is in the answer, with `error` where its shard did not answer. It is
//! never tried again, since it may have happened.

use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use weir_core::decision::{Cause, Degraded, LimitDecision, LimitMode, Source};
use weir_core::limit::Algorithm;
use weir_core::name::Name;

use super::check::question;
use super::permit::Permitted;
use super::question::Form;
use super::{body, written};
use crate::agent::Agent;
use crate::answer;
use crate::check::{CheckError, Recorded, Undone};
use crate::settings::Permission;

/// Consumes without deciding. The answer has each rule that applies, with what is left.
pub(super) async fn record(State(agent): State<Agent>, permitted: Permitted, request: Request) -> Response {
    let body = match permitted_body(permitted, Permission::Record, request, &agent).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    match question(&body, Form::Record, permitted) {
        Ok(question) => answered(agent.record(&question.request(&question.descriptors())).await, recorded),
        Err(problem) => problem.into_response(),
    }
}

/// Gives units back. The answer has them by rule.
pub(super) async fn refund(State(agent): State<Agent>, permitted: Permitted, request: Request) -> Response {
    let body = match permitted_body(permitted, Permission::Refund, request, &agent).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    match question(&body, Form::Refund, permitted) {
        Ok(question) => answered(agent.refund(&question.request(&question.descriptors()), question.rules()).await, |undone| {
            undone_as(undone, |rule, refunded, error| RefundedRule { rule, refunded, error })
        }),
        Err(problem) => problem.into_response(),
    }
}

/// Clears counters. The answer has by rule whether there was one.
pub(super) async fn reset(State(agent): State<Agent>, permitted: Permitted, request: Request) -> Response {
    let body = match permitted_body(permitted, Permission::Reset, request, &agent).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    match question(&body, Form::Reset, permitted) {
        Ok(question) => answered(agent.reset(&question.request(&question.descriptors()), question.rules()).await, |undone| {
            undone_as(undone, |rule, reset, error| ResetRule { rule, reset, error })
        }),
        Err(problem) => problem.into_response(),
    }
}

async fn permitted_body(permitted: Permitted, operation: Permission, request: Request, agent: &Agent) -> Result<bytes::Bytes, Response> {
    permitted.demand(operation).map_err(axum::response::IntoResponse::into_response)?;
    body::read(request, agent).await
}

fn answered<T>(result: Result<T, CheckError>, answer: impl FnOnce(&T) -> Vec<u8>) -> Response {
    match result {
        Ok(result) => body::json(answer(&result)),
        Err(error) => answer::undecidable(&error).into_response(),
    }
}

#[derive(Serialize)]
struct RecordAnswer<'a> {
    degraded: Option<Degraded>,
    tier: Option<&'a Name>,
    limits: Vec<RecordedLimit<'a>>,
    revision: u64,
}

/// One rule, and what its counter says now; without a counter, nothing.
#[derive(Serialize)]
struct RecordedLimit<'a> {
    rule: &'a Name,
    algorithm: Algorithm,
    recorded: bool,
    limit: Option<u64>,
    window_ms: Option<u64>,
    remaining: Option<u64>,
    reset_after_ms: Option<u64>,
    mode: LimitMode,
    source: &'a Source,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<&'a Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    degraded: Option<Degraded>,
}

fn recorded(recorded: &Recorded) -> Vec<u8> {
    let limits = recorded.limits.iter().map(recorded_limit).collect();
    written::json(&RecordAnswer { degraded: recorded.degraded, tier: recorded.tier.as_ref(), limits, revision: recorded.revision })
}

fn recorded_limit(limit: &LimitDecision) -> RecordedLimit<'_> {
    let counted = Recorded::counted(limit);
    RecordedLimit {
        rule: &limit.rule,
        algorithm: limit.algorithm,
        recorded: counted,
        limit: limit.limit,
        window_ms: limit.limit.map(|_| limit.window_us.div_ceil(1_000)),
        remaining: counted.then_some(limit.remaining),
        reset_after_ms: counted.then(|| limit.reset_after_us.div_ceil(1_000)),
        mode: limit.mode,
        source: &limit.source,
        key: limit.key.as_ref().map(weir_core::key::CounterKey::as_str),
        shard: limit.shard.as_ref(),
        degraded: limit.degraded,
    }
}

#[derive(Serialize)]
struct UndoAnswer<R> {
    rules: Vec<R>,
    revision: u64,
}

/// Units that came back; null: nobody knows.
#[derive(Serialize)]
struct RefundedRule<'a> {
    rule: &'a Name,
    refunded: Option<u64>,
    error: Option<Cause>,
}

/// Whether there was a counter; null: nobody knows.
#[derive(Serialize)]
struct ResetRule<'a> {
    rule: &'a Name,
    reset: Option<bool>,
    error: Option<Cause>,
}

fn undone_as<'a, T: Copy, R: Serialize>(undone: &'a Undone<T>, of: impl Fn(&'a Name, Option<T>, Option<Cause>) -> R) -> Vec<u8> {
    let rules = undone.rules.iter().map(|done| of(&done.rule, done.result.ok(), done.result.err())).collect();
    written::json(&UndoAnswer { rules, revision: undone.revision })
}
