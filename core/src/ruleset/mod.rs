//! A domain's rules compiled for the hot path: which of them apply to a request, with which limit and under which key.

mod choose;
mod compile;
mod counting;
#[cfg(test)]
mod tests;
mod tier_limits;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use http::HeaderName;

use self::choose::{Candidate, Precedence, Tests};
use self::counting::Counting;
use self::tier_limits::TierLimits;
use crate::config::DomainConfig;
use crate::decision::{LimitMode, Source};
use crate::domain::DomainMode;
use crate::failure::FailurePolicy;
use crate::key::{CounterKey, HashSecret};
use crate::limit::{Algorithm, Bound, MAX_UNITS};
use crate::matching::index::Index;
use crate::mistake::Mistakes;
use crate::name::Name;
use crate::request::{MAX_HEADER, Request, TooLong};
use crate::rule::RuleMode;
use crate::subject::Subject;

/// A compiled rule; agents keep their own state (metrics, fallback) beside it by [`CompiledRule::index`].
#[derive(Debug)]
pub struct CompiledRule {
    /// Position in [`RuleSet::rules`].
    pub index: usize,
    /// The rule's name.
    pub name: Name,
    /// Rules of one group compete.
    pub group: Name,
    /// Whether it acts: enforce or shadow. The domain's mode may cap it.
    pub mode: RuleMode,
    /// How it counts.
    pub algorithm: Algorithm,
    /// What happens without its shard.
    pub on_failure: FailurePolicy,
    /// A counter that no request has: an agent counts there, in its own memory, callers whose counters may not be created. `None` if clients
    /// cannot invent counters of the rule.
    pub overflow: Option<CounterKey>,
    tests: Tests,
    precedence: Precedence,
    enforce_percent: Option<u8>,
    limits: TierLimits,
    counting: Counting,
}

/// The effective limit of one chosen rule.
#[derive(Debug, Clone, PartialEq)]
pub enum Effective {
    /// No limit for this tier.
    Unlimited,
    /// A limit of 0: refused without asking a counter.
    Blocked(Bound),
    /// To be counted.
    Counted {
        /// What may pass.
        bound: Bound,
        /// Where it is counted.
        key: CounterKey,
    },
}

/// One rule that applies to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// Position in [`RuleSet::rules`].
    pub rule: usize,
    /// Whether it can refuse (the rule's mode, `enforce_percent` and the domain's mode together).
    pub mode: LimitMode,
    /// Where its limit comes from.
    pub source: Source,
    /// Its limit.
    pub effective: Effective,
    /// Units that the request takes of it; of `concurrency` one, whatever the request costs.
    pub cost: u64,
    /// The rule's cost header cannot be read, and the request's own cost was taken: the limit counts nothing, or cannot refuse.
    pub cost_unreadable: bool,
}

/// What applies to a request.
#[derive(Debug, Default)]
pub struct Choice {
    /// The rules that apply, in the order of the rule set; at most [`MAX_LIMITS`].
    pub rules: Vec<Chosen>,
    /// Position of the subject's tier in [`RuleSet::tiers`].
    pub tier: usize,
    /// The request named a tier that the domain does not have; the default tier was taken.
    pub unknown_tier: bool,
    candidates: Vec<Candidate>,
}

/// The most limits of one request; beyond, the request is refused with an error, never let through.
pub const MAX_LIMITS: usize = 64;

/// Why no choice could be made: the question is bad (400).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// More than [`MAX_LIMITS`] rules apply.
    #[error("{0} limits apply to this request; at most {MAX_LIMITS} are allowed")]
    TooManyLimits(usize),
    /// The path cannot be normalised.
    #[error("the path is not valid: {0}")]
    Path(String),
    /// The cost header of a rule has no number, or is given twice.
    #[error("header {header}: the cost must be one whole number from 1 to {MAX_UNITS}")]
    Cost {
        /// The header's name.
        header: String,
    },
    /// A limit that the request itself gives to a rule is none for the rule's algorithm.
    #[error("limits/{rule}/{field}: {detail}")]
    Override {
        /// The rule.
        rule: Name,
        /// The field of the limit.
        field: &'static str,
        /// What is wrong with it.
        detail: String,
    },
    /// A part of the request is longer than anything that rules are made for.
    #[error(transparent)]
    TooLong(#[from] TooLong),
}

/// The compiled rules of one domain at one revision.
#[derive(Debug)]
pub struct RuleSet {
    /// The revision.
    pub revision: u64,
    /// The domain.
    pub domain: Name,
    /// The tiers, never empty.
    pub tiers: Vec<Name>,
    /// The rules that are not `off`.
    pub rules: Vec<CompiledRule>,
    /// The kill switch.
    pub mode: DomainMode,
    tier_positions: HashMap<Name, usize>,
    default_tier: usize,
    v6_prefix: u8,
    index: Index,
    /// The headers that rules look at.
    headers: HashSet<HeaderName>,
}

/// How many bits of an IPv6 address name a client, unless set otherwise: a household or a server has at least this network.
pub const DEFAULT_V6_PREFIX: u8 = 64;

impl RuleSet {
    /// The longest window over which a rule remembers what it counted.
    #[must_use]
    pub fn longest_window(&self) -> Duration {
        Duration::from_micros(self.rules.iter().map(|rule| rule.limits.longest_window_us()).max().unwrap_or_default())
    }

    /// Compiles `config`.
    ///
    /// # Errors
    /// What validation would have said; a config made by validation compiles.
    pub fn compile(config: &DomainConfig, revision: u64) -> Result<Self, Mistakes> {
        compile::rule_set(config, revision)
    }

    /// Sets how many bits of an IPv6 client address make one client.
    #[must_use]
    pub fn with_v6_prefix(mut self, bits: u8) -> Self {
        self.v6_prefix = bits.min(128);
        self
    }

    /// Chooses the rules of `request` into `choice` (which is cleared and reused, so that the hot path does not allocate for it).
    ///
    /// Within each group the best enforcing rule applies; rules in `shadow`, or that do not enforce for this subject, are decided beside
    /// it if they would beat it: each reports what it would do if it alone were enforced. A domain in mode `shadow` chooses as if it
    /// enforced, then nothing can refuse.
    ///
    /// # Errors
    /// [`ChoiceError`]: the question cannot be answered.
    pub fn choose(&self, request: &Request<'_>, secret: &HashSecret, choice: &mut Choice) -> Result<(), ChoiceError> {
        choose::choose(self, request, secret, choice)
    }

    /// Who is limited: the request's subject, else its client address, else the one anonymous subject.
    #[must_use]
    pub fn subject<'a>(&self, request: &'a Request<'_>) -> Subject<'a> {
        request.limited(self.v6_prefix)
    }

    /// Whether the request is within the bounds of all requests, and so are the headers that rules look at.
    fn bounds(&self, request: &Request<'_>) -> Result<(), TooLong> {
        request.bounds()?;
        let long = request.headers.iter().find(|(name, value)| value.len() > MAX_HEADER && self.headers.contains(*name));
        long.map_or(Ok(()), |(name, _)| Err(TooLong { what: format!("header {name}"), most: MAX_HEADER }))
    }
}
