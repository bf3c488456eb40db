//! Metrics of decisions, with the handles of each rule's counters kept beside the rule: the hot path adds to an atomic, takes no lock and
//! allocates nothing.

mod sparse;

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use weir_core::decision::{Cause, Decision, LimitDecision, Outcome};
use weir_core::ruleset::{Choice, RuleSet};

use self::sparse::Sparse;
use super::Compiled;

/// The most series of decisions; those of further rules are counted together under [`OTHER_RULES`].
const MAX_SERIES: usize = 20_000;
/// Stands for the rules that have no series of their own. No rule can have this name.
const OTHER_RULES: &str = "(other)";
/// Stands for no rule: none matched.
const NO_RULE: &str = "";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    domain: Arc<str>,
    rule: String,
    tier: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DegradedLabels {
    domain: Arc<str>,
    rule: String,
    cause: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RuleLabels {
    domain: Arc<str>,
    rule: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DomainLabels {
    domain: Arc<str>,
}

/// All decisions of this agent, counted.
#[derive(Debug, Default)]
pub(super) struct Counters {
    decisions: Family<DecisionLabels, Counter>,
    degraded: Family<DegradedLabels, Counter>,
    unreadable_costs: Family<RuleLabels, Counter>,
    unknown_tiers: Family<DomainLabels, Counter>,
    /// The number of series of the first three. Locked while one is made or dropped, which is rare, so that the number is exact.
    series: Mutex<usize>,
}

/// The counters that one rule set has needed so far.
#[derive(Debug)]
pub(super) struct DomainCounters {
    /// Each made at the rule's first decision: most rules of a large domain are rarely used.
    rules: Box<[OnceLock<Box<RuleCounters>>]>,
    /// By tier: requests that no rule matched.
    unmatched: Sparse<Counter>,
    unknown_tiers: Counter,
    /// Set, under the lock of [`Counters::series`], once another rule set has taken over: a check that is still under way makes no series.
    retired: OnceLock<()>,
}

#[derive(Debug, Default)]
struct RuleCounters {
    /// By tier and outcome.
    decisions: Sparse<Counter>,
    /// By cause.
    degraded: Sparse<Counter>,
    unreadable_costs: OnceLock<Counter>,
}

impl DomainCounters {
    fn of_rule(&self, position: usize) -> Option<&RuleCounters> {
        self.rules.get(position).map(|counters| &**counters.get_or_init(Box::default))
    }
}

impl Counters {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("weir_decisions", "Decisions by rule, tier and outcome", self.decisions.clone());
        registry.register("weir_degraded_decisions", "Decisions made without their shard, by rule and cause", self.degraded.clone());
        registry.register("weir_unknown_tiers", "Requests whose tier the domain does not have", self.unknown_tiers.clone());
        registry.register(
            "weir_unreadable_costs",
            "Requests whose cost header has no cost, which a limit that counts nothing or cannot refuse took by their own",
            self.unreadable_costs.clone(),
        );
    }

    /// The counters of a rule set of so many rules.
    pub(super) fn of_domain(&self, domain: Arc<str>, rules: usize) -> DomainCounters {
        DomainCounters {
            rules: (0..rules).map(|_| OnceLock::new()).collect(),
            unmatched: Sparse::default(),
            unknown_tiers: self.unknown_tiers.get_or_create_owned(&DomainLabels { domain }),
            retired: OnceLock::new(),
        }
    }

    /// Counts one decision: each of its limits once, or the request itself where no rule matched.
    pub(super) fn count(&self, compiled: &Compiled, choice: &Choice, decision: &Decision) {
        let counters = &compiled.counters;
        if choice.unknown_tier {
            counters.unknown_tiers.inc();
        }
        if choice.rules.is_empty() {
            let make = || self.decisions_of(compiled, NO_RULE, choice.tier, Outcome::Allowed);
            counters.unmatched.get_or_make(choice.tier, make).inc();
        }
        for limit in &decision.limits {
            self.count_limit(compiled, choice.tier, limit, decision.allowed());
        }
        for chosen in choice.rules.iter().filter(|chosen| chosen.cost_unreadable) {
            let name = compiled.set.rules[chosen.rule].name.as_str();
            let Some(counters) = counters.of_rule(chosen.rule) else { continue };
            counters.unreadable_costs.get_or_init(|| self.unreadable_costs_of(compiled, name)).inc();
        }
    }

    fn count_limit(&self, compiled: &Compiled, tier: usize, limit: &LimitDecision, admitted: bool) {
        let Some(counters) = compiled.counters.of_rule(limit.position) else { return };
        if let Some(outcome) = limit.outcome(admitted) {
            let make = || self.decisions_of(compiled, limit.rule.as_str(), tier, outcome);
            counters.decisions.get_or_make(tier * Outcome::ALL.len() + outcome as usize, make).inc();
        }
        if let Some(degraded) = limit.degraded {
            let make = || {
                let labels = |rule| DegradedLabels { domain: compiled.domain.clone(), rule, cause: degraded.cause.as_str() };
                self.series_of(&self.degraded, Some(compiled), labels(limit.rule.to_string()), labels(OTHER_RULES.to_owned()))
            };
            counters.degraded.get_or_make(degraded.cause as usize, make).inc();
        }
    }

    /// What counts decisions of a domain without rules, which are all like this one: the decisions, and their degradation.
    pub(super) fn without_rules(&self, decision: &Decision) -> [Counter; 2] {
        let outcome = if decision.allowed() { Outcome::DegradedAllowed } else { Outcome::Unavailable };
        let domain = decision.domain.clone();
        let labels = DecisionLabels { domain, rule: NO_RULE.to_owned(), tier: String::new(), outcome: outcome.as_str() };
        let decisions = self.series_of(&self.decisions, None, labels.clone(), labels);
        let labels = DegradedLabels { domain: decision.domain.clone(), rule: NO_RULE.to_owned(), cause: Cause::NoRules.as_str() };
        [decisions, self.series_of(&self.degraded, None, labels.clone(), labels)]
    }

    fn decisions_of(&self, compiled: &Compiled, rule: &str, tier: usize, outcome: Outcome) -> Counter {
        let tier = compiled.set.tiers.get(tier).map_or("", |tier| tier.as_str());
        let labels = |rule: &str, tier: &str| DecisionLabels {
            domain: compiled.domain.clone(),
            rule: rule.to_owned(),
            tier: tier.to_owned(),
            outcome: outcome.as_str(),
        };
        self.series_of(&self.decisions, Some(compiled), labels(rule, tier), labels(OTHER_RULES, ""))
    }

    fn unreadable_costs_of(&self, compiled: &Compiled, rule: &str) -> Counter {
        let labels = |rule: &str| RuleLabels { domain: compiled.domain.clone(), rule: rule.to_owned() };
        self.series_of(&self.unreadable_costs, Some(compiled), labels(rule), labels(OTHER_RULES))
    }

    /// The series of `labels`, which is made if there is room and `compiled` still in force; else that of `other`.
    fn series_of<L: Clone + Eq + std::hash::Hash>(
        &self,
        family: &Family<L, Counter>,
        compiled: Option<&Compiled>,
        labels: L,
        other: L,
    ) -> Counter {
        let mut series = self.series.lock();
        if let Some(counter) = family.get(&labels) {
            return counter.clone();
        }
        let retired = compiled.is_some_and(|compiled| compiled.counters.retired.get().is_some());
        let labels = if retired || *series >= MAX_SERIES { other } else { labels };
        let is_new = family.get(&labels).is_none();
        *series += usize::from(is_new);
        family.get_or_create_owned(&labels)
    }

    /// Drops the series of the rules and tiers that `new`, which has taken over, does not have.
    pub(super) fn retire(&self, old: &Compiled, new: &RuleSet) {
        let mut series = self.series.lock();
        let _ = old.counters.retired.set(());
        let tier_gone = |tier| !new.tiers.contains(tier);
        let any_tier_gone = old.set.tiers.iter().any(tier_gone);
        let kept: HashSet<&str> = new.rules.iter().map(|rule| rule.name.as_str()).chain([NO_RULE]).collect();
        let names = old.set.rules.iter().map(|rule| rule.name.as_str()).chain([NO_RULE]);
        for (rule, gone) in names.map(|rule| (rule, !kept.contains(rule))).filter(|(_, gone)| *gone || any_tier_gone) {
            let label = |outcome: Outcome, tier: &str| DecisionLabels {
                domain: old.domain.clone(),
                rule: rule.to_owned(),
                tier: tier.to_owned(),
                outcome: outcome.as_str(),
            };
            for tier in old.set.tiers.iter().filter(|tier| gone || tier_gone(tier)) {
                *series -= Outcome::ALL.into_iter().filter(|outcome| self.decisions.remove(&label(*outcome, tier.as_str()))).count();
            }
            if gone {
                let label = |cause: Cause| DegradedLabels { domain: old.domain.clone(), rule: rule.to_owned(), cause: cause.as_str() };
                *series -= Cause::ALL.into_iter().filter(|cause| self.degraded.remove(&label(*cause))).count();
                let label = RuleLabels { domain: old.domain.clone(), rule: rule.to_owned() };
                *series -= usize::from(self.unreadable_costs.remove(&label));
            }
        }
    }
}

#[cfg(test)]
mod tests;
