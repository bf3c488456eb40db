//! The answer to a request: allow or deny, with everything that explains it.

use std::fmt;
use std::sync::Arc;

use crate::failure::FailureMode;
use crate::key::CounterKey;
use crate::limit::Algorithm;
use crate::name::Name;

/// Why the answer is what it is. The order is that of the status table: the first that applies wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Allowed.
    Ok,
    /// A limit of 0 (later also deny entries and `blocked` overrides): 403.
    Blocked,
    /// The cost is above a capacity and can never pass: 429 without Retry-After.
    CostExceedsCapacity,
    /// A limit is used up: 429.
    Limited,
    /// A shard is away and the rule says `closed`: 503.
    Unavailable,
}

impl Reason {
    /// The HTTP status.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::Blocked => 403,
            Self::CostExceedsCapacity | Self::Limited => 429,
            Self::Unavailable => 503,
        }
    }

    /// The name in API and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Blocked => "blocked",
            Self::CostExceedsCapacity => "cost_exceeds_capacity",
            Self::Limited => "limited",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Why a decision was made without its shard (or without rules).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// No answer within the budget.
    Timeout,
    /// The shard answered with an error, or the connection broke.
    Error,
    /// The breaker is open: the shard was not asked.
    BreakerOpen,
    /// The queue to the shard is full.
    Overload,
    /// No rules have arrived yet.
    NoRules,
    /// There is no ring to count on (no shard configured or reachable).
    NoShards,
    /// The shard is short of memory and has no counter for this caller yet: the rule's overflow count in this process decided.
    NewCounters,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 7] =
        [Self::Timeout, Self::Error, Self::BreakerOpen, Self::Overload, Self::NoRules, Self::NoShards, Self::NewCounters];

    /// The name in API and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Error => "error",
            Self::BreakerOpen => "breaker_open",
            Self::Overload => "overload",
            Self::NoRules => "no_rules",
            Self::NoShards => "no_shards",
            Self::NewCounters => "new_counters",
        }
    }
}

/// Marks a decision, or one limit of it, that was made without its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Degraded {
    /// What the rule does then (after escalation, if it came to that). For [`Cause::NoRules`]: `open` or `closed` by the agent's setting.
    pub mode: FailureMode,
    /// Why.
    pub cause: Cause,
}

/// Where an effective limit comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The limit that the rule gives to this tier by name.
    Tier(Name),
    /// The rule's `"*"`.
    AnyTier,
    /// The request itself ([`Request::limits`](crate::request::Request::limits)).
    Override,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tier(name) => write!(f, "tier:{name}"),
            Self::AnyTier => f.write_str("*"),
            Self::Override => f.write_str("override"),
        }
    }
}

impl serde::Serialize for Source {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether a limit can refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitMode {
    /// It can.
    Enforce,
    /// It only reports.
    Shadow,
}

/// How a decision is counted, in metrics and analytics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Outcome {
    /// It passed, and the shard counted it.
    Allowed,
    /// It was refused.
    Denied,
    /// A shadow limit would have refused it.
    ShadowDenied,
    /// It passed without the shard.
    DegradedAllowed,
    /// It was refused by the local count, without the shard.
    DegradedDenied,
    /// It was refused with 503, because the shard is away and the rule says `closed`.
    Unavailable,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 6] =
        [Self::Allowed, Self::Denied, Self::ShadowDenied, Self::DegradedAllowed, Self::DegradedDenied, Self::Unavailable];

    /// The name in API and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::ShadowDenied => "shadow_denied",
            Self::DegradedAllowed => "degraded_allowed",
            Self::DegradedDenied => "degraded_denied",
            Self::Unavailable => "unavailable",
        }
    }
}

/// What one rule said about the request.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitDecision {
    /// The rule.
    pub rule: Name,
    /// Its position in [`RuleSet::rules`](crate::ruleset::RuleSet::rules).
    pub position: usize,
    /// How it counts.
    pub algorithm: Algorithm,
    /// The reported limit (a token bucket's capacity); `None`: unlimited.
    pub limit: Option<u64>,
    /// The reported window in microseconds (a token bucket's time to refill from empty).
    pub window_us: u64,
    /// Units left, never negative; 0 for an unlimited rule has no meaning (see `limit`).
    pub remaining: u64,
    /// Microseconds until nothing is consumed any more.
    pub reset_after_us: u64,
    /// Microseconds until the same request would pass this limit; `None`: it passed, or it never can.
    pub retry_after_us: Option<u64>,
    /// [`Reason::Ok`], or why this limit alone refuses (a shadow limit: would refuse).
    pub reason: Reason,
    /// Whether it can refuse.
    pub mode: LimitMode,
    /// Where the limit comes from.
    pub source: Source,
    /// Set if this limit was decided without its shard.
    pub degraded: Option<Degraded>,
    /// The shard that counted (or should have), if any.
    pub shard: Option<Name>,
    /// The counter; `None` for a limit that counts nothing: unlimited, or 0.
    pub key: Option<CounterKey>,
    /// Units that the request takes, or would have taken.
    pub cost: u64,
}

