//! What is done with a request's counters besides deciding: look, record, refund, reset.
//!
//! | | a domain that is off, or no rule | no rules yet | unlimited, or a limit of 0 | `concurrency` | the shard is away |
//! |---|---|---|---|---|---|
//! | peek | allowed | as the agent's setting says | as a check | decided, no lease is taken | as a check would be decided, degraded |
//! | record | nothing to record | nothing to record | nothing is recorded | nothing is recorded: acquire and release do | mode `local`: here, degraded; else nothing |
//! | refund | nothing to refund | nothing to refund | nothing comes back | nothing comes back: release does | told with its cause; never sent again |
//! | reset | nothing to reset | nothing to reset | nothing is there | all leases end | told with its cause; what was counted here is cleared |
//!
//! All of them treat shadow rules like the others: their counters count as well.

use std::time::Instant;

use weir_core::counter::Action;
use weir_core::decision::{Cause, Decision, Degraded, LimitDecision};
use weir_core::key::CounterKey;
use weir_core::limit::Algorithm;
use weir_core::name::Name;
use weir_core::request::Request;
use weir_core::ruleset::{Choice, Chosen, Effective};

use super::{Applied, CheckError, Checker, assemble, queries};
use crate::limiter::store::Refund;

/// What was recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Each rule that applies, and what its counter says now; `degraded` where it was counted in this process, or not at all.
    pub limits: Vec<LimitDecision>,
    /// Set if any counter could not be reached: the first such. Without rules: no rules.
    pub degraded: Option<Degraded>,
    /// The tier that was applied, `None` without rules.
    pub tier: Option<Name>,
    /// The revision of the domain's rules; 0 without rules.
    pub revision: u64,
}

impl Recorded {
    /// Whether the units are on the limit's counter. (A counter takes at most one further capacity beyond its limit; what is above that is not
    /// counted.)
    #[must_use]
    pub fn counted(limit: &LimitDecision) -> bool {
        limit.key.is_some() && limit.algorithm != Algorithm::Concurrency && limit.counted()
    }
}

/// What came of a refund or a reset, rule by rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Undone<T> {
    /// Each rule that was meant, with the units that came back, or whether there was a counter.
    pub rules: Vec<UndoneRule<T>>,
    /// The revision of the domain's rules; 0 without rules.
    pub revision: u64,
}

/// One rule of an [`Undone`].
#[derive(Debug, Clone, PartialEq)]
pub struct UndoneRule<T> {
    /// The rule.
    pub rule: Name,
    /// What came of it, or why its shard did not answer. It may have happened all the same; it is not sent again.
    pub result: Result<T, Cause>,
}

impl Checker {
    /// Decides `request` without writing anything: no counter comes to be, and it is in no count of decisions.
    ///
    /// # Errors
    /// [`CheckError`]: the question is bad.
    pub async fn peek(&self, request: &Request<'_>, deadline: Instant) -> Result<Decision, CheckError> {
        let (domain, served) = self.served(request)?;
        let Some(Applied { compiled, choice }) = self.applied(served, request)? else { return Ok(self.no_rules(domain)) };
        Ok(self.decide(&compiled, &choice, Action::Peek, None, deadline).await)
    }

    /// Consumes the cost of `request` without deciding: it is known only afterwards.
    ///
    /// # Errors
    /// [`CheckError`]: the question is bad, and nothing was recorded.
    pub async fn record(&self, request: &Request<'_>, deadline: Instant) -> Result<Recorded, CheckError> {
        let (domain, served) = self.served(request)?;
        let Some(Applied { compiled, choice }) = self.applied(served, request)? else {
            let degraded = self.no_rules(domain).degraded;
            return Ok(Recorded { limits: Vec::new(), degraded, tier: None, revision: 0 });
        };
        let queries = queries::recorded(&compiled.set, &choice);
        let answers = if queries.is_empty() { Vec::new() } else { self.limiter.decide(&queries, deadline).await };
        let decision = assemble::recorded(&compiled.set, compiled.domain.clone(), &choice, &answers);
        self.recorder.consumed(request, &decision);
        let Decision { limits, degraded, tier, revision, .. } = decision;
        Ok(Recorded { limits, degraded, tier, revision })
    }

