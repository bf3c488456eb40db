//! How long it takes to choose the rules of a request among 10, 1,000 and 10,000.
#![allow(missing_docs, reason = "criterion's macros write an undocumented function")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use http::HeaderMap;
use serde_json::{Value, json};
use weir_core::config::DomainConfig;
use weir_core::key::HashSecret;
use weir_core::request::Request;
use weir_core::ruleset::{Choice, RuleSet};
use weir_core::subject::Subject;

/// One rule for everything, and the rest on routes of their own, as a large gateway has them.
fn rule_set(count: usize) -> Result<RuleSet, Box<dyn std::error::Error>> {
    let limits = json!({ "free": { "limit": 100, "window": "60s" }, "*": { "limit": 1000, "window": "60s" } });
    let route = |i: usize| {
        let path = match i % 4 {
            0 => format!("/service-{}/items/{{id}}", i / 4),
            1 => format!("/service-{}/items/{{id}}/parts/*", i / 4),
            2 => format!("/service-{}/search", i / 4),
            _ => format!("/service-{}/**", i / 4),
        };
        json!({ "name": format!("r{i}"), "group": "routes", "match": { "path": path, "methods": ["GET"] }, "key": ["subject", "route"], "limits": limits })
    };
    let all = json!({ "name": "all", "match": { "path": "/**" }, "key": ["subject"], "limits": limits });
    let rules: Vec<Value> = std::iter::once(all).chain((1..count).map(route)).collect();
    let config = DomainConfig::read(&json!({ "tiers": [{ "name": "free", "default": true }], "rules": rules }))?;
    Ok(RuleSet::compile(&config, 1)?)
}

fn choose(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("choose");
    let (headers, secret) = (HeaderMap::new(), HashSecret::built_in());
    for count in [10, 1_000, 10_000] {
        let Ok(rules) = rule_set(count) else { continue };
        let path = format!("/service-{}/items/4711/parts/9?verbose=1", count / 8);
        let request = Request {
            domain: "default",
            subject: Subject::parse("user:12345"),
            tier: Some("free"),
            method: Some("GET"),
            host: Some("api.example.com"),
            path: Some(&path),
            headers: &headers,
            client_ip: None,
            descriptors: &[],
            cost: 1,
        };
        let mut choice = Choice::default();
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| {
                let chosen = rules.choose(black_box(&request), &secret, &mut choice);
                assert!(chosen.is_ok() && choice.rules.len() == 2);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, choose);
criterion_main!(benches);
