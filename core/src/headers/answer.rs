//! The answer of the check API.

use http::HeaderMap;
use serde_json::{Map, Value, json};

use super::fields::spelling;
use super::{millis, retry_after_us};
use crate::decision::{Decision, LimitDecision, Reason, Source};

pub(super) fn answer(decision: &Decision, headers: &HeaderMap) -> Value {
    let strictest = decision.strictest_limit();
    let counted = strictest.filter(|limit| limit.counted());
    json!({
        "allowed": decision.allowed(),
        "status": decision.reason.status(),
        "reason": decision.reason,
        "rule": strictest.map(|limit| &limit.rule),
        "limit": strictest.and_then(|limit| limit.limit),
        "remaining": counted.map(|limit| limit.remaining),
        "reset_after_ms": counted.map(|limit| millis(limit.reset_after_us)),
        "retry_after_ms": retry_after_us(decision).map(millis),
        "degraded": decision.degraded,
        "limits": decision.limits.iter().map(limit).collect::<Vec<_>>(),
        "headers": named(headers),
        "revision": decision.revision,
    })
}

fn limit(limit: &LimitDecision) -> Value {
    let counted = limit.limit.filter(|_| limit.counted());
    let source = match &limit.source {
        Source::Tier(name) => format!("tier:{name}"),
        Source::AnyTier => "*".to_owned(),
    };
    let mut body = json!({
        "rule": limit.rule,
        "algorithm": limit.algorithm,
        "limit": limit.limit,
        "window_ms": limit.limit.map(|_| millis(limit.window_us)),
        "remaining": counted.map(|_| limit.remaining),
        "reset_after_ms": counted.map(|_| millis(limit.reset_after_us)),
        "retry_after_ms": limit.retry_after_us.map(millis),
        "allowed": limit.reason == Reason::Ok,
        "mode": limit.mode,
        "source": source,
    });
    if let Some(degraded) = limit.degraded {
        body["degraded"] = json!(degraded);
    }
    if let Some(shard) = &limit.shard {
        body["shard"] = json!(shard);
    }
    body
}

fn named(headers: &HeaderMap) -> Value {
    let text = |value: &http::HeaderValue| value.to_str().map(str::to_owned).unwrap_or_default();
    Value::Object(headers.iter().map(|(name, value)| (spelling(name).to_owned(), json!(text(value)))).collect::<Map<_, _>>())
}
