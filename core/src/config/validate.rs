//! What only shows when all parts of a domain are seen together.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::read::{MAX_RULES, MAX_TIERS};
use crate::domain::Defaults;
use crate::limit::{Algorithm, Limit, MAX_UNITS, Window};
use crate::mistake::Mistakes;
use crate::name::Name;
use crate::rule::{KeyPart, Rule};
use crate::span::Span;
use crate::tier::Tier;

/// The longest time that a token bucket may take to refill from empty: beyond it, times no longer fit a double.
pub const MAX_REFILL: Span = Span::from_secs(3_660 * 86_400);

/// The parts of a domain, each with its place.
pub(super) struct Parts<'c> {
    pub(super) defaults: &'c Defaults,
    pub(super) tiers: Vec<(String, &'c Tier)>,
    /// False if a tier could not be read: then nothing is said about tiers that seem to be missing.
    pub(super) all_tiers_known: bool,
    pub(super) rules: Vec<(String, &'c Rule)>,
}

impl Parts<'_> {
    /// Notes every mistake.
    pub(super) fn check(&self, mistakes: &mut Mistakes) {
        self.check_names(mistakes);
        if self.all_tiers_known {
            self.has_default_tier(mistakes);
        }
        let known: HashSet<&str> = self.tiers.iter().map(|(_, tier)| tier.name.as_str()).collect();
        for (pointer, rule) in &self.rules {
            if self.all_tiers_known {
                self.limits_fit_tiers(pointer, rule, &known, mistakes);
            }
            self.limits_fit_algorithm(pointer, rule, mistakes);
            self.cost_fits_algorithm(pointer, rule, mistakes);
            self.windows_fit_key(pointer, rule, mistakes);
        }
    }

    /// Notes what is wrong whatever else there is: too many tiers or rules, names that occur twice, and two default tiers.
    pub(super) fn check_names(&self, mistakes: &mut Mistakes) {
        if self.tiers.len() > MAX_TIERS {
            mistakes.add("/tiers", format!("must have at most {MAX_TIERS} entries, not {}", self.tiers.len()));
        }
        if self.rules.len() > MAX_RULES {
            mistakes.add("/rules", format!("must have at most {MAX_RULES} entries, not {}", self.rules.len()));
        }
        duplicates("tier", self.tiers.iter().map(|(pointer, tier)| (pointer, tier.name.as_str())), mistakes);
        duplicates("rule", self.rules.iter().map(|(pointer, rule)| (pointer, rule.name.as_str())), mistakes);
        let mut defaults = self.tiers.iter().filter(|(_, tier)| tier.default);
        if let (Some((_, first)), Some((pointer, _))) = (defaults.next(), defaults.next()) {
            mistakes.add(format!("{pointer}/default"), format!("only one tier can be the default; {} is already", first.name));
        }
    }

    fn has_default_tier(&self, mistakes: &mut Mistakes) {
        if !self.tiers.is_empty() && !self.tiers.iter().any(|(_, tier)| tier.default) {
            mistakes.add("/tiers", "one tier must have default: true");
        }
    }

    fn limits_fit_tiers(&self, pointer: &str, rule: &Rule, known: &HashSet<&str>, mistakes: &mut Mistakes) {
        for name in rule.limits.keys().flatten() {
            if !known.contains(name.as_str()) {
                mistakes.add(format!("{pointer}/limits/{name}"), "there is no such tier");
            }
        }
        if rule.limits.contains_key(&None) {
            return;
        }
        let tiers = self.tiers.iter().map(|(_, tier)| &tier.name);
        let missing: Vec<&str> = tiers.filter(|name| !rule.limits.contains_key(&Some((*name).clone()))).map(Name::as_str).collect();
        if !missing.is_empty() || known.is_empty() {
            let of = if missing.is_empty() { String::new() } else { format!(" of tier {}", missing.join(", ")) };
            mistakes.add(format!("{pointer}/limits"), format!("the limit{of} is missing, and there is no \"*\" for the rest"));
        }
    }

    fn limits_fit_algorithm(&self, pointer: &str, rule: &Rule, mistakes: &mut Mistakes) {
        let algorithm = rule.algorithm.or(self.defaults.algorithm).unwrap_or_default();
        for (tier, limit) in &rule.limits {
            if let Some((field, mistake)) = limit_mistake(algorithm, limit) {
                let tier = tier.as_ref().map_or("*", |name| name.as_str());
                mistakes.add(format!("{pointer}/limits/{tier}/{field}"), mistake);
            }
        }
    }

    fn cost_fits_algorithm(&self, pointer: &str, rule: &Rule, mistakes: &mut Mistakes) {
        let algorithm = rule.algorithm.or(self.defaults.algorithm).unwrap_or_default();
        if algorithm == Algorithm::Concurrency && rule.cost_header.is_some() {
            mistakes.add(format!("{pointer}/cost_header"), "concurrency counts requests in flight, whatever they cost: leave it out");
        }
    }

    /// A window's state is that of one window: tiers that count on one counter with different windows would each make it forget what the
    /// other needs. A subject has one tier at a time, so with `subject` in the key that happens only when its tier changes.
    fn windows_fit_key(&self, pointer: &str, rule: &Rule, mistakes: &mut Mistakes) {
        let algorithm = rule.algorithm.or(self.defaults.algorithm).unwrap_or_default();
        if algorithm == Algorithm::TokenBucket || rule.key.iter().any(|part| matches!(part, KeyPart::Subject | KeyPart::Tier)) {
            return;
        }
        let windows: BTreeSet<Window> = rule.limits.values().filter_map(counted_window).collect();
        if windows.len() > 1 {
            let windows: Vec<String> = windows.iter().map(Window::to_string).collect();
            let detail = format!(
                "all tiers share one counter, and {} keeps only one window of {}: add tier to the key, or give all tiers the same window",
                algorithm.as_str(),
                windows.join(", ")
            );
            mistakes.add(format!("{pointer}/limits"), detail);
        }
    }
}

