//! Metrics of decisions, with the handles of each rule's counters kept beside the rule: the hot path adds to an atomic and looks up
//! nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use weir_core::decision::{Cause, Decision, LimitDecision, Outcome};
use weir_core::ruleset::{Choice, RuleSet};

use super::Compiled;

/// The most series of decisions; those of further rules are counted together under [`OTHER_RULES`].
const MAX_SERIES: usize = 20_000;
/// Stands for the rules that have no series of their own. No rule can have this name.
const OTHER_RULES: &str = "(other)";

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
struct DomainLabels {
    domain: Arc<str>,
}

/// All decisions of this agent, counted.
#[derive(Debug, Default)]
pub(super) struct Counters {
    decisions: Family<DecisionLabels, Counter>,
    degraded: Family<DegradedLabels, Counter>,
    unknown_tiers: Family<DomainLabels, Counter>,
    series: AtomicUsize,
}

/// The counters of one rule that have been needed so far.
#[derive(Debug, Default)]
pub(super) struct RuleCounters {
    /// By tier and outcome.
    decisions: OnceLock<Box<[OnceLock<Counter>]>>,
    /// By cause.
    degraded: OnceLock<Box<[OnceLock<Counter>]>>,
}

impl RuleCounters {
    fn decisions(&self, tiers: usize) -> &[OnceLock<Counter>] {
        self.decisions.get_or_init(|| (0..tiers * Outcome::ALL.len()).map(|_| OnceLock::new()).collect())
    }

    fn degraded(&self) -> &[OnceLock<Counter>] {
        self.degraded.get_or_init(|| Cause::ALL.iter().map(|_| OnceLock::new()).collect())
    }
}

impl Counters {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("weir_decisions", "Decisions by rule, tier and outcome", self.decisions.clone());
        registry.register("weir_degraded_decisions", "Decisions made without their shard, by rule and cause", self.degraded.clone());
        registry.register("weir_unknown_tiers", "Requests whose tier the domain does not have", self.unknown_tiers.clone());
    }

    /// Counts one decision: each of its limits once, or the request itself where no rule matched.
    pub(super) fn count(&self, compiled: &Compiled, choice: &Choice, decision: &Decision) {
        if choice.unknown_tier {
            self.unknown_tiers.get_or_create(&DomainLabels { domain: compiled.domain.clone() }).inc();
        }
        if choice.rules.is_empty() {
            let tier = decision.tier.as_ref().map_or("", |t| t.as_str());
            self.decisions_of(&compiled.domain, "", tier, Outcome::Allowed).inc();
            return;
        }
        let mut rules = choice.rules.iter();
        for limit in &decision.limits {
            // The limits are those of the choice in its order, some left out.
            let rule = rules.by_ref().map(|chosen| chosen.rule).find(|rule| compiled.set.rules[*rule].name == limit.rule);
            if let Some(rule) = rule {
                self.count_limit(compiled, rule, choice.tier, limit, decision.allowed());
            }
        }
    }

    fn count_limit(&self, compiled: &Compiled, rule: usize, tier: usize, limit: &LimitDecision, admitted: bool) {
        let (Some(counters), Some(tier_name)) = (compiled.rules.get(rule), compiled.set.tiers.get(tier)) else { return };
        if let Some(outcome) = limit.outcome(admitted)
            && let Some(cell) = counters.decisions(compiled.set.tiers.len()).get(tier * Outcome::ALL.len() + outcome as usize)
        {
            cell.get_or_init(|| self.decisions_of(&compiled.domain, limit.rule.as_str(), tier_name.as_str(), outcome)).inc();
        }
        if let Some(degraded) = limit.degraded
            && let Some(cell) = counters.degraded().get(degraded.cause as usize)
        {
            cell.get_or_init(|| self.degraded_of(&compiled.domain, limit.rule.as_str(), degraded.cause)).inc();
        }
    }

    pub(super) fn count_without_rules(&self, decision: &Decision) {
        let outcome = if decision.allowed() { Outcome::DegradedAllowed } else { Outcome::Unavailable };
        self.decisions_of(&decision.domain, "", "", outcome).inc();
        self.degraded_of(&decision.domain, "", Cause::NoRules).inc();
    }

    fn decisions_of(&self, domain: &Arc<str>, rule: &str, tier: &str, outcome: Outcome) -> Counter {
        let (rule, tier) = if self.is_full() { (OTHER_RULES, "") } else { (rule, tier) };
        let labels = DecisionLabels { domain: domain.clone(), rule: rule.to_owned(), tier: tier.to_owned(), outcome: outcome.as_str() };
        if self.decisions.get(&labels).is_none() {
            self.series.fetch_add(1, Ordering::Relaxed);
        }
        self.decisions.get_or_create_owned(&labels)
    }

    fn degraded_of(&self, domain: &Arc<str>, rule: &str, cause: Cause) -> Counter {
        let rule = if self.is_full() { OTHER_RULES } else { rule };
        let labels = DegradedLabels { domain: domain.clone(), rule: rule.to_owned(), cause: cause.as_str() };
        if self.degraded.get(&labels).is_none() {
            self.series.fetch_add(1, Ordering::Relaxed);
        }
        self.degraded.get_or_create_owned(&labels)
    }

    fn is_full(&self) -> bool {
        self.series.load(Ordering::Relaxed) >= MAX_SERIES
    }

    /// Drops the series of rules (and of tiers) that `new` no longer has.
    pub(super) fn forget_removed(&self, domain: &Arc<str>, old: &RuleSet, new: &RuleSet) {
        let tier_gone = |tier| !new.tiers.contains(tier);
        let any_tier_gone = old.tiers.iter().any(tier_gone);
        let kept: std::collections::HashSet<&str> = new.rules.iter().map(|rule| rule.name.as_str()).collect();
        for rule in &old.rules {
            let rule_gone = !kept.contains(rule.name.as_str());
            if !rule_gone && !any_tier_gone {
                continue;
            }
            for tier in old.tiers.iter().filter(|tier| rule_gone || tier_gone(tier)) {
                for outcome in Outcome::ALL {
                    let (rule, tier) = (rule.name.to_string(), tier.to_string());
                    let labels = DecisionLabels { domain: domain.clone(), rule, tier, outcome: outcome.as_str() };
                    self.forgotten(self.decisions.remove(&labels));
                }
            }
            for cause in Cause::ALL.into_iter().filter(|_| rule_gone) {
                let labels = DegradedLabels { domain: domain.clone(), rule: rule.name.to_string(), cause: cause.as_str() };
                self.forgotten(self.degraded.remove(&labels));
            }
        }
    }

    fn forgotten(&self, removed: bool) {
        if removed {
            self.series.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
