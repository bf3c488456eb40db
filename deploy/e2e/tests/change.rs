//! A rule changed by REST changes decisions on every agent within a second, and live counters keep what was consumed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use weir_e2e::{Answer, Plan, Product, closed};
use weir_testbed::await_until;

async fn start() -> Product {
    Product::start(Plan { rules: closed(), ..Plan::default() }).await.unwrap()
}

/// One upload, decided by the node of this number.
async fn upload(product: &Product, node: usize, subject: &str) -> Answer {
    let answer = product.nodes[node % product.nodes.len()].ask(subject, "free", "POST", "/api/upload").await.unwrap();
    assert!(!answer.degraded(), "{}", answer.body);
    answer
}

/// How many of `count` uploads pass, the nodes taking turns.
async fn passes(product: &Product, count: usize, subject: &str) -> usize {
    let mut passed = 0;
    for node in 0..count {
        passed += usize::from(upload(product, node, subject).await.allowed());
    }
    passed
}

/// Changes the upload rule everywhere.
async fn edit(product: &Product, edit: impl FnOnce(&mut Value)) {
    let revision = product.api.edit_rule("upload", edit).await.unwrap();
    product.propagated(revision).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_a_changed_limit_applies_at_once_to_live_counters() {
    let product = start().await;
    assert_eq!(passes(&product, 6, "user:ada").await, 5);
    edit(&product, |rule| rule["limits"]["*"]["limit"] = json!(8)).await;
    assert_eq!(passes(&product, 6, "user:ada").await, 3, "5 of the new 8 were consumed before");
    edit(&product, |rule| rule["limits"]["*"]["limit"] = json!(2)).await;
    for node in 0..2 {
        let answer = upload(&product, node, "user:ada").await;
        assert_eq!((answer.allowed(), answer.body["remaining"].as_u64(), answer.body["limit"].as_u64()), (false, Some(0), Some(2)));
    }
    product.stop().await.unwrap();
}

/// The longest that a counter on any shard will live.
async fn longest_life(product: &Product) -> Duration {
    let mut longest = 0;
    for shard in &product.redis {
        let mut connection = redis::Client::open(shard.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
        // Counters begin with their tag; so does the mark of the hash secret, which is none.
        let keys: Vec<String> = redis::cmd("KEYS").arg("{*").query_async(&mut connection).await.unwrap();
        for counter in keys.iter().filter(|key| !key.starts_with("{weir:")) {
            let left: i64 = redis::cmd("PTTL").arg(counter).query_async(&mut connection).await.unwrap();
            longest = longest.max(left);
        }
    }
    Duration::from_millis(u64::try_from(longest).unwrap())
}

/// BB-32 (c) and (d), by REST.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_bb_32_a_changed_window_or_algorithm_keeps_what_was_consumed() {
    let product = start().await;
    edit(&product, |rule| rule["limits"]["*"]["window"] = json!("1h")).await;
    assert_eq!(passes(&product, 6, "user:ada").await, 5);
    assert!(longest_life(&product).await > Duration::from_secs(3_600));
    edit(&product, |rule| rule["limits"]["*"]["window"] = json!("60s")).await;
    for node in 0..2 {
        let answer = upload(&product, node, "user:ada").await;
        let wait = answer.body["retry_after_ms"].as_u64().unwrap();
        assert!(!answer.allowed() && wait <= 61_000, "what was consumed counts, and leaves with the new window: {}", answer.body);
    }
    // The window, the slot that is under way, and a second.
    let life = longest_life(&product).await;
    assert!(life <= Duration::from_secs(62) + Duration::from_millis(100), "a counter's life follows the new window: {life:?}");

    // A window in which nothing is refilled or leaves while the test runs.
    edit(&product, |rule| rule["limits"]["*"]["window"] = json!("1d")).await;
    for (number, algorithm) in ["sliding_window", "token_bucket", "fixed_window", "sliding_window"].into_iter().enumerate() {
        if number > 0 {
            edit(&product, |rule| rule["algorithm"] = json!(algorithm)).await;
            let answer = upload(&product, number, "user:bea").await;
            assert_eq!(
                (answer.allowed(), answer.body["remaining"].as_u64()),
                (true, Some(4 - number as u64)),
                "{algorithm}: {}",
                answer.body
            );
            assert_eq!(answer.body["limits"][1]["algorithm"], algorithm, "{}", answer.body);
        } else {
            assert_eq!(passes(&product, 1, "user:bea").await, 1);
        }
    }
    assert_eq!(passes(&product, 6, "user:bea").await, 1, "one budget of 5 in all, whatever the algorithms");
    product.stop().await.unwrap();
}

/// BB-32 (e): a counter belongs to its rule's name and key, so a rule that is made again goes on where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_bb_32_a_rule_made_again_finds_its_counters() {
    let product = start().await;
    assert_eq!(passes(&product, 6, "user:ada").await, 5);
    let mut rule = product.api.get("/v1/rules/upload").await.unwrap();
    product.api.done(Method::DELETE, "/v1/rules/upload", Some("*"), None).await.unwrap();
    let deleted = latest(&product).await;
    product.propagated(deleted).await.unwrap();
    for node in 0..2 {
        let answer = upload(&product, node, "user:ada").await;
        assert_eq!((answer.allowed(), answer.body["rule"].as_str()), (true, Some("per-user")), "{}", answer.body);
    }
    rule.as_object_mut().unwrap().remove("meta");
    let made = product.api.done(Method::POST, "/v1/rules", None, Some(&rule)).await.unwrap();
    assert_eq!(made["meta"]["revision"].as_u64(), Some(deleted + 1), "{made}");
    product.propagated(deleted + 1).await.unwrap();
    for node in 0..2 {
        let answer = upload(&product, node, "user:ada").await;
        let (rule, remaining) = (answer.body["rule"].as_str(), answer.body["remaining"].as_u64());
        assert_eq!((answer.allowed(), rule, remaining), (false, Some("upload"), Some(0)), "no second budget: {}", answer.body);
    }
    assert_eq!(passes(&product, 6, "user:bea").await, 5);
    product.stop().await.unwrap();
}

async fn latest(product: &Product) -> u64 {
    let revisions = product.api.get("/v1/revisions?domain=default&page_size=1").await.unwrap();
    revisions["items"][0]["revision"].as_u64().unwrap()
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
