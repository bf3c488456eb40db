//! A rule changed by REST changes decisions on every agent within a second, and live counters keep what was consumed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::json;
use weir_e2e::{Plan, Product};
use weir_testbed::await_until;

async fn passes(product: &Product, count: usize, subject: &str) -> usize {
    let mut passed = 0;
    for node in product.nodes.iter().cycle().take(count) {
        let answer = node.ask(subject, "free", "POST", "/api/upload").await.unwrap();
        assert!(!answer.degraded(), "{}", answer.body);
        passed += usize::from(answer.allowed());
    }
    passed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_a_changed_limit_applies_at_once_to_live_counters() {
    let product = Product::start(Plan::default()).await.unwrap();
    assert_eq!(passes(&product, 6, "user:ada").await, 5);
    let revision = product.api.edit_rule("upload", |rule| rule["limits"]["*"]["limit"] = json!(8)).await.unwrap();
    product.propagated(revision).await.unwrap();
    assert_eq!(passes(&product, 6, "user:ada").await, 3, "5 of the new 8 were consumed before");
    let revision = product.api.edit_rule("upload", |rule| rule["limits"]["*"]["limit"] = json!(2)).await.unwrap();
    product.propagated(revision).await.unwrap();
    for node in &product.nodes {
        let answer = node.ask("user:ada", "free", "POST", "/api/upload").await.unwrap();
        assert_eq!((answer.allowed(), answer.body["remaining"].as_u64(), answer.body["limit"].as_u64()), (false, Some(0), Some(2)));
    }
    product.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_and_revisions_prove_the_propagation() {
    let product = Product::start(Plan::default()).await.unwrap();
    let revision = product.api.edit_rule("search", |rule| rule["limits"]["*"]["limit"] = json!(7)).await.unwrap();
    product.propagated(revision).await.unwrap();
    let shown = await_until(Duration::from_secs(5), async || {
        let seen = product.api.get(&format!("/v1/revisions/{revision}")).await.unwrap();
        seen["agents"]["current"].as_array().is_some_and(|agents| agents.len() == 2)
    });
    assert!(shown.await, "{}", product.api.get(&format!("/v1/revisions/{revision}")).await.unwrap());
    let agents = product.api.get("/v1/agents").await.unwrap();
    for agent in agents["items"].as_array().unwrap() {
        assert_eq!(agent["connected"], true, "{agent}");
        let domain = &agent["domains"][0];
        assert_eq!(
            (domain["revision"].as_u64(), domain["latest"].as_u64(), domain["state"].as_str()),
            (Some(revision), Some(revision), Some("current"))
        );
        assert_eq!(domain["hash"].as_str().map(str::len), Some(64));
    }
    product.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tier_in_use_stays_and_the_error_says_who_uses_it() {
    let product = Product::start(Plan { agents: 0, ..Plan::default() }).await.unwrap();
    let (status, problem) = product.api.call(Method::DELETE, "/v1/tiers/paid", Some("*"), None).await.unwrap();
    assert_eq!(status, StatusCode::CONFLICT, "{problem}");
    assert!(problem["used_by"].to_string().contains("per-user"), "{problem}");
    product.stop().await.unwrap();
}
