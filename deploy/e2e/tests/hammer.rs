//! Promise 1 with everything real: two agents, three shards, one key hammered from both at once.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use weir_e2e::{Plan, Product};

const LIMIT: u64 = 40;
const CALLERS: usize = 16;
const EACH: usize = 12;
/// The window of the rules below; epoch-aligned for `fixed_window`.
const WINDOW: u64 = 60;
/// What must be left of a fixed window at the start for all of the test to fit into it.
const ROOM: u64 = 20;

fn rules(algorithm: &str) -> String {
    format!(
        r#"
domain: default
tiers: [{{ name: free, default: true }}]
rules:
  - name: one-key
    key: [subject]
    algorithm: {algorithm}
    limits: {{ "*": {{ limit: {LIMIT}, window: {WINDOW}s }} }}
    on_failure: {{ mode: closed }}
"#
    )
}

/// Sends from all callers at once, over both agents; how many passed, and how long it took.
async fn hammer(product: Arc<Product>) -> (u64, Duration) {
    let start = Instant::now();
    let mut callers = Vec::new();
    for caller in 0..CALLERS {
        let product = Arc::clone(&product);
        callers.push(tokio::spawn(async move {
            let node = &product.nodes[caller % product.nodes.len()];
            let mut passed = 0;
            for _ in 0..EACH {
                let answer = node.ask("user:hot", "free", "GET", "/").await.unwrap();
                assert!(!answer.degraded(), "{}", answer.body);
                passed += u64::from(answer.allowed());
            }
            passed
        }));
    }
    let mut passed = 0;
    for caller in callers {
        passed += caller.await.unwrap();
    }
    (passed, start.elapsed())
}

async fn run(algorithm: &str) -> (u64, Duration) {
    let product = Arc::new(Product::start(Plan { rules: rules(algorithm), ..Plan::default() }).await.unwrap());
    if algorithm == "fixed_window" {
        room_in_the_window().await;
    }
    let result = hammer(Arc::clone(&product)).await;
    if let Some(product) = Arc::into_inner(product) {
        product.stop().await.unwrap();
    }
    result
}

/// Waits for the next window if too little of this one is left.
async fn room_in_the_window() {
    #[allow(clippy::disallowed_methods, reason = "the window is aligned to the machine's wall clock, which the shards share")]
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let left = Duration::from_secs(WINDOW) - Duration::from_millis(u64::try_from(now.as_millis()).unwrap() % (WINDOW * 1000));
    if left < Duration::from_secs(ROOM) {
        tokio::time::sleep(left).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_token_bucket_under_two_agents() {
    let (passed, took) = run("token_bucket").await;
    let refill = LIMIT as f64 / WINDOW as f64 * took.as_secs_f64();
    assert!(passed >= LIMIT && passed as f64 <= LIMIT as f64 + refill, "{passed} passed in {took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_sliding_window_under_two_agents() {
    let (passed, took) = run("sliding_window").await;
    assert!(took < Duration::from_secs(WINDOW), "too slow to stay in one window: {took:?}");
    assert_eq!(passed, LIMIT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_fixed_window_under_two_agents() {
    let (passed, took) = run("fixed_window").await;
    assert!(took < Duration::from_secs(ROOM), "too slow to stay in one window: {took:?}");
    assert_eq!(passed, LIMIT);
}
