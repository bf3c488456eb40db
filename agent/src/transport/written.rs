//! Decisions as JSON.

use weir_core::decision::Decision;
use weir_core::headers;

use crate::agent::Agent;

/// The answer of `/v1/check`, with the headers that the agent's settings ask for.
pub(super) fn decision(decision: &Decision, agent: &Agent) -> Vec<u8> {
    let headers = headers::headers(decision, agent.header_style(), agent.wall());
    // Texts and whole numbers: they always serialise.
    serde_json::to_vec(&headers::answer(decision, &headers)).unwrap_or_default()
}
