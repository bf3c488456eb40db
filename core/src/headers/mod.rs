//! From a decision to what a client sees: rate-limit headers and the problem body, in one place for every surface.
//!
//! `RateLimit-Policy` lists every limit that can refuse; the other fields report the strictest one. Numbers that no counter gave
//! (unlimited rules, degraded decisions of mode `open` or `closed`) are left out, never invented.

mod answer;
mod fields;
mod problem;
#[cfg(test)]
mod tests;

use std::time::Duration;

use http::HeaderMap;
use serde::Serialize;

use crate::decision::{Decision, Reason};

/// Which headers answers carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeaderStyle {
    /// `RateLimit-Policy`, `RateLimit` (draft 10) and `X-RateLimit-Limit/-Remaining/-Reset` (epoch seconds).
    #[default]
    Full,
    /// The older triple `RateLimit-Limit/-Remaining/-Reset` (delta seconds).
    Triple,
    /// `X-RateLimit-*` with `Reset` in delta seconds, beside `RateLimit-Policy` and `RateLimit`.
    DeltaReset,
    /// None but `Retry-After`.
    None,
}

/// The headers of `decision`; `wall` is the time since the epoch. `Retry-After` only on refusal.
#[must_use]
pub fn headers(decision: &Decision, style: HeaderStyle, wall: Duration) -> HeaderMap {
    fields::headers(decision, style, wall)
}

/// The `application/problem+json` body of a refusal.
#[must_use]
pub fn problem(decision: &Decision) -> impl Serialize {
    problem::problem(decision)
}

/// The answer of `/v1/check` : the decision, every limit in it, and the headers to pass on.
#[must_use]
pub fn answer<'a>(decision: &'a Decision, headers: &'a HeaderMap) -> impl Serialize + use<'a> {
    answer::answer(decision, headers)
}

/// How long a client waits whose shard is away: short, since recovery is automatic.
pub const UNAVAILABLE_RETRY_US: u64 = 1_000_000;

/// When the refused request may come back; `None` if it was allowed or never can pass.
#[must_use]
pub fn retry_after_us(decision: &Decision) -> Option<u64> {
    match decision.reason {
        Reason::Ok | Reason::Blocked | Reason::CostExceedsCapacity => None,
        Reason::Limited => decision.strictest_limit()?.retry_after_us,
        Reason::Unavailable => Some(UNAVAILABLE_RETRY_US),
    }
}

/// `Retry-After` in whole seconds: rounded up, at least 1.
#[must_use]
pub fn retry_after_seconds(decision: &Decision) -> Option<u64> {
    retry_after_us(decision).map(|us| seconds(us).max(1))
}

/// Whole seconds, rounded up: a client that waits them has waited long enough.
const fn seconds(us: u64) -> u64 {
    us.div_ceil(1_000_000)
}

/// Whole milliseconds, rounded up.
const fn millis(us: u64) -> u64 {
    us.div_ceil(1_000)
}
