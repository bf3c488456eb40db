//! Series that come and go with the rules.

use std::sync::Arc;

use weir_core::config::DomainConfig;
use weir_core::decision::{LimitMode, Reason, Source};
use weir_core::key::HashSecret;
use weir_core::limit::Algorithm;
use weir_core::request::Request;

use super::*;

fn compiled(counters: &Counters, tiers: &str, rules: &[&str]) -> Arc<Compiled> {
    let rules: Vec<String> = rules
        .iter()
        .map(|name| format!("{{name: {name}, match: {{path: /{name}}}, key: [], limits: {{'*': {{limit: 1, window: 1s}}}}}}"))
        .collect();
    let text = format!("{{tiers: [{tiers}], rules: [{}]}}", rules.join(", "));
    let set = Arc::new(RuleSet::compile(&DomainConfig::from_yaml(&text).unwrap(), 1).unwrap());
    let domain: Arc<str> = "default".into();
    Arc::new(Compiled { counters: counters.of_domain(domain.clone(), set.rules.len()), set, domain })
}

/// One request of `tier` to `/path`, which passes.
fn count(counters: &Counters, compiled: &Compiled, tier: &str, path: &str) {
    let headers = http::HeaderMap::new();
    let path = format!("/{path}");
    let request = Request {
        domain: "default",
        subject: None,
        tier: Some(tier),
        method: None,
        host: None,
        path: Some(&path),
        headers: &headers,
        client_ip: None,
        descriptors: &[],
        cost: 1,
        limits: None,
    };
    let mut choice = Choice::default();
    compiled.set.choose(&request, &HashSecret::built_in(), &mut choice).unwrap();
    let limit = |position: usize| LimitDecision {
        rule: compiled.set.rules[position].name.clone(),
        position,
        algorithm: Algorithm::TokenBucket,
        limit: Some(1),
        window_us: 1,
        remaining: 0,
        reset_after_us: 0,
        retry_after_us: None,
        reason: Reason::Ok,
        mode: LimitMode::Enforce,
        source: Source::AnyTier,
        degraded: None,
        shard: None,
        key: None,
        cost: 1,
    };
    let decision = Decision {
        reason: Reason::Ok,
        limits: choice.rules.iter().map(|chosen| limit(chosen.rule)).collect(),
        strictest: None,
        degraded: None,
        tier: None,
        revision: 1,
        domain: compiled.domain.clone(),
    };
    counters.count(compiled, &choice, &decision);
}

/// The series of decisions as `rule/tier count`.
fn series(counters: &Counters) -> Vec<String> {
    let (mut registry, mut text) = (Registry::default(), String::new());
    counters.register(&mut registry);
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let mut lines: Vec<String> = text
        .lines()
        .filter_map(|line| {
            let line = line.strip_prefix("weir_decisions_total{domain=\"default\",rule=\"")?;
            let (rule, line) = line.split_once("\",tier=\"")?;
            let (tier, line) = line.split_once('"')?;
            Some(format!("{rule}/{tier} {}", line.rsplit(' ').next()?))
        })
        .collect();
    lines.sort();
    lines
}

const BOTH: &str = "{name: free, default: true}, {name: paid}";

#[test]
fn series_of_removed_rules_and_tiers_go_also_where_no_rule_matched() {
    let counters = Counters::default();
    let old = compiled(&counters, BOTH, &["a", "b"]);
    for (tier, path) in [("free", "a"), ("paid", "a"), ("free", "b"), ("free", "none"), ("paid", "none"), ("paid", "none")] {
        count(&counters, &old, tier, path);
    }
    assert_eq!(series(&counters), ["/free 1", "/paid 2", "a/free 1", "a/paid 1", "b/free 1"]);
    let new = compiled(&counters, "{name: free, default: true}", &["b"]);
    counters.retire(&old, &new.set);
    assert_eq!(series(&counters), ["/free 1", "b/free 1"]);
    assert_eq!(*counters.series.lock(), 2);
}

/// A check that began before a change and ends after it brings nothing back.
#[test]
fn a_check_under_way_during_a_change_revives_no_series() {
    let counters = Counters::default();
    let old = compiled(&counters, BOTH, &["a", "b"]);
    let new = compiled(&counters, BOTH, &["b"]);
    count(&counters, &new, "free", "b");
    counters.retire(&old, &new.set);
    count(&counters, &old, "free", "a");
    count(&counters, &old, "free", "b");
    assert_eq!(series(&counters), ["(other)/ 1", "b/free 2"]);
    assert_eq!(*counters.series.lock(), 2);
}

/// Threads that need the same new series at once make it once, and the number of series is that of those there are.
#[test]
fn series_are_counted_once_however_many_threads_need_them() {
    let counters = Counters::default();
    let names: Vec<String> = (0..200).map(|i| format!("r{i}")).collect();
    let compiled = compiled(&counters, BOTH, &names.iter().map(String::as_str).collect::<Vec<_>>());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| names.iter().for_each(|name| count(&counters, &compiled, "free", name)));
        }
    });
    assert_eq!(*counters.series.lock(), 200);
    assert!(series(&counters).iter().all(|line| line.ends_with(" 4")));
}

/// Beyond the bound further rules and tiers are counted together.
#[test]
fn the_number_of_series_is_bounded() {
    let counters = Counters::default();
    let tiers: Vec<String> = (0..1_000).map(|i| format!("{{name: t{i}, default: {}}}", i == 0)).collect();
    let names: Vec<String> = (0..21).map(|i| format!("r{i}")).collect();
    let compiled = compiled(&counters, &tiers.join(", "), &names.iter().map(String::as_str).collect::<Vec<_>>());
    for name in &names {
        for tier in 0..1_000 {
            count(&counters, &compiled, &format!("t{tier}"), name);
        }
    }
    let series = series(&counters);
    assert_eq!((series.len(), series[0].as_str()), (MAX_SERIES + 1, "(other)/ 1000"));
}
