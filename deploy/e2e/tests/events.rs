//! Who was throttled, and how much: the same numbers as the agents gave.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::time::Duration;

use weir_e2e::{Plan, Product};
use weir_testbed::await_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denials_reach_the_analytics_with_the_right_numbers() {
    let product = Product::start(Plan::default()).await.unwrap();
    let hostile = "user:<img src=x onerror=alert(1)>";
    for (subject, asks) in [("user:mallory", 25), (hostile, 12), ("user:ada", 3)] {
        for node in product.nodes.iter().cycle().take(asks) {
            node.ask(subject, "free", "POST", "/api/upload").await.unwrap();
        }
    }
    // 5 of each pass; what mallory and the other abuser asked beyond is denied.
    let (allowed, denied) = (5 + 5 + 3, 20 + 7);
    let mut summary = serde_json::Value::Null;
    let there = await_until(Duration::from_secs(20), async || {
        summary = product.api.get("/v1/analytics/summary?domain=default&from=-15m").await.unwrap();
        summary["denied"].as_u64() == Some(denied) && summary["allowed"].as_u64() == Some(allowed)
    });
    assert!(there.await, "{summary}");
    let series = product.api.get("/v1/analytics/timeseries?domain=default&from=-15m&group_by=outcome").await.unwrap();
    let total = |outcome: &str| -> u64 {
        let of = series["series"].as_array().unwrap().iter().filter(|s| s["key"]["outcome"] == outcome);
        of.flat_map(|s| s["requests"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap())).sum()
    };
    assert_eq!((total("allowed"), total("denied")), (allowed, denied), "{series}");
    let mut top = serde_json::Value::Null;
    let there = await_until(Duration::from_secs(20), async || {
        top = product.api.get("/v1/analytics/top-subjects?domain=default&from=-15m").await.unwrap();
        top["items"].as_array().is_some_and(|items| items.len() >= 2) && top["items"][0]["denied"].as_u64() == Some(20)
    });
    assert!(there.await, "{top}");
    assert_eq!((top["items"][0]["subject"].as_str(), top["items"][1]["subject"].as_str()), (Some("user:mallory"), Some(hostile)), "{top}");
    assert_eq!(top["items"][0]["rules"][0].as_str(), Some("upload"), "{top}");
    product.stop().await.unwrap();
}
