//! From a decision to what a client sees: rate-limit headers and the problem body, in one place for every surface.

use std::time::Duration;

use http::HeaderMap;
use serde_json::Value;

use crate::decision::Decision;

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
pub fn headers(_decision: &Decision, _style: HeaderStyle, _wall: Duration) -> HeaderMap {
    todo!()
}

/// The `application/problem+json` body of a refusal.
#[must_use]
pub fn problem(_decision: &Decision) -> Value {
    todo!()
}

/// The answer of `/v1/check` as design section 9 shows it.
#[must_use]
pub fn answer(_decision: &Decision, _headers: &HeaderMap) -> Value {
    todo!()
}
