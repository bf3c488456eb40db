//! Exact header strings, and that all surfaces of one decision agree.

use serde_json::{Value, json};

use super::*;
use crate::decision::{Cause, Degraded, LimitDecision, LimitMode, Source, reason, strictest};
use crate::failure::FailureMode;
use crate::key::{CounterKey, HashSecret, Tag, counter_key};
use crate::limit::Algorithm;
use crate::name::Name;

const WALL: Duration = Duration::from_micros(1_796_055_600_000_000);
const SECOND: u64 = 1_000_000;

fn limit(rule: &str, limit: u64, remaining: u64, reset_us: u64) -> LimitDecision {
    LimitDecision {
        rule: Name::new(rule).unwrap(),
        algorithm: Algorithm::SlidingWindow,
        limit: Some(limit),
        window_us: 60 * SECOND,
        remaining,
        reset_after_us: reset_us,
        retry_after_us: None,
        reason: Reason::Ok,
        mode: LimitMode::Enforce,
        source: Source::AnyTier,
        degraded: None,
        shard: Some(Name::new("s1").unwrap()),
        key: Some(key()),
        cost: 1,
        position: 0,
    }
}

fn key() -> CounterKey {
    let secret = HashSecret::built_in();
    counter_key(&secret, Tag::of_rule(&secret, "default", "r", &[]), "r", &[])
}

/// The body of a refusal as it is read.
fn problem(decision: &Decision) -> Value {
    serde_json::to_value(super::problem(decision)).unwrap()
}

/// The answer as it is read.
fn answer(decision: &Decision, headers: &HeaderMap) -> Value {
    serde_json::to_value(super::answer(decision, headers)).unwrap()
}

fn refused(rule: &str, retry_us: u64) -> LimitDecision {
    LimitDecision { reason: Reason::Limited, retry_after_us: Some(retry_us), ..limit(rule, 50, 0, 61 * SECOND) }
}

fn decide(limits: Vec<LimitDecision>) -> Decision {
    Decision {
        reason: reason(&limits),
        strictest: strictest(&limits),
        degraded: limits.iter().find_map(|limit| limit.degraded),
        tier: Some(Name::new("free").unwrap()),
        revision: 12,
        domain: "default".into(),
        limits,
    }
}

/// The headers as `Name: value` lines, sorted.
fn lines(decision: &Decision, style: HeaderStyle) -> Vec<String> {
    let headers = headers(decision, style, WALL);
    let mut lines: Vec<_> =
        headers.iter().map(|(name, value)| format!("{}: {}", fields::spelling(name), value.to_str().unwrap())).collect();
    lines.sort();
    lines
}

#[test]
fn a_refusal_in_every_style() {
    let decision = decide(vec![limit("per-user", 100, 42, 35 * SECOND), refused("search", 1_200_000)]);
    assert_eq!(
        lines(&decision, HeaderStyle::Full),
        [
            "RateLimit-Policy: \"per-user\";q=100;w=60, \"search\";q=50;w=60",
            "RateLimit: \"search\";r=0;t=2",
            "Retry-After: 2",
            "X-RateLimit-Limit: 50",
            "X-RateLimit-Remaining: 0",
            "X-RateLimit-Reset: 1796055661",
        ]
    );
    assert_eq!(lines(&decision, HeaderStyle::DeltaReset)[5], "X-RateLimit-Reset: 61");
    assert_eq!(
        lines(&decision, HeaderStyle::Triple),
        ["RateLimit-Limit: 50", "RateLimit-Remaining: 0", "RateLimit-Reset: 2", "Retry-After: 2"]
    );
    assert_eq!(lines(&decision, HeaderStyle::None), ["Retry-After: 2"]);
}

#[test]
fn an_allowed_request_shows_what_is_left_and_no_retry_after() {
    let decision = decide(vec![limit("per-user", 100, 42, 34_500_001)]);
    assert_eq!(
        lines(&decision, HeaderStyle::Full),
        [
            "RateLimit-Policy: \"per-user\";q=100;w=60",
            "RateLimit: \"per-user\";r=42;t=35",
            "X-RateLimit-Limit: 100",
            "X-RateLimit-Remaining: 42",
            "X-RateLimit-Reset: 1796055635",
        ]
    );
    assert_eq!(lines(&decision, HeaderStyle::None), [""; 0]);
    assert_eq!(lines(&decide(vec![]), HeaderStyle::Full), [""; 0]);
}

/// BB-25: fractions are rounded up, a wait is at least a second, and there is none for what can never pass.
#[test]
fn bb_25_waits_are_rounded_up_and_never_zero() {
    for (retry_us, seconds) in [(0, 1), (1, 1), (800_000, 1), (SECOND, 1), (SECOND + 1, 2), (59_999_999, 60)] {
        let decision = decide(vec![refused("search", retry_us)]);
        assert_eq!(headers(&decision, HeaderStyle::Full, WALL)["retry-after"], seconds.to_string(), "{retry_us}");
        assert_eq!(headers(&decision, HeaderStyle::Full, WALL)["ratelimit"], format!("\"search\";r=0;t={seconds}"));
        assert_eq!(problem(&decision)["retry-after"], seconds);
        assert_eq!(answer(&decision, &HeaderMap::new())["retry_after_ms"], retry_us.div_ceil(1_000));
    }
}

