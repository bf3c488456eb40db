//! The rows of a batch, checked: from the wire to what a table takes.

use weir_core::decision::Cause;
use weir_core::name::Name;
use weir_proto::v1;

use super::names::UNKNOWN;
use super::text;

/// The most requests one row may claim for a second; more is a broken or hostile agent.
const MAX_REQUESTS: u64 = 1_000_000_000;
/// The most units one row may claim for a second.
const MAX_UNITS: u64 = 1_000_000_000_000;

/// Which event times are stored, in seconds since the epoch, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The oldest: what a spool may still hold after an outage.
    pub oldest: i64,
    /// The newest: agents' clocks are not ours.
    pub newest: i64,
}

impl Window {
    /// How late an event may come, in seconds: two days.
    pub const LATE: i64 = 2 * 86_400;
    /// How far ahead an agent's clock may be, in seconds: ten minutes.
    pub const EARLY: i64 = 600;

    /// The window around `now` (seconds since the epoch).
    #[must_use]
    pub const fn around(now: i64) -> Self {
        Self { oldest: now - Self::LATE, newest: now + Self::EARLY }
    }

    fn holds(self, second: i64) -> bool {
        (self.oldest..=self.newest).contains(&second)
    }
}

/// Requests and units of one second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    pub(crate) second: i64,
    pub(crate) domain: String,
    pub(crate) rule: String,
    pub(crate) tier: String,
    pub(crate) outcome: i16,
    pub(crate) shard: String,
    pub(crate) cause: String,
    pub(crate) requests: i64,
    pub(crate) units: i64,
}

/// One sampled refusal.
#[derive(Debug, Clone, PartialEq)]
pub struct Denial {
    pub(crate) time_ms: i64,
    pub(crate) agent: String,
    pub(crate) domain: String,
    pub(crate) rule: String,
    pub(crate) tier: String,
    pub(crate) subject: String,
    pub(crate) outcome: i16,
    pub(crate) reason: String,
    pub(crate) method: String,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) client_ip: String,
    pub(crate) limit: i64,
    pub(crate) window_ms: i64,
    pub(crate) retry_after_ms: i64,
    pub(crate) cost: i64,
    pub(crate) shard: String,
    pub(crate) key: String,
    pub(crate) weight: f64,
}

/// A heavily denied subject of one interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectCount {
    pub(crate) second: i64,
    pub(crate) seconds: i64,
    pub(crate) domain: String,
    pub(crate) rule: String,
    pub(crate) tier: String,
    pub(crate) subject: String,
    pub(crate) denied: i64,
    pub(crate) allowed: i64,
    pub(crate) error: i64,
}

/// The outcome's number, if this build knows it.
fn outcome(number: i32) -> Option<i16> {
    match v1::Outcome::try_from(number) {
        Ok(v1::Outcome::Unspecified) | Err(_) => None,
        Ok(known) => i16::try_from(i32::from(known)).ok(),
    }
}

/// A cause that this build knows; any other is one bucket.
fn cause(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return Some("");
    }
    let known = Cause::ALL.into_iter().map(Cause::as_str).find(|known| *known == text);
    text::token(text, 64).map(|_| known.unwrap_or(UNKNOWN))
}

fn at_most(value: u64, max: u64) -> Option<i64> {
    (value <= max).then(|| i64::try_from(value).ok()).flatten()
}

/// A number that is shown, never summed: cut instead of refused.
fn shown(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Traffic {
    pub(crate) fn read(wire: v1::Aggregate, window: Window) -> Option<Self> {
        let named = !wire.domain.is_empty();
        (named && window.holds(wire.second)).then_some(())?;
        Some(Self {
            second: wire.second,
            domain: text::name_or_empty(wire.domain)?,
            rule: text::name_or_empty(wire.rule)?,
            tier: text::name_or_empty(wire.tier)?,
            outcome: outcome(wire.outcome)?,
            shard: text::name_or_empty(wire.shard)?,
            cause: cause(&wire.cause)?.to_owned(),
            requests: at_most(wire.requests, MAX_REQUESTS)?,
            units: at_most(wire.units, MAX_UNITS)?,
        })
    }
}

impl Denial {
    pub(crate) fn read(agent: &Name, wire: v1::Denial, window: Window) -> Option<Self> {
        let named = !wire.domain.is_empty();
        let weighs = wire.weight.is_finite() && (0.0..=1e12).contains(&wire.weight);
        (named && weighs && window.holds(wire.time_ms.div_euclid(1_000))).then_some(())?;
        Some(Self {
            time_ms: wire.time_ms,
            agent: agent.to_string(),
            domain: text::name_or_empty(wire.domain)?,
            rule: text::name_or_empty(wire.rule)?,
            tier: text::name_or_empty(wire.tier)?,
            subject: text::subject(&wire.subject)?,
            outcome: outcome(wire.outcome)?,
            reason: text::printable(&wire.reason, 64),
            method: text::printable(&wire.method, 32),
            host: text::printable(&wire.host, 256),
            path: text::printable(&wire.path, 256),
            client_ip: text::printable(&wire.client_ip, 64),
            limit: shown(wire.limit),
            window_ms: shown(wire.window_ms),
            retry_after_ms: shown(wire.retry_after_ms),
            cost: shown(wire.cost),
            shard: text::name_or_empty(wire.shard)?,
            key: text::printable(&wire.key, 256),
            weight: wire.weight,
        })
    }
}

impl SubjectCount {
    pub(crate) fn read(wire: v1::SubjectCount, window: Window) -> Option<Self> {
        let named = !wire.domain.is_empty();
        (named && window.holds(wire.second) && wire.seconds <= 3_600).then_some(())?;
        Some(Self {
            second: wire.second,
            seconds: i64::from(wire.seconds.max(1)),
            domain: text::name_or_empty(wire.domain)?,
            rule: text::name_or_empty(wire.rule)?,
            tier: text::name_or_empty(wire.tier)?,
            subject: text::subject(&wire.subject)?,
            denied: at_most(wire.denied, MAX_UNITS)?,
            allowed: at_most(wire.allowed, MAX_UNITS)?,
            error: at_most(wire.error, MAX_UNITS)?,
        })
    }
}
