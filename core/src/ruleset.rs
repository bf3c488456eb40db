//! A domain's rules compiled for the hot path: which of them apply to a request, with which limit and under which key.

use crate::config::DomainConfig;
use crate::decision::{LimitMode, Source};
use crate::failure::FailurePolicy;
use crate::key::{CounterKey, HashSecret};
use crate::limit::Bound;
use crate::mistake::Mistakes;
use crate::name::Name;
use crate::request::Request;

/// A compiled rule; agents keep their own state (metrics, fallback) beside it by [`CompiledRule::index`].
#[derive(Debug)]
pub struct CompiledRule {
    /// Position in [`RuleSet::rules`].
    pub index: usize,
    /// The rule's name.
    pub name: Name,
    /// What happens without its shard.
    pub on_failure: FailurePolicy,
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
        /// Units this request takes of it.
        cost: u64,
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
    /// The cost header of a rule has no number.
    #[error("header {header}: the cost must be a whole number from 0 to 9007199254740991")]
    Cost {
        /// The header's name.
        header: String,
    },
}

/// The compiled rules of one domain at one revision.
#[derive(Debug)]
pub struct RuleSet {
    /// The revision.
    pub revision: u64,
    /// The domain.
    pub domain: Name,
    /// The tiers.
    pub tiers: Vec<Name>,
    /// The rules that are not `off`.
    pub rules: Vec<CompiledRule>,
}

impl RuleSet {
    /// Compiles `config`.
    ///
    /// # Errors
    /// What validation would have said; a config made by validation compiles.
    pub fn compile(_config: &DomainConfig, _revision: u64) -> Result<Self, Mistakes> {
        todo!()
    }

    /// Chooses the rules of `request` into `choice` (which is cleared and reused, so that the hot path does not allocate for it).
    ///
    /// # Errors
    /// [`ChoiceError`]: the question cannot be answered.
    pub fn choose(&self, _request: &Request<'_>, _secret: &HashSecret, _choice: &mut Choice) -> Result<(), ChoiceError> {
        todo!()
    }
}