#[test]
fn bb_25_a_cost_above_capacity_has_no_retry_after() {
    let decision =
        decide(vec![LimitDecision { reason: Reason::CostExceedsCapacity, ..limit("small", 3, 3, 0) }, refused("search", SECOND)]);
    assert_eq!((decision.reason, decision.strictest), (Reason::CostExceedsCapacity, Some(0)));
    let lines = lines(&decision, HeaderStyle::Full);
    assert!(
        lines.contains(&"RateLimit: \"small\";r=3".to_owned()) && !lines.iter().any(|line| line.starts_with("Retry-After")),
        "{lines:?}"
    );
    assert_eq!(
        problem(&decision),
        json!({
            "type": "urn:weir:problem:cost-exceeds-capacity", "title": "Cost exceeds capacity", "status": 429,
            "detail": "The request costs more than rule small ever lets pass at once.", "reason": "cost_exceeds_capacity", "rule": "small",
            "violated-policies": ["small", "search"],
        })
    );
}

#[test]
fn a_blocked_request_is_403_and_never_resets() {
    let decision = decide(vec![refused("search", SECOND), LimitDecision { reason: Reason::Blocked, ..limit("off-limits", 0, 0, 0) }]);
    assert_eq!(
        lines(&decision, HeaderStyle::Full),
        [
            "RateLimit-Policy: \"search\";q=50;w=60, \"off-limits\";q=0;w=60",
            "RateLimit: \"off-limits\";r=0",
            "X-RateLimit-Limit: 0",
            "X-RateLimit-Remaining: 0",
        ]
    );
    assert_eq!((problem(&decision)["status"].clone(), problem(&decision)["retry-after"].clone()), (json!(403), json!(null)));
}

/// BB-12: a limiter failure is not the client's fault: 503, no numbers, no violated policy.
#[test]
fn bb_12_a_closed_failure_blames_nobody() {
    let degraded = Some(Degraded { mode: FailureMode::Closed, cause: Cause::Timeout });
    let decision =
        decide(vec![limit("per-user", 100, 42, 0), LimitDecision { reason: Reason::Unavailable, degraded, ..limit("billing", 10, 0, 0) }]);
    assert_eq!(lines(&decision, HeaderStyle::Full), ["RateLimit-Policy: \"per-user\";q=100;w=60, \"billing\";q=10;w=60", "Retry-After: 1"]);
    assert_eq!(
        problem(&decision),
        json!({
            "type": "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity", "title": "Temporarily unavailable",
            "status": 503, "detail": "The limit of rule billing cannot be checked now; retry in 1 s.", "reason": "unavailable",
            "rule": "billing", "retry-after": 1,
        })
    );
    let answer = answer(&decision, &HeaderMap::new());
    assert_eq!((&answer["retry_after_ms"], &answer["remaining"]), (&json!(1_000), &json!(null)));
    assert_eq!(answer["degraded"], json!({ "mode": "closed", "cause": "timeout" }));
}

#[test]
fn an_open_failure_reports_the_limits_that_were_counted() {
    let degraded = Some(Degraded { mode: FailureMode::Open, cause: Cause::Error });
    let decision = decide(vec![LimitDecision { degraded, ..limit("a", 10, 0, 0) }, limit("b", 10, 9, SECOND)]);
    assert_eq!((decision.reason, decision.strictest), (Reason::Ok, Some(1)));
    let alone = decide(vec![LimitDecision { degraded, ..limit("a", 10, 0, 0) }]);
    assert_eq!(lines(&alone, HeaderStyle::Full), ["RateLimit-Policy: \"a\";q=10;w=60"]);
}

#[test]
fn the_answer_is_the_documented_one() {
    let search = LimitDecision { source: Source::Tier(Name::new("free").unwrap()), ..refused("search", 1_200_000) };
    let decision = decide(vec![search]);
    let headers = headers(&decision, HeaderStyle::Full, WALL);
    assert_eq!(
        answer(&decision, &headers),
        json!({
            "allowed": false, "status": 429, "reason": "limited",
            "rule": "search", "limit": 50, "remaining": 0, "reset_after_ms": 61_000, "retry_after_ms": 1_200,
            "degraded": null, "tier": "free",
            "limits": [{
                "rule": "search", "algorithm": "sliding_window", "limit": 50, "window_ms": 60_000, "remaining": 0, "reset_after_ms": 61_000,
                "retry_after_ms": 1_200, "allowed": false, "mode": "enforce", "source": "tier:free",
                "key": key().as_str(), "shard": "s1"
            }],
            "headers": {
                "RateLimit": "\"search\";r=0;t=2", "RateLimit-Policy": "\"search\";q=50;w=60", "X-RateLimit-Limit": "50",
                "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1796055661", "Retry-After": "2"
            },
            "revision": 12
        })
    );
    assert_eq!(
        problem(&decision),
        json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "title": "Too Many Requests", "status": 429,
            "detail": "The limit of rule search is used up; retry in 2 s.", "reason": "limited", "rule": "search",
            "violated-policies": ["search"], "retry-after": 2,
        })
    );
}