impl LimitDecision {
    /// How this limit is counted; `None` for a limit that would have let a refused request pass: it counted nothing, so nothing is
    /// counted for it either.
    #[must_use]
    pub fn outcome(&self, admitted: bool) -> Option<Outcome> {
        match (self.mode, self.reason) {
            (_, Reason::Ok) if !admitted => None,
            (_, Reason::Ok) if self.degraded.is_some() => Some(Outcome::DegradedAllowed),
            (_, Reason::Ok) => Some(Outcome::Allowed),
            (LimitMode::Shadow, _) => Some(Outcome::ShadowDenied),
            (LimitMode::Enforce, Reason::Unavailable) => Some(Outcome::Unavailable),
            (LimitMode::Enforce, _) if self.degraded.is_some() => Some(Outcome::DegradedDenied),
            (LimitMode::Enforce, _) => Some(Outcome::Denied),
        }
    }
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Why; [`Reason::Ok`] if allowed.
    pub reason: Reason,
    /// What each rule said; empty if none matched.
    pub limits: Vec<LimitDecision>,
    /// Index into `limits` of the strictest one, which headers and the top of the body report; `None` if no enforced limit applies.
    pub strictest: Option<usize>,
    /// Set if any limit was decided without its shard: the first such.
    pub degraded: Option<Degraded>,
    /// The tier that was applied, `None` without rules.
    pub tier: Option<Name>,
    /// The revision of the domain's rules; 0 without rules.
    pub revision: u64,
    /// The domain.
    pub domain: Arc<str>,
}

impl LimitDecision {
    /// Whether a counter stands behind `remaining` and `reset_after_us`: there is none for an unlimited rule, nor if the rule was decided
    /// `open` or `closed` without its shard.
    #[must_use]
    pub fn counted(&self) -> bool {
        let by_counter = self.degraded.is_none_or(|degraded| degraded.mode == FailureMode::Local);
        self.limit.is_some() && by_counter
    }

    fn enforced(&self) -> bool {
        self.mode == LimitMode::Enforce
    }
}

/// What all limits of a request come to: of the refusals of those that can refuse, the first in the order of [`Reason`].
#[must_use]
pub fn reason(limits: &[LimitDecision]) -> Reason {
    let refusals = limits.iter().filter(|limit| limit.enforced() && limit.reason != Reason::Ok);
    refusals.map(|limit| limit.reason).min().unwrap_or(Reason::Ok)
}

/// The limit that headers and body report; `None` if none that can refuse has a limit.
///
/// Of the refusals of the overall [`reason`] it is the one with the longest retry-after, one without any being the longest, so that
/// waiting it passes all. Of an allowed request it is the one with the smallest share remaining. The first of equals.
#[must_use]
pub fn strictest(limits: &[LimitDecision]) -> Option<usize> {
    let reason = reason(limits);
    let enforced = limits.iter().enumerate().filter(|(_, limit)| limit.enforced() && limit.limit.is_some());
    if reason == Reason::Ok {
        let known_first = |limit: &LimitDecision| !limit.counted();
        return enforced
            .min_by(|(_, a), (_, b)| known_first(a).cmp(&known_first(b)).then_with(|| compare_shares(a, b)))
            .map(|(position, _)| position);
    }
    enforced
        .filter(|(_, limit)| limit.reason == reason)
        .min_by_key(|(_, limit)| std::cmp::Reverse(limit.retry_after_us.unwrap_or(u64::MAX)))
        .map(|(position, _)| position)
}

/// Compares remaining/limit by cross-multiplication, which is exact.
fn compare_shares(a: &LimitDecision, b: &LimitDecision) -> std::cmp::Ordering {
    let product = |remaining: u64, limit: Option<u64>| u128::from(remaining) * u128::from(limit.unwrap_or(1).max(1));
    product(a.remaining, b.limit).cmp(&product(b.remaining, a.limit))
}

impl Decision {
    /// Whether the request may pass.
    #[must_use]
    pub fn allowed(&self) -> bool {
        self.reason == Reason::Ok
    }

    /// The limit that headers and body report.
    #[must_use]
    pub fn strictest_limit(&self) -> Option<&LimitDecision> {
        self.limits.get(self.strictest?)
    }
}
