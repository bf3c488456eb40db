//! How long it takes to choose the rules of a request among 10, 1,000 and 10,000: `match_*_rules_us`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::ensure;
use http::HeaderMap;
use serde_json::{Value, json};
use weir_core::config::DomainConfig;
use weir_core::key::HashSecret;
use weir_core::request::Request;
use weir_core::ruleset::{Choice, RuleSet};
use weir_core::subject::Subject;

use crate::median;
use crate::summary::Summary;

const ROUNDS: usize = 20;
const SLICE: Duration = Duration::from_millis(50);
const TARGET_US: f64 = 2.0;

/// Runs the rows.
pub(crate) fn run(summary: &mut Summary) -> anyhow::Result<()> {
    for (count, name) in [(10, "match_10_rules_us"), (1_000, "match_1k_rules_us"), (10_000, "match_10k_rules_us")] {
        let us = choosing(count)?;
        let (what, met) = if count == 10_000 { ("target <= 2", Some(us <= TARGET_US)) } else { ("rules and keys of a request", None) };
        summary.row(name, us, what, met);
    }
    Ok(())
}

/// Microseconds to choose two of `count` rules, keys included.
fn choosing(count: usize) -> anyhow::Result<f64> {
    let (rules, headers, secret) = (rule_set(count)?, HeaderMap::new(), HashSecret::built_in());
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
        limits: None,
    };
    let mut choice = Choice::default();
    let mut slices = Vec::new();
    for _ in 0..ROUNDS {
        let (start, mut done) = (Instant::now(), 0.0);
        while start.elapsed() < SLICE {
            for _ in 0..100 {
                rules.choose(black_box(&request), &secret, &mut choice)?;
                ensure!(choice.rules.len() == 2, "{} rules apply", choice.rules.len());
            }
            done += 100.0;
        }
        slices.push(start.elapsed().as_secs_f64() * 1e6 / done);
    }
    Ok(median(&mut slices))
}

/// One rule for everything, and the rest on routes of their own, as a large gateway has them.
fn rule_set(count: usize) -> anyhow::Result<RuleSet> {
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
