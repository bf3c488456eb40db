//! The choice itself: candidates from the index, the winner of each group, and what each chosen rule counts.

use std::cmp::Reverse;

use super::counting::Caller;
use super::tier_limits::{TierLimit, bound};
use super::{Choice, ChoiceError, Chosen, CompiledRule, Effective, MAX_LIMITS, RuleSet};
use crate::config::limit_mistake;
use crate::decision::{LimitMode, Source};
use crate::domain::DomainMode;
use crate::key::HashSecret;
use crate::limit::Algorithm;
use crate::matching::host;
use crate::matching::index::{Facts, RuleIndex};
use crate::matching::rank::HostRank;
use crate::matching::values::{HeaderTest, descriptor_holds};
use crate::path;
use crate::request::Request;
use crate::rule::{DescriptorMatch, RuleMode};

/// What of a rule's match is tested after the index found it.
#[derive(Debug)]
pub(super) struct Tests {
    pub(super) headers: Vec<HeaderTest>,
    pub(super) descriptors: Vec<DescriptorMatch>,
}

/// Which rules a rule competes with, and how it fares.
#[derive(Debug, Clone, Copy)]
pub(super) struct Precedence {
    /// A number for the group.
    pub(super) group: u32,
    /// The operator's word.
    pub(super) priority: i32,
    /// Position among all rules by specificity and name; the greater wins.
    pub(super) position: u32,
}

/// A rule that matches the request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    rule: RuleIndex,
    group: u32,
    /// Priority, then the host pattern that matched, then the rest. The greater wins.
    rank: (i32, HostRank, u32),
    enforcing: bool,
}

pub(super) fn choose(rules: &RuleSet, request: &Request<'_>, secret: &HashSecret, choice: &mut Choice) -> Result<(), ChoiceError> {
    choice.rules.clear();
    choice.candidates.clear();
    choice.tier = rules.default_tier;
    choice.unknown_tier = false;
    rules.bounds(request)?;
    if let Some(tier) = request.tier {
        match rules.tier_positions.get(tier) {
            Some(position) => choice.tier = *position,
            None => choice.unknown_tier = true,
        }
    }
    if rules.mode == DomainMode::Off {
        return Ok(());
    }
    let path = request.path.map(path::normalise).transpose().map_err(|error| ChoiceError::Path(error.to_string()))?;
    let host = request.host.map(host::normalise);
    let facts = Facts { request, path: path.as_deref(), host: host.as_deref() };
    let caller = Caller::new(rules, &facts, secret, choice.tier);
    find_candidates(rules, &facts, &caller, &mut choice.candidates);
    keep_winners(&mut choice.candidates);
    if choice.candidates.len() > MAX_LIMITS {
        return Err(ChoiceError::TooManyLimits(choice.candidates.len()));
    }
    choice.candidates.sort_unstable_by_key(|candidate| candidate.rule);
    for candidate in &choice.candidates {
        let enforcing = candidate.enforcing && rules.mode == DomainMode::Enforce;
        let mode = if enforcing { LimitMode::Enforce } else { LimitMode::Shadow };
        choice.rules.push(chosen(&rules.rules[candidate.rule as usize], mode, choice.tier, &caller)?);
    }
    Ok(())
}

fn find_candidates(rules: &RuleSet, facts: &Facts<'_, '_>, caller: &Caller<'_, '_>, candidates: &mut Vec<Candidate>) {
    rules.index.find(facts, &mut |found, host| {
        let rule = &rules.rules[found as usize];
        if rule.tests.hold(facts.request) {
            let Precedence { group, priority, position } = rule.precedence;
            let rank = (priority, host, position);
            candidates.push(Candidate { rule: found, group, rank, enforcing: rule.enforces_for(caller) });
        }
    });
}

/// Leaves of each group the best enforcing rule and the others that would beat it. A rule that was found twice (by two of its hosts, or
/// by a descriptor given twice) counts once, with its best rank.
fn keep_winners(candidates: &mut Vec<Candidate>) {
    candidates.sort_unstable_by_key(|candidate| (candidate.rule, Reverse(candidate.rank)));
    candidates.dedup_by_key(|candidate| candidate.rule);
    candidates.sort_unstable_by_key(|candidate| (candidate.group, Reverse(candidate.rank)));
    let mut decided = None;
    candidates.retain(|candidate| {
        let beaten = decided == Some(candidate.group);
        if candidate.enforcing {
            decided = Some(candidate.group);
        }
        !beaten
    });
}

fn chosen(rule: &CompiledRule, mode: LimitMode, tier: usize, caller: &Caller<'_, '_>) -> Result<Chosen, ChoiceError> {
    let (limit, source) = limit_of(rule, tier, caller.request())?;
    let effective = match limit {
        None => Effective::Unlimited,
        Some(bound) if bound.limit == 0 => Effective::Blocked(bound),
        Some(bound) => Effective::Counted { bound, key: rule.counting.key(rule.name.as_str(), caller) },
    };
    let request = caller.request();
    let (cost, cost_unreadable) = match rule.counting.cost(request.headers, request.cost) {
        Ok(cost) => (cost, false),
        Err(error) if mode == LimitMode::Enforce && matches!(effective, Effective::Counted { .. }) => return Err(error),
        // What cannot refuse must not have the request refused either.
        Err(_) => (request.cost, true),
    };
    // Whatever it costs, it is one request in flight.
    let cost = if rule.algorithm == Algorithm::Concurrency { cost.min(1) } else { cost };
    Ok(Chosen { rule: rule.index, mode, source, effective, cost, cost_unreadable })
}

/// The request's own limit for the rule, else that of the tier.
fn limit_of(rule: &CompiledRule, tier: usize, request: &Request<'_>) -> Result<(TierLimit, Source), ChoiceError> {
    let Some(limit) = request.limits.and_then(|limits| limits.get(&rule.name)) else { return Ok(rule.limits.of(tier)) };
    match limit_mistake(rule.algorithm, limit) {
        Some((field, detail)) => Err(ChoiceError::Override { rule: rule.name.clone(), field, detail }),
        None => Ok((bound(*limit, rule.algorithm), Source::Override)),
    }
}

impl CompiledRule {
    fn enforces_for(&self, caller: &Caller<'_, '_>) -> bool {
        self.mode == RuleMode::Enforce
            && self.enforce_percent.is_none_or(|percent| caller.tag().per_ten_thousand(self.name.as_str()) < u16::from(percent) * 100)
    }
}

impl Tests {
    fn hold(&self, request: &Request<'_>) -> bool {
        self.descriptors.iter().all(|wanted| descriptor_holds(wanted, request.descriptors))
            && self.headers.iter().all(|wanted| wanted.holds(request.headers))
    }
}
