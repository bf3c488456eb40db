//! The README's example, counted exactly: the same rules with `closed`, so that no decision can pass without its shard.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::time::Instant;

use serde_json::Value;
use weir_e2e::{Answer, Node, Plan, Product, SEEDS};

/// The seeds with every rule `closed`.
fn closed() -> String {
    format!(
        "defaults: {{ on_failure: {{ mode: closed }} }}\n{}",
        SEEDS.replace("    on_failure: { mode: local, escalate: { after: 5s, to: closed } }\n", "")
    )
}

/// Asks `count` times, the agents taking turns.
async fn ask(nodes: &[Node], count: usize, subject: &str, tier: &str, method: &str, path: &str) -> Vec<Answer> {
    let mut answers = Vec::new();
    for node in nodes.iter().cycle().take(count) {
        let answer = node.ask(subject, tier, method, path).await.unwrap();
        assert_eq!(answer.http_status, 200);
        assert!(!answer.degraded(), "{}", answer.body);
        answers.push(answer);
    }
    answers
}

fn allowed(answers: &[Answer]) -> usize {
    answers.iter().filter(|answer| answer.allowed()).count()
}

/// A refusal that explains itself, its headers agreeing with its body.
fn assert_refused_by(rule: &str, limit: u64, answer: &Value) {
    assert_eq!((answer["status"].as_u64(), answer["reason"].as_str()), (Some(429), Some("limited")), "{answer}");
    assert_eq!(
        (answer["rule"].as_str(), answer["limit"].as_u64(), answer["remaining"].as_u64()),
        (Some(rule), Some(limit), Some(0)),
        "{answer}"
    );
    let retry_ms = answer["retry_after_ms"].as_u64().unwrap();
    let seconds = retry_ms.div_ceil(1000).max(1);
    let headers = &answer["headers"];
    assert_eq!(headers["Retry-After"].as_str(), Some(seconds.to_string().as_str()), "{answer}");
    assert_eq!(headers["RateLimit"].as_str(), Some(format!("\"{rule}\";r=0;t={seconds}").as_str()), "{answer}");
    assert_eq!(headers["X-RateLimit-Limit"].as_str(), Some(limit.to_string().as_str()));
    assert_eq!(headers["X-RateLimit-Remaining"].as_str(), Some("0"));
    assert!(headers["RateLimit-Policy"].as_str().unwrap().contains(&format!("\"{rule}\";q={limit};w=")), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_seeds_admit_what_the_readme_says() {
    let product = Product::start(Plan { rules: closed(), ..Plan::default() }).await.unwrap();
    let nodes = &product.nodes;

    for (tier, limit, per_second) in [("free", 100u64, 100.0 / 60.0), ("paid", 1000, 1000.0 / 60.0)] {
        let subject = format!("user:{tier}");
        let start = Instant::now();
        let answers = ask(nodes, usize::try_from(limit).unwrap() + 60, &subject, tier, "GET", "/").await;
        let refill = start.elapsed().as_secs_f64() * per_second;
        let passed = allowed(&answers) as u64;
        assert!(passed >= limit && passed as f64 <= limit as f64 + refill, "{tier}: {passed} passed, {refill} refilled");
        let refused = answers.iter().find(|answer| !answer.allowed()).unwrap();
        assert_refused_by("per-user", limit, &refused.body);
    }
    let answers = ask(nodes, 60, "user:searcher", "paid", "GET", "/api/search?q=1").await;
    assert_eq!(allowed(&answers), 50);
    assert_refused_by("search", 50, &answers[50].body);
    let answers = ask(nodes, 10, "user:uploader", "free", "POST", "/api/upload").await;
    assert_eq!(allowed(&answers), 5);
    assert_refused_by("upload", 5, &answers[5].body);
    product.stop().await.unwrap();
}