    /// Gives the cost of `request` back to every counter that it meets, or to those of the rules `only`.
    ///
    /// # Errors
    /// [`CheckError`]: the question is bad, and nothing was given back.
    pub async fn refund(&self, request: &Request<'_>, only: Option<&[Name]>, deadline: Instant) -> Result<Undone<u64>, CheckError> {
        let Some((applied, meant)) = self.meant(request, only)? else { return Ok(Undone { rules: Vec::new(), revision: 0 }) };
        let refund = |chosen: &Chosen| match chosen.effective {
            Effective::Counted { bound, key } if bound.algorithm != Algorithm::Concurrency && chosen.cost > 0 => {
                Some(Refund { key, bound, units: chosen.cost, time_us: 0, lease: None })
            }
            _ => None,
        };
        let refunds: Vec<Option<Refund>> = meant.iter().map(|place| refund(&applied.choice.rules[*place])).collect();
        let mut given = self.limiter.refund(refunds.iter().flatten().cloned().collect(), deadline).await.into_iter();
        let results = refunds.iter().map(|refund| if refund.is_some() { given.next().unwrap_or(Err(Cause::Error)) } else { Ok(0) });
        Ok(applied.undone(&meant, results))
    }

    /// Clears every counter that `request` meets, or those of the rules `only`.
    ///
    /// # Errors
    /// [`CheckError`]: the question is bad, and nothing was cleared.
    pub async fn reset(&self, request: &Request<'_>, only: Option<&[Name]>, deadline: Instant) -> Result<Undone<bool>, CheckError> {
        let Some((applied, meant)) = self.meant(request, only)? else { return Ok(Undone { rules: Vec::new(), revision: 0 }) };
        let key = |place: &usize| match applied.choice.rules[*place].effective {
            Effective::Counted { key, .. } => Some(key),
            Effective::Unlimited | Effective::Blocked(_) => None,
        };
        let keys: Vec<Option<CounterKey>> = meant.iter().map(key).collect();
        let wanted: Vec<CounterKey> = keys.iter().flatten().copied().collect();
        let mut cleared = self.limiter.reset(&wanted, deadline).await.into_iter();
        let results = keys.iter().map(|key| if key.is_some() { cleared.next().unwrap_or(Err(Cause::Error)) } else { Ok(false) });
        Ok(applied.undone(&meant, results))
    }

    /// The rules that apply to `request`, and the places of those that are meant; `None` without rules.
    fn meant(&self, request: &Request<'_>, only: Option<&[Name]>) -> Result<Option<(Applied, Vec<usize>)>, CheckError> {
        let (_, served) = self.served(request)?;
        let Some(applied) = self.applied(served, request)? else { return Ok(None) };
        let name = |chosen: &Chosen| &applied.compiled.set.rules[chosen.rule].name;
        let Choice { rules, .. } = &applied.choice;
        if let Some(stray) = only.and_then(|only| only.iter().find(|wanted| !rules.iter().any(|chosen| name(chosen) == *wanted))) {
            return Err(CheckError::NotApplied(stray.clone()));
        }
        let is_meant = |place: &usize| only.is_none_or(|only| only.contains(name(&rules[*place])));
        let meant = (0..rules.len()).filter(is_meant).collect();
        Ok(Some((applied, meant)))
    }
}

impl Applied {
    fn undone<T>(&self, meant: &[usize], results: impl Iterator<Item = Result<T, Cause>>) -> Undone<T> {
        let rule = |place: &usize| self.compiled.set.rules[self.choice.rules[*place].rule].name.clone();
        let rules = meant.iter().map(rule).zip(results).map(|(rule, result)| UndoneRule { rule, result }).collect();
        Undone { rules, revision: self.compiled.set.revision }
    }
}