#[test]
fn without_rules_everything_is_null() {
    let answer = answer(&decide(vec![]), &HeaderMap::new());
    for field in ["rule", "limit", "remaining", "reset_after_ms", "retry_after_ms", "degraded"] {
        assert_eq!(answer[field], json!(null), "{field}");
    }
    assert_eq!((&answer["allowed"], &answer["limits"]), (&json!(true), &json!([])));
}

#[test]
fn unlimited_and_shadow_limits_are_in_the_answer_but_not_in_the_headers() {
    let unlimited = LimitDecision { limit: None, window_us: 0, ..limit("all", 1, 0, 0) };
    let shadow = LimitDecision { mode: LimitMode::Shadow, ..refused("trial", SECOND) };
    let decision = decide(vec![unlimited, shadow]);
    assert_eq!((decision.reason, decision.strictest), (Reason::Ok, None));
    assert_eq!(lines(&decision, HeaderStyle::Full), [""; 0]);
    let limits = answer(&decision, &HeaderMap::new())["limits"].clone();
    assert_eq!((&limits[0]["limit"], &limits[0]["window_ms"], &limits[0]["remaining"]), (&json!(null), &json!(null), &json!(null)));
    assert_eq!((&limits[1]["allowed"], &limits[1]["mode"]), (&json!(false), &json!("shadow")));
}

#[test]
fn the_strictest_refusal_is_the_one_to_wait_for() {
    let pick = |limits: Vec<LimitDecision>| strictest(&limits);
    assert_eq!(pick(vec![refused("a", 5), refused("b", 9), refused("c", 9), limit("d", 9, 0, 0)]), Some(1));
    assert_eq!(pick(vec![limit("a", 100, 50, 0), limit("b", 1_000, 400, 0), limit("c", 10, 4, 0)]), Some(1));
    assert_eq!(pick(vec![limit("a", u64::MAX, u64::MAX - 1, 0), limit("b", u64::MAX, u64::MAX - 2, 0)]), Some(1));
    assert_eq!(pick(vec![]), None);
    let unavailable = LimitDecision { reason: Reason::Unavailable, ..limit("u", 1, 0, 0) };
    assert_eq!(pick(vec![unavailable, refused("a", 5)]), Some(1));
}

#[test]
fn large_numbers_stay_within_fifteen_digits_where_the_syntax_says_so() {
    let most = crate::limit::MAX_UNITS;
    let decision = decide(vec![LimitDecision { window_us: u64::MAX, ..limit("big", most, most, u64::MAX) }]);
    let headers = headers(&decision, HeaderStyle::Full, WALL);
    assert_eq!(headers["ratelimit"], "\"big\";r=999999999999999;t=18446744073710");
    assert_eq!(headers["ratelimit-policy"], "\"big\";q=999999999999999;w=18446744073710");
    assert_eq!(headers["x-ratelimit-limit"], most.to_string());
    for name in ["ratelimit", "ratelimit-policy"] {
        sfv::Parser::new(headers[name].as_bytes()).parse::<sfv::List>().unwrap();
    }
}

#[test]
fn every_name_is_a_valid_structured_field() {
    for name in ["a", "A-z_0.9:x", &"n".repeat(64)] {
        let headers = headers(&decide(vec![refused(name, 1), limit("other", 1, 1, 0)]), HeaderStyle::Full, WALL);
        let list: sfv::List = sfv::Parser::new(headers["ratelimit-policy"].as_bytes()).parse().unwrap();
        assert_eq!(list.len(), 2);
    }
}

/// Requests in flight have no window; who waits for their leases to expire has waited long enough.
#[test]
fn requests_in_flight_are_told_by_their_unit() {
    let busy = LimitDecision { algorithm: Algorithm::Concurrency, window_us: 30 * SECOND, ..refused("uploads", 12 * SECOND) };
    let decision = decide(vec![limit("per-user", 100, 42, 0), busy]);
    assert_eq!(
        lines(&decision, HeaderStyle::Full)[..3],
        [
            "RateLimit-Policy: \"per-user\";q=100;w=60, \"uploads\";q=50;qu=\"concurrent-requests\"",
            "RateLimit: \"uploads\";r=0;t=12",
            "Retry-After: 12",
        ]
    );
    let headers = headers(&decision, HeaderStyle::Full, WALL);
    sfv::Parser::new(headers["ratelimit-policy"].as_bytes()).parse::<sfv::List>().unwrap();
    assert_eq!(problem(&decision)["detail"], "The limit of rule uploads is reached by requests in flight; retry in 12 s at the latest.");
}
