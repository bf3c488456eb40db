//! Which rules are chosen, with which limit, under which key.

mod choice;
mod keys;
mod limits;
mod precedence;
mod reference;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Choice, ChoiceError, RuleSet};
use crate::config::DomainConfig;
use crate::key::HashSecret;
use crate::request::Request;
use crate::subject::Subject;

/// A request that a test changes to its needs.
pub(super) fn request(headers: &HeaderMap) -> Request<'_> {
    Request {
        domain: "default",
        subject: Subject::parse("user:1"),
        tier: None,
        method: Some("GET"),
        host: None,
        path: Some("/"),
        headers,
        client_ip: None,
        descriptors: &[],
        cost: 1,
        limits: None,
    }
}

pub(super) fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let line = |(name, value): &(&str, &str)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
    };
    lines.iter().map(line).collect()
}

/// Compiles the rules of a document in YAML; each gets a limit of 10 per second for all tiers unless it has its own.
pub(super) fn compile(rules: &str) -> RuleSet {
    compile_with("tiers: [{name: free, default: true}, {name: paid}]", rules)
}

pub(super) fn compile_with(head: &str, rules: &str) -> RuleSet {
    let mut document: serde_json::Value = serde_saphyr::from_str(&format!("{head}\nrules:\n{rules}")).unwrap();
    for rule in document["rules"].as_array_mut().unwrap() {
        let fields = rule.as_object_mut().unwrap();
        fields.entry("key").or_insert_with(|| serde_json::json!(["subject"]));
        fields.entry("limits").or_insert_with(|| serde_json::json!({ "*": { "limit": 10, "window": "1s" } }));
    }
    let config = DomainConfig::read(&document).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    RuleSet::compile(&config, 7).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

pub(super) fn choose(rules: &RuleSet, request: &Request<'_>) -> Result<Choice, ChoiceError> {
    let mut choice = Choice::default();
    rules.choose(request, &HashSecret::built_in(), &mut choice).map(|()| choice)
}

/// The names of the chosen rules; those that cannot refuse in brackets.
pub(super) fn names(rules: &RuleSet, request: &Request<'_>) -> Vec<String> {
    let shown = |chosen: &super::Chosen| match chosen.mode {
        crate::decision::LimitMode::Enforce => rules.rules[chosen.rule].name.to_string(),
        crate::decision::LimitMode::Shadow => format!("({})", rules.rules[chosen.rule].name),
    };
    choose(rules, request).unwrap_or_else(|error| panic!("{error}")).rules.iter().map(shown).collect()
}

/// The names of the rules chosen for a path.
pub(super) fn names_at(rules: &RuleSet, path: &str) -> Vec<String> {
    let headers = HeaderMap::new();
    names(rules, &Request { path: Some(path), ..request(&headers) })
}
