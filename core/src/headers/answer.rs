//! The answer of the check API, written straight from the decision.

use http::HeaderMap;
use serde::{Serialize, Serializer};

use super::fields::spelling;
use super::{millis, retry_after_us};
use crate::decision::{Decision, Degraded, LimitDecision, LimitMode, Reason, Source};
use crate::key::CounterKey;
use crate::limit::Algorithm;
use crate::name::Name;

/// The body of an answer, in the order in which it is documented.
#[derive(Serialize)]
struct Answer<'a> {
    allowed: bool,
    status: u16,
    reason: Reason,
    rule: Option<&'a Name>,
    limit: Option<u64>,
    remaining: Option<u64>,
    reset_after_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    degraded: Option<Degraded>,
    tier: Option<&'a Name>,
    #[serde(serialize_with = "limits")]
    limits: &'a [LimitDecision],
    #[serde(serialize_with = "named")]
    headers: &'a HeaderMap,
    revision: u64,
}

#[derive(Serialize)]
struct Limit<'a> {
    rule: &'a Name,
    algorithm: Algorithm,
    limit: Option<u64>,
    window_ms: Option<u64>,
    remaining: Option<u64>,
    reset_after_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    allowed: bool,
    mode: LimitMode,
    source: &'a Source,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<&'a Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    degraded: Option<Degraded>,
}

pub(super) fn answer<'a>(decision: &'a Decision, headers: &'a HeaderMap) -> impl Serialize + use<'a> {
    let strictest = decision.strictest_limit();
    let counted = strictest.filter(|limit| limit.counted());
    Answer {
        allowed: decision.allowed(),
        status: decision.reason.status(),
        reason: decision.reason,
        rule: strictest.map(|limit| &limit.rule),
        limit: strictest.and_then(|limit| limit.limit),
        remaining: counted.map(|limit| limit.remaining),
        reset_after_ms: counted.map(|limit| millis(limit.reset_after_us)),
        retry_after_ms: retry_after_us(decision).map(millis),
        degraded: decision.degraded,
        tier: decision.tier.as_ref(),
        limits: &decision.limits,
        headers,
        revision: decision.revision,
    }
}

fn limits<S: Serializer>(limits: &&[LimitDecision], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(limits.iter().map(limit))
}

fn limit(limit: &LimitDecision) -> Limit<'_> {
    let counted = limit.limit.filter(|_| limit.counted());
    Limit {
        rule: &limit.rule,
        algorithm: limit.algorithm,
        limit: limit.limit,
        window_ms: limit.limit.map(|_| millis(limit.window_us)),
        remaining: counted.map(|_| limit.remaining),
        reset_after_ms: counted.map(|_| millis(limit.reset_after_us)),
        retry_after_ms: limit.retry_after_us.map(millis),
        allowed: limit.reason == Reason::Ok,
        mode: limit.mode,
        source: &limit.source,
        key: limit.key.as_ref().map(CounterKey::as_str),
        shard: limit.shard.as_ref(),
        degraded: limit.degraded,
    }
}

fn named<S: Serializer>(headers: &&HeaderMap, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(headers.iter().map(|(name, value)| (spelling(name), value.to_str().unwrap_or_default())))
}
