//! Batches of events as agents send them.

use weir_core::clock::{Clock as _, SystemClock};
use weir_proto::v1;
use weir_proto::v1::Outcome;

/// Seconds since the epoch.
pub(super) fn now() -> i64 {
    i64::try_from(SystemClock.wall().as_secs()).unwrap()
}

pub(super) fn aggregate(second: i64, rule: &str, outcome: Outcome, requests: u64) -> v1::Aggregate {
    v1::Aggregate {
        second,
        domain: "default".into(),
        rule: rule.into(),
        tier: "free".into(),
        outcome: outcome.into(),
        shard: "a".into(),
        requests,
        units: 2 * requests,
        cause: String::new(),
    }
}

pub(super) fn denial(second: i64, subject: &str) -> v1::Denial {
    v1::Denial {
        time_ms: second * 1_000 + 7,
        domain: "default".into(),
        rule: "search".into(),
        tier: "free".into(),
        subject: subject.into(),
        outcome: Outcome::Denied.into(),
        reason: "limited".into(),
        method: "GET".into(),
        host: "api.example.com".into(),
        path: "/api/search".into(),
        client_ip: "203.0.113.7".into(),
        limit: 50,
        window_ms: 60_000,
        retry_after_ms: 1_200,
        cost: 1,
        shard: "a".into(),
        key: "k".into(),
        weight: 4.0,
    }
}

pub(super) fn subject(second: i64, subject: &str, denied: u64) -> v1::SubjectCount {
    v1::SubjectCount {
        second,
        seconds: 10,
        domain: "default".into(),
        rule: "search".into(),
        tier: "free".into(),
        subject: subject.into(),
        denied,
        allowed: 1,
        error: 0,
    }
}

/// A batch of an agent with one request in it, denied a moment ago.
pub(super) fn batch(agent: &str, sequence: u64) -> v1::EventBatch {
    let second = now() - 1;
    v1::EventBatch {
        agent: agent.into(),
        boot: "boot-1".into(),
        sequence,
        aggregates: vec![aggregate(second, "search", Outcome::Denied, 1)],
        denials: vec![denial(second, "user:1")],
        subjects: vec![subject(second, "user:1", 1)],
        dropped: 0,
    }
}
