//! The choice against a reference that looks at every rule and compares pairs, as the documentation says it.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use http::HeaderMap;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use super::{choose, headers, request};
use crate::config::DomainConfig;
use crate::decision::LimitMode;
use crate::key::{HashSecret, Tag};
use crate::request::Request;
use crate::rule::{Rule, RuleMode, ValueMatch};
use crate::ruleset::RuleSet;
use crate::subject::Subject;

/// A request in words of a small alphabet, so that rules often match.
#[derive(Debug, Clone)]
struct Question {
    path: Option<String>,
    host: Option<&'static str>,
    method: Option<&'static str>,
    headers: Vec<(&'static str, &'static str)>,
    descriptors: Vec<(&'static str, &'static str)>,
    subject: &'static str,
}

fn question() -> impl Strategy<Value = Question> {
    let pair = |names: &'static [&'static str]| (select(names), select(&["v", "vw", "w"][..]));
    (
        of("(/[ab]){0,4}".prop_map(|path| if path.is_empty() { "/".to_owned() } else { path })),
        of(select(&["x", "a.x", "b.x", "a.b.x"][..])),
        of(select(&["GET", "PUT", "HEAD"][..])),
        vec(pair(&["h", "i"]), 0..3),
        vec(pair(&["k", "l"]), 0..3),
        select(&["user:1", "user:2", "user:3"][..]),
    )
        .prop_map(|(path, host, method, headers, descriptors, subject)| Question { path, host, method, headers, descriptors, subject })
}

fn rule() -> impl Strategy<Value = Value> {
    let path = of("(/a|/b|/\\*|/\\{x\\}){0,3}(/\\*\\*)?".prop_map(|path| {
        let named = path.split('/').enumerate().map(|(i, s)| s.replace("{x}", &format!("{{x{i}}}"))).collect::<Vec<_>>().join("/");
        if named.is_empty() { "/".to_owned() } else { named }
    }));
    let hosts = subsequence(vec!["x", "a.x", "b.x", "*.x", "*.b.x"], 0..3);
    let methods = subsequence(vec!["GET", "HEAD", "PUT"], 0..3);
    let headers = subsequence(
        vec![
            json!({"name": "h", "exact": "v"}),
            json!({"name": "h", "present": true}),
            json!({"name": "i", "prefix": "v"}),
            json!({"name": "i", "regex": "v|w"}),
        ],
        0..3,
    );
    let descriptors = subsequence(vec![json!({"key": "k"}), json!({"key": "k", "value": "v"}), json!({"key": "l", "value": "v*"})], 0..3);
    let matches = (path, hosts, methods, prop_oneof![3 => Just(vec![]), 1 => headers], prop_oneof![3 => Just(vec![]), 1 => descriptors]);
    let group = of(select(&["g", "h"][..]));
    let mode = select(&["enforce", "enforce", "enforce", "shadow", "off"][..]);
    (matches, group, -1..=1_i32, mode, of(select(&[0, 50, 100][..]))).prop_map(
        |((path, hosts, methods, headers, descriptors), group, priority, mode, percent)| {
            let mut matches = json!({ "hosts": hosts, "methods": methods, "headers": headers, "descriptors": descriptors });
            let mut rule = json!({ "key": [], "limits": { "*": { "limit": 1, "window": "1s" } }, "priority": priority, "mode": mode });
            if let Some(path) = path {
                matches["path"] = json!(path);
            }
            rule["match"] = matches;
            for (field, value) in [("group", group.map(|group| json!(group))), ("enforce_percent", percent.map(|percent| json!(percent)))] {
                if let Some(value) = value {
                    rule[field] = value;
                }
            }
            rule
        },
    )
}

fn path_matches(template: &[&str], path: &[&str]) -> bool {
    match (template, path) {
        (["**"], _) | ([], []) => true,
        ([t, template @ ..], [p, path @ ..]) => (*t == "*" || t.starts_with('{') || t == p) && path_matches(template, path),
        _ => false,
    }
}

fn segments(path: &str) -> Vec<&str> {
    path.split('/').filter(|segment| !segment.is_empty()).collect()
}

/// How well the rule's hosts fit: `None` not at all.
fn host_fit(rule: &Rule, host: Option<&str>) -> Option<usize> {
    if rule.matches.hosts.is_empty() {
        return Some(0);
    }
    let fit = |pattern: &String| match pattern.strip_prefix('*') {
        None => (host? == pattern).then_some(usize::MAX),
        Some(suffix) => host?.ends_with(suffix).then_some(suffix.len()),
    };
    rule.matches.hosts.iter().filter_map(fit).max()
}

