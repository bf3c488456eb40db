//! Comparing limits of rules that stack.

use crate::config::DomainConfig;
use crate::limit::{Algorithm, Limit};
use crate::name::Name;
use crate::rule::Rule;

use super::algorithms::algorithm;
use super::cover::Linted;

/// The tiers whose limit in `narrow` can never be reached, because `wide` allows no more of it: neither at once nor over time.
pub(super) fn never_reached(config: &DomainConfig, narrow: &Linted<'_>, wide: &Linted<'_>) -> Vec<String> {
    let [leases, others] = [narrow, wide].map(|linted| algorithm(config, linted.rule) == Algorithm::Concurrency);
    if leases != others {
        // Requests in flight, and requests in a time.
        return Vec::new();
    }
    // Tiers that neither rule names are all alike.
    let named = |name: &Name| [narrow, wide].iter().any(|rule| rule.rule.limits.contains_key(&Some(name.clone())));
    let tiers = config.tiers.iter().map(|tier| &tier.name).filter(|name| named(name));
    let lower = |tier: Option<&Name>| match (limit_of(narrow.rule, tier), limit_of(wide.rule, tier)) {
        (Some(Limit::Limited { limit: narrow, .. }), Some(Limit::Limited { limit: wide, .. })) if leases => wide <= narrow,
        (Some(narrow), Some(wide)) => not_higher(wide, narrow),
        _ => false,
    };
    let mut found: Vec<String> = tiers.filter(|name| lower(Some(name))).map(|name| format!("tier {name}")).collect();
    if lower(None) {
        found.push("\"*\"".to_owned());
    }
    found
}

fn limit_of(rule: &Rule, tier: Option<&Name>) -> Option<Limit> {
    rule.limits.get(&tier.cloned()).or_else(|| rule.limits.get(&None)).copied()
}

fn not_higher(wide: Limit, narrow: Limit) -> bool {
    let (Limit::Limited { limit: a, window: a_window, burst: a_burst }, Limit::Limited { limit: b, window: b_window, burst: b_burst }) =
        (wide, narrow)
    else {
        return false;
    };
    let rate = |limit: u64, other_window: u64| u128::from(limit) * u128::from(other_window);
    rate(a, b_window.longest_us()) <= rate(b, a_window.longest_us()) && a_burst.unwrap_or(a) <= b_burst.unwrap_or(b)
}
