//! Who was throttled, and how much: the same numbers as the agents gave.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::time::Duration;

use serde_json::{Value, json};
use weir_e2e::{Plan, Product, closed};
use weir_testbed::await_until;

/// How long events may take to be in the analytics.
const ARRIVAL: Duration = Duration::from_secs(20);

/// Asks `count` times, the agents taking turns; how many passed.
async fn ask(product: &Product, count: usize, subject: &str, method: &str, path: &str) -> usize {
    let mut passed = 0;
    for node in product.nodes.iter().cycle().take(count) {
        let answer = node.ask(subject, "free", method, path).await.unwrap();
        assert!(!answer.degraded(), "{}", answer.body);
        passed += usize::from(answer.allowed());
    }
    passed
}

/// Waits until the totals are these; all else in the summary is none.
async fn summary_is(product: &Product, allowed: u64, denied: u64, shadow_denied: u64) {
    let mut summary = Value::Null;
    let expected = json!([allowed + denied, allowed, denied, shadow_denied, 0, 0]);
    let there = await_until(ARRIVAL, async || {
        summary = product.api.get("/v1/analytics/summary?domain=default&from=-15m").await.unwrap();
        let names = ["requests", "allowed", "denied", "shadow_denied", "degraded", "unavailable"];
        names.map(|name| summary[name].clone()).as_slice() == expected.as_array().unwrap().as_slice()
    });
    assert!(there.await, "{summary} is not {expected}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denials_reach_the_analytics_with_the_right_numbers() {
    let product = Product::start(Plan { rules: closed(), ..Plan::default() }).await.unwrap();
    let hostile = "user:<img src=x onerror=alert(1)>";
    for (subject, asks) in [("user:mallory", 25), (hostile, 12), ("user:ada", 3)] {
        ask(&product, asks, subject, "POST", "/api/upload").await;
    }
    // 5 of each pass; what mallory and the other abuser asked beyond is denied.
    let (allowed, denied) = (5 + 5 + 3, 20 + 7);
    summary_is(&product, allowed, denied, 0).await;
    let series = product.api.get("/v1/analytics/timeseries?domain=default&from=-15m&group_by=outcome").await.unwrap();
    let total = |outcome: &str| -> u64 {
        let of = series["series"].as_array().unwrap().iter().filter(|s| s["key"]["outcome"] == outcome);
        of.flat_map(|s| s["requests"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap())).sum()
    };
    assert_eq!((total("allowed"), total("denied")), (allowed, denied), "{series}");
    let mut top = Value::Null;
    let there = await_until(ARRIVAL, async || {
        top = product.api.get("/v1/analytics/top-subjects?domain=default&from=-15m").await.unwrap();
        top["items"].as_array().is_some_and(|items| items.len() >= 2) && top["items"][0]["denied"].as_u64() == Some(20)
    });
    assert!(there.await, "{top}");
    assert_eq!((top["items"][0]["subject"].as_str(), top["items"][1]["subject"].as_str()), (Some("user:mallory"), Some(hostile)), "{top}");
    assert_eq!(top["items"][0]["rules"][0].as_str(), Some("upload"), "{top}");
    product.stop().await.unwrap();
}

const TRIAL: &str = r#"
domain: default
tiers: [{ name: free, default: true }]
defaults: { on_failure: { mode: closed } }
rules:
  - name: trial
    key: [subject]
    algorithm: sliding_window
    limits: { "*": { limit: 5, window: 60s } }
    mode: shadow
"#;

/// BB-41: what a limit would refuse is known before it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bb_41_a_shadow_rule_reports_what_it_would_refuse() {
    let product = Product::start(Plan { rules: TRIAL.to_owned(), ..Plan::default() }).await.unwrap();
    assert_eq!(ask(&product, 100, "user:ada", "GET", "/").await, 100);
    summary_is(&product, 100, 0, 95).await;
    let revision = product.api.edit_rule("trial", |rule| rule["mode"] = json!("enforce")).await.unwrap();
    product.propagated(revision).await.unwrap();
    assert_eq!(ask(&product, 100, "user:bea", "GET", "/").await, 5);
    summary_is(&product, 100 + 5, 95, 95).await;
    product.stop().await.unwrap();
}
