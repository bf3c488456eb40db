//! Choosing the rules of a request takes no memory that grows with their number.

#![allow(clippy::expect_used, reason = "a test stops where something goes wrong")]

use allocation_counter::{AllocationInfo, measure};
use http::HeaderMap;
use serde_json::{Value, json};
use weir_core::config::DomainConfig;
use weir_core::key::HashSecret;
use weir_core::request::Request;
use weir_core::ruleset::{Choice, RuleSet};
use weir_core::subject::Subject;

/// Rules on paths of their own, in groups of their own and in one, with every kind of match; two of them apply to a request.
fn rule_set(count: usize) -> RuleSet {
    let limits = json!({ "*": { "limit": 1000, "window": "60s" } });
    let rule = |i: usize| {
        let mut rule = json!({ "name": format!("r{i}"), "match": { "path": format!("/service-{i}/{{id}}") }, "key": ["subject", "param:id"], "limits": limits });
        match i % 4 {
            0 => rule["group"] = json!("routes"),
            1 => rule["match"]["hosts"] = json!([format!("h{i}.example.com")]),
            2 => rule["match"]["headers"] = json!([{ "name": "x-plan", "exact": format!("p{i}") }]),
            _ => rule["match"]["methods"] = json!(["GET", "PUT"]),
        }
        rule
    };
    let all = json!({ "name": "all", "match": { "path": "/**" }, "key": ["subject"], "limits": limits });
    let rules: Vec<Value> = std::iter::once(all).chain((3..count + 2).map(rule)).collect();
    let document = json!({ "tiers": [{ "name": "free", "default": true }], "rules": rules });
    let config = DomainConfig::read(&document).expect("valid");
    RuleSet::compile(&config, 1).expect("compiles")
}

fn of_one_choice(rules: &RuleSet) -> AllocationInfo {
    let (headers, secret) = (HeaderMap::new(), HashSecret::built_in());
    let request = Request {
        domain: "default",
        subject: Subject::parse("user:1"),
        tier: None,
        method: Some("GET"),
        host: Some("h4.example.com"),
        path: Some("/service-4/7?q=1"),
        headers: &headers,
        client_ip: None,
        descriptors: &[],
        cost: 1,
        limits: None,
    };
    let choose = || {
        let mut choice = Choice::default();
        rules.choose(&request, &secret, &mut choice).expect("a choice");
        assert_eq!(choice.rules.len(), 2);
    };
    // What a rule set remembers of its first request is made before.
    choose();
    measure(choose)
}

#[test]
fn a_choice_takes_as_much_memory_among_ten_rules_as_among_ten_thousand() {
    let (few, many) = (of_one_choice(&rule_set(10)), of_one_choice(&rule_set(10_000)));
    assert_eq!((many.count_total, many.bytes_total), (few.count_total, few.bytes_total));
    assert!(many.count_total > 0 && many.bytes_total < 4_096, "{many:?}");
}
