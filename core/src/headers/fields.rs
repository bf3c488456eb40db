//! The header fields. Names are safe in a structured-field string by their alphabet, so nothing needs escaping.

use std::fmt::Write as _;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};

use super::{HeaderStyle, retry_after_seconds, seconds};
use crate::decision::{Decision, LimitDecision, LimitMode, Reason};
use crate::limit::Algorithm;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Names of the three fields that say limit, remaining and reset.
struct Triple {
    limit: HeaderName,
    remaining: HeaderName,
    reset: HeaderName,
}

const X_RATE_LIMIT: Triple = Triple {
    limit: HeaderName::from_static("x-ratelimit-limit"),
    remaining: HeaderName::from_static("x-ratelimit-remaining"),
    reset: HeaderName::from_static("x-ratelimit-reset"),
};
const OLDER: Triple = Triple {
    limit: HeaderName::from_static("ratelimit-limit"),
    remaining: HeaderName::from_static("ratelimit-remaining"),
    reset: HeaderName::from_static("ratelimit-reset"),
};

/// The largest integer of a structured field (RFC 9651): 15 digits.
const MAX_INTEGER: u64 = 999_999_999_999_999;

pub(super) fn headers(decision: &Decision, style: HeaderStyle, wall: Duration) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    if let Some(seconds) = retry_after_seconds(decision) {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if matches!(style, HeaderStyle::Full | HeaderStyle::DeltaReset) {
        insert_text(&mut headers, POLICY, policies(decision));
    }
    let Some(strictest) = decision.strictest_limit().filter(|limit| limit.counted()) else { return headers };
    let delta = (decision.reason != Reason::Blocked).then(|| seconds(strictest.reset_after_us));
    match style {
        HeaderStyle::Full => {
            insert_text(&mut headers, RATE_LIMIT, rate_limit(decision, strictest));
            let wall_us = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX);
            insert_triple(&mut headers, &X_RATE_LIMIT, strictest, delta.map(|_| seconds(wall_us.saturating_add(strictest.reset_after_us))));
        }
        HeaderStyle::DeltaReset => {
            insert_text(&mut headers, RATE_LIMIT, rate_limit(decision, strictest));
            insert_triple(&mut headers, &X_RATE_LIMIT, strictest, delta);
        }
        HeaderStyle::Triple => insert_triple(&mut headers, &OLDER, strictest, until_more(decision, strictest)),
        HeaderStyle::None => {}
    }
    headers
}

/// `"name";q=50;w=60` for each limit that can refuse; one of requests in flight has a unit instead of a window.
fn policies(decision: &Decision) -> String {
    let mut text = String::new();
    for limit in decision.limits.iter().filter(|limit| limit.mode == LimitMode::Enforce) {
        let Some(quota) = limit.limit else { continue };
        let separator = if text.is_empty() { "" } else { ", " };
        let window = seconds(limit.window_us).clamp(1, MAX_INTEGER);
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}\"{}\";q={}", limit.rule, quota.min(MAX_INTEGER));
        let _ = match limit.algorithm {
            Algorithm::Concurrency => text.write_str(";qu=\"concurrent-requests\""),
            _ => write!(text, ";w={window}"),
        };
    }
    text
}

/// `"name";r=0;t=2` of the strictest limit.
fn rate_limit(decision: &Decision, strictest: &LimitDecision) -> String {
    let mut text = format!("\"{}\";r={}", strictest.rule, strictest.remaining.min(MAX_INTEGER));
    if let Some(seconds) = until_more(decision, strictest) {
        let _ = write!(text, ";t={}", seconds.min(MAX_INTEGER));
    }
    text
}

/// Seconds until waiting pays: the reset, on refusal the retry-after, so that it never contradicts `Retry-After`.
fn until_more(decision: &Decision, strictest: &LimitDecision) -> Option<u64> {
    if decision.allowed() { Some(seconds(strictest.reset_after_us)) } else { retry_after_seconds(decision) }
}

fn insert_triple(headers: &mut HeaderMap, names: &Triple, strictest: &LimitDecision, reset: Option<u64>) {
    if let Some(limit) = strictest.limit {
        headers.insert(names.limit.clone(), HeaderValue::from(limit));
    }
    headers.insert(names.remaining.clone(), HeaderValue::from(strictest.remaining));
    if let Some(reset) = reset {
        headers.insert(names.reset.clone(), HeaderValue::from(reset));
    }
}

fn insert_text(headers: &mut HeaderMap, name: HeaderName, text: String) {
    if let Some(value) = HeaderValue::try_from(text).ok().filter(|value| !value.is_empty()) {
        headers.insert(name, value);
    }
}

/// The name as documents spell it; names of the map are in lower case.
pub(super) fn spelling(name: &HeaderName) -> &str {
    match name.as_str() {
        "ratelimit-policy" => "RateLimit-Policy",
        "ratelimit" => "RateLimit",
        "x-ratelimit-limit" => "X-RateLimit-Limit",
        "x-ratelimit-remaining" => "X-RateLimit-Remaining",
        "x-ratelimit-reset" => "X-RateLimit-Reset",
        "ratelimit-limit" => "RateLimit-Limit",
        "ratelimit-remaining" => "RateLimit-Remaining",
        "ratelimit-reset" => "RateLimit-Reset",
        "retry-after" => "Retry-After",
        other => other,
    }
}
