//! The README's example, counted exactly: the same rules with `closed`, so that no decision can pass without its shard.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use reqwest::{Response, StatusCode};
use serde_json::Value;
use weir_core::clock::{Clock as _, SystemClock};
use weir_e2e::{Answer, Node, Plan, Product, closed};

/// A limit that has let this much through is not there.
const CAP: u64 = 3_000;

/// What came before the first refusal, and the refusal.
struct Run {
    passed: u64,
    took: Duration,
    refusal: Value,
    /// The wall clock when the refusal came, since the epoch.
    at: Duration,
}

/// Asks one agent once.
async fn ask(node: &Node, [subject, tier, method, path]: [&str; 4]) -> Answer {
    let answer = node.ask(subject, tier, method, path).await.unwrap();
    assert_eq!(answer.http_status, 200);
    assert!(!answer.degraded(), "{}", answer.body);
    answer
}

/// Asks until the first refusal, the agents taking turns.
async fn until_refused(nodes: &[Node], question: [&str; 4]) -> Run {
    let start = Instant::now();
    for (passed, node) in (0..CAP).zip(nodes.iter().cycle()) {
        let answer = ask(node, question).await;
        if !answer.allowed() {
            return Run { passed, took: start.elapsed(), refusal: answer.body, at: SystemClock.wall() };
        }
    }
    panic!("{question:?}: {CAP} have passed");
}

/// A refusal that explains itself, its headers agreeing with its body.
fn assert_refused_by(rule: &str, limit: u64, Run { refusal: answer, at, .. }: &Run) {
    assert_eq!((answer["status"].as_u64(), answer["reason"].as_str()), (Some(429), Some("limited")), "{answer}");
    assert_eq!(
        (answer["rule"].as_str(), answer["limit"].as_u64(), answer["remaining"].as_u64()),
        (Some(rule), Some(limit), Some(0)),
        "{answer}"
    );
    let seconds = answer["retry_after_ms"].as_u64().unwrap().div_ceil(1000).max(1);
    let headers = &answer["headers"];
    assert_eq!(headers["Retry-After"].as_str(), Some(seconds.to_string().as_str()), "{answer}");
    assert_eq!(headers["RateLimit"].as_str(), Some(format!("\"{rule}\";r=0;t={seconds}").as_str()), "{answer}");
    assert_eq!(headers["X-RateLimit-Limit"].as_str(), Some(limit.to_string().as_str()));
    assert_eq!(headers["X-RateLimit-Remaining"].as_str(), Some("0"));
    let limits = answer["limits"].as_array().unwrap();
    let window = limits.iter().find(|limit| limit["rule"] == rule).unwrap()["window_ms"].as_u64().unwrap().div_ceil(1000);
    let policy = format!("\"{rule}\";q={limit};w={window}");
    assert!(headers["RateLimit-Policy"].as_str().unwrap().split(", ").any(|one| one == policy), "{policy}: {answer}");
    let reset: Duration = Duration::from_secs(headers["X-RateLimit-Reset"].as_str().unwrap().parse().unwrap());
    let due = *at + Duration::from_millis(answer["reset_after_ms"].as_u64().unwrap());
    assert!(reset.abs_diff(due) <= Duration::from_secs(1), "{reset:?} is not {due:?}: {answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_seeds_admit_what_the_readme_says() {
    let product = Product::start(Plan { rules: closed(), ..Plan::default() }).await.unwrap();
    let nodes = &product.nodes;

    for (tier, limit) in [("free", 100u64), ("paid", 1000)] {
        let run = until_refused(nodes, [&format!("user:{tier}"), tier, "GET", "/"]).await;
        let refill = run.took.as_secs_f64() * limit as f64 / 60.0;
        assert!(run.passed >= limit && run.passed as f64 <= limit as f64 + refill, "{tier}: {} passed, {refill} refilled", run.passed);
        assert_refused_by("per-user", limit, &run);
    }
    let search = ["user:searcher", "paid", "GET", "/api/search?q=1"];
    let upload = ["user:uploader", "free", "POST", "/api/upload"];
    for (rule, limit, question) in [("search", 50, search), ("upload", 5, upload)] {
        let run = until_refused(nodes, question).await;
        assert_eq!(run.passed, limit, "{rule}");
        assert_refused_by(rule, limit, &run);
        for node in nodes.iter().cycle().take(6) {
            assert!(!ask(node, question).await.allowed(), "{rule}: nothing leaves the window that soon");
        }
    }
    product.stop().await.unwrap();
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    response.headers().get(name).unwrap_or_else(|| panic!("no {name} in {response:?}")).to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_a_real_refusal_says_the_same_in_headers_and_body() {
    let product = Product::start(Plan { agents: 0, rules: closed(), ..Plan::default() }).await.unwrap();
    let url = format!("{}/api/upload", product.gateway().await.unwrap());
    let http = reqwest::Client::new();
    let upload = async || http.post(&url).header("x-user-id", "ada").send().await.unwrap();
    for left in (0..5).rev() {
        let response = upload().await;
        assert_eq!((response.status(), header(&response, "x-ratelimit-remaining")), (StatusCode::CREATED, left.to_string().as_str()));
    }
    let refused = upload().await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(&refused, "content-type"), "application/problem+json");
    let seconds = header(&refused, "retry-after").parse::<u64>().unwrap();
    assert!((1..=61).contains(&seconds), "{seconds}");
    assert_eq!(header(&refused, "ratelimit"), format!("\"upload\";r=0;t={seconds}"));
    assert!(header(&refused, "ratelimit-policy").split(", ").any(|policy| policy == "\"upload\";q=5;w=60"), "{refused:?}");
    assert_eq!((header(&refused, "x-ratelimit-limit"), header(&refused, "x-ratelimit-remaining")), ("5", "0"));
    let body: Value = refused.json().await.unwrap();
    assert_eq!((body["status"].as_u64(), body["reason"].as_str(), body["rule"].as_str()), (Some(429), Some("limited"), Some("upload")));
    assert_eq!((body["retry-after"].as_u64(), &body["violated-policies"]), (Some(seconds), &serde_json::json!(["upload"])), "{body}");
    product.stop().await.unwrap();
}
