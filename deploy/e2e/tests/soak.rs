//! Long runs (`make soak`): a shard in trouble for a minute under load.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use weir_e2e::{Plan, Product};
use weir_testbed::await_until;

const BUDGET: Duration = Duration::from_millis(50);
const MARGIN: Duration = Duration::from_millis(100);
const TROUBLE: Duration = Duration::from_secs(60);
const PER_SECOND: u32 = 100;

/// BB-11 at full length: answers in time, the rest of the ring untouched, normal within five seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes two minutes: make soak"]
async fn soak_bb_11_a_shard_is_away_for_a_minute() {
    let product = Product::start(Plan { budget: BUDGET, ..Plan::default() }).await.unwrap();
    for killed in [false, true] {
        if killed {
            product.redis[0].kill().await;
        } else {
            product.redis[0].pause().await;
        }
        let late = load(&product).await;
        assert!(late.len() <= 10, "killed: {killed}: late answers {late:?}");
        if killed {
            product.redis[0].restart().await.unwrap();
        } else {
            product.redis[0].resume().await;
        }
        let normal = await_until(Duration::from_secs(5), async || {
            let mut degraded = false;
            for number in 0..30 {
                degraded |= product.nodes[0].ask(&format!("user:after-{number}"), "paid", "GET", "/").await.unwrap().degraded();
            }
            !degraded
        });
        assert!(normal.await, "killed: {killed}: not normal within 5 s");
    }
    product.stop().await.unwrap();
}

/// Sends for the whole trouble; the answers that took longer than the budget and its margin.
async fn load(product: &Product) -> Vec<Duration> {
    let mut tick = tokio::time::interval(Duration::from_secs(1) / PER_SECOND);
    let start = Instant::now();
    let mut late = Vec::new();
    for number in 0u32.. {
        if start.elapsed() > TROUBLE {
            break;
        }
        tick.tick().await;
        let asked = Instant::now();
        product.nodes[0].ask(&format!("user:{}", number % 500), "paid", "GET", "/").await.unwrap();
        if asked.elapsed() > BUDGET + MARGIN {
            late.push(asked.elapsed());
        }
    }
    late
}