/// The window of a limit that counts anything.
fn counted_window(limit: &Limit) -> Option<Window> {
    match limit {
        Limit::Limited { limit: 1.., window, .. } => Some(*window),
        _ => None,
    }
}

/// What keeps `algorithm` from counting by `limit`: the field, and what is wrong with it.
#[must_use]
pub fn limit_mistake(algorithm: Algorithm, limit: &Limit) -> Option<(&'static str, String)> {
    let Limit::Limited { limit, window, burst } = *limit else { return None };
    if limit > algorithm.max_limit() {
        let (name, most) = (algorithm.as_str(), algorithm.max_limit());
        return Some(("limit", format!("must be at most {most}: {name} remembers each request by itself")));
    }
    if window.calendar().is_some() && algorithm != Algorithm::FixedWindow {
        return Some(("calendar", format!("only fixed_window follows a calendar, not {}: give a window", algorithm.as_str())));
    }
    burst.and_then(|burst| burst_mistake(algorithm, limit, window, burst)).map(|mistake| ("burst", mistake))
}

fn burst_mistake(algorithm: Algorithm, limit: u64, window: Window, burst: u64) -> Option<String> {
    if algorithm != Algorithm::TokenBucket {
        return Some(format!("only token_bucket has a burst, not {}", algorithm.as_str()));
    }
    if limit == 0 {
        return Some("a limit of 0 blocks everything and has no burst".to_owned());
    }
    let most = u128::from(limit) * u128::from(MAX_REFILL.as_micros()) / u128::from(window.longest_us().max(1));
    let most = most.min(u128::from(MAX_UNITS));
    (u128::from(burst) > most)
        .then(|| format!("must be at most {most}: a larger burst takes longer than {MAX_REFILL} to refill at {limit} per {window}"))
}

fn duplicates<'a>(what: &str, names: impl Iterator<Item = (&'a String, &'a str)>, mistakes: &mut Mistakes) {
    let mut seen = HashMap::new();
    for (pointer, name) in names {
        if let Some(first) = seen.insert(name, pointer) {
            mistakes.add(format!("{pointer}/name"), format!("another {what} ({first}) has this name"));
        }
    }
}
