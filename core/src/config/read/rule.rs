//! Reads a rule.

use serde_json::Value;

use super::object::Object;
use super::{all_or_nothing, failure, key, limits, matches, value};
use crate::limit::Algorithm;
use crate::mistake::Mistakes;
use crate::rule::{Rule, RuleMode};

const FIELDS: [&str; 12] = [
    "name",
    "description",
    "group",
    "priority",
    "match",
    "key",
    "algorithm",
    "limits",
    "on_failure",
    "mode",
    "enforce_percent",
    "cost_header",
];
const MODES: [(&str, RuleMode); 3] = [("enforce", RuleMode::Enforce), ("shadow", RuleMode::Shadow), ("off", RuleMode::Off)];
const ALGORITHMS: [(&str, Algorithm); Algorithm::ALL.len()] = {
    let [a, b, c, d, e] = Algorithm::ALL;
    [(a.as_str(), a), (b.as_str(), b), (c.as_str(), c), (d.as_str(), d), (e.as_str(), e)]
};

/// Reads one rule; `pointer` is its place in the document. `None` if there was a mistake. What only shows beside the domain's defaults
/// and tiers is left to [`validate`](crate::config::DomainConfig::validate).
pub fn rule(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<Rule> {
    all_or_nothing(mistakes, |mistakes| {
        let object = Object::open(value, pointer, &FIELDS, mistakes)?;
        let name = object.required("name", mistakes, value::name);
        let matches = if object.has("match") { object.optional("match", mistakes, matches::matches) } else { Some(Default::default()) };
        let key = key::key(&object, matches.as_ref(), mistakes);
        let limits = object.required("limits", mistakes, limits::limits);
        let description = object.optional("description", mistakes, value::description).unwrap_or_default();
        let group = object.optional("group", mistakes, value::name);
        let priority = object.optional("priority", mistakes, priority).unwrap_or_default();
        let algorithm = object.optional("algorithm", mistakes, algorithm);
        let on_failure = object.optional("on_failure", mistakes, failure::policy);
        let mode = object.optional("mode", mistakes, value::choice(&MODES)).unwrap_or_default();
        let enforce_percent = object.optional("enforce_percent", mistakes, percent);
        let cost_header = object.optional("cost_header", mistakes, matches::header_name);
        // Only now, so that every field has been looked at.
        let (name, matches, key, limits) = (name?, matches?, key?, limits?);
        Some(Rule { name, description, group, priority, matches, key, algorithm, limits, on_failure, mode, enforce_percent, cost_header })
    })
}

/// An algorithm by its name.
pub(super) fn algorithm(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<Algorithm> {
    value::choice(&ALGORITHMS)(value, pointer, mistakes)
}

fn priority(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<i32> {
    i32::try_from(value::whole(i64::from(i32::MIN)..=i64::from(i32::MAX))(value, pointer, mistakes)?).ok()
}

fn percent(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<u8> {
    u8::try_from(value::whole(0..=100)(value, pointer, mistakes)?).ok()
}