fn matches(rule: &Rule, question: &Question) -> bool {
    let m = &rule.matches;
    let fits = |value: &ValueMatch, text: &str| match value {
        ValueMatch::Present(_) => true,
        ValueMatch::Exact(exact) => text == exact,
        ValueMatch::Prefix(prefix) => text.starts_with(prefix.as_str()),
        ValueMatch::Regex(_) => text == "v" || text == "w",
    };
    let globs = |pattern: &Option<String>, text: &str| match pattern.as_deref() {
        None => true,
        Some("v*") => text.starts_with('v'),
        Some(exact) => exact == text,
    };
    host_fit(rule, question.host).is_some()
        && (m.methods.is_empty()
            || question.method.is_some_and(|method| m.methods.iter().any(|given| given == method || (given == "GET" && method == "HEAD"))))
        && m.path.as_deref().is_none_or(|t| question.path.as_deref().is_some_and(|p| path_matches(&segments(t), &segments(p))))
        && m.headers.iter().all(|h| question.headers.iter().any(|(name, value)| h.name == *name && fits(&h.value, value)))
        && m.descriptors.iter().all(|d| question.descriptors.iter().any(|(key, value)| d.key == *key && globs(&d.value, value)))
}

/// The documented order between two rules that both match.
fn compare(a: &Rule, b: &Rule, host: Option<&str>) -> Ordering {
    let literal = |segment: &&&str| !segment.starts_with(['*', '{']);
    let prefix = |rule: &Rule| rule.matches.path.as_deref().map(|path| segments(path).iter().take_while(literal).count());
    let kind = |segment: Option<&&str>| match segment {
        Some(&"**") => 0,
        Some(&"*") => 1,
        Some(text) if text.starts_with('{') => 2,
        Some(_) => 3,
        None => 4,
    };
    let by_segment = || {
        let (a, b) = (segments(a.matches.path.as_deref().unwrap_or("")), segments(b.matches.path.as_deref().unwrap_or("")));
        (0..=a.len().max(b.len())).map(|i| kind(a.get(i)).cmp(&kind(b.get(i)))).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    a.priority
        .cmp(&b.priority)
        .then_with(|| host_fit(a, host).cmp(&host_fit(b, host)))
        .then_with(|| prefix(a).cmp(&prefix(b)))
        .then_with(by_segment)
        .then_with(|| a.matches.methods.is_empty().cmp(&b.matches.methods.is_empty()).reverse())
        .then_with(|| a.matches.headers.len().cmp(&b.matches.headers.len()))
        .then_with(|| a.matches.descriptors.len().cmp(&b.matches.descriptors.len()))
        .then_with(|| a.name.cmp(&b.name).reverse())
}

fn enforces(rule: &Rule, question: &Question) -> bool {
    let tag = Tag::of_subject(&HashSecret::built_in(), "default", &Subject::parse(question.subject).unwrap());
    let share = rule.enforce_percent.map_or(10_000, |percent| u16::from(percent) * 100);
    rule.mode == RuleMode::Enforce && tag.per_ten_thousand(rule.name.as_str()) < share
}

/// Name and mode of every rule that applies.
fn reference(config: &DomainConfig, question: &Question) -> BTreeMap<String, LimitMode> {
    let matching: Vec<&Rule> = config.rules.iter().filter(|rule| rule.mode != RuleMode::Off && matches(rule, question)).collect();
    let group = |rule: &Rule| rule.group.clone().unwrap_or_else(|| rule.name.clone());
    let applies = |rule: &&&Rule| {
        let beaten =
            |other: &&Rule| group(other) == group(rule) && enforces(other, question) && compare(other, rule, question.host).is_gt();
        !matching.iter().any(beaten)
    };
    let mode = |rule: &Rule| if enforces(rule, question) { LimitMode::Enforce } else { LimitMode::Shadow };
    matching.iter().filter(applies).map(|rule| (rule.name.to_string(), mode(rule))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_index_chooses_what_looking_at_every_rule_would(rules in vec(rule(), 1..24), questions in vec(question(), 1..8)) {
        let mut rules = rules;
        rules.iter_mut().enumerate().for_each(|(i, rule)| rule["name"] = json!(format!("r{i}")));
        let config = DomainConfig::read(&json!({ "rules": rules })).unwrap();
        let set = RuleSet::compile(&config, 1).unwrap();
        for question in questions {
            let lines: HeaderMap = headers(&question.headers);
            let asked = Request {
                path: question.path.as_deref(), host: question.host, method: question.method, descriptors: &question.descriptors,
                subject: Subject::parse(question.subject), ..request(&lines)
            };
            let choice = choose(&set, &asked).unwrap();
            let chosen: BTreeMap<String, LimitMode> = choice.rules.iter().map(|c| (set.rules[c.rule].name.to_string(), c.mode)).collect();
            prop_assert_eq!(chosen.len(), choice.rules.len());
            prop_assert_eq!(chosen, reference(&config, &question), "{:?}", question);
        }
    }
}
