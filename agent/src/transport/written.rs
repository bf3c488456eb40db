//! Answers as JSON.

use serde::Serialize;
use weir_core::decision::Decision;
use weir_core::headers;

use crate::agent::Agent;

/// The answer of `/v1/check`, with the headers that the agent's settings ask for.
pub(super) fn decision(decision: &Decision, agent: &Agent) -> Vec<u8> {
    let headers = headers::headers(decision, agent.header_style(), agent.wall());
    json(&headers::answer(decision, &headers))
}

/// An answer of texts, truths and whole numbers, which always serialises.
pub(super) fn json(answer: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(answer).unwrap_or_default()
}
