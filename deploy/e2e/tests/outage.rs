//! What stops while the product runs: the control plane, a shard.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use serde_json::json;
use weir_e2e::{Plan, Product};
use weir_testbed::await_until;

/// The budget of the fault tests, and what a busy test machine may add.
const BUDGET: Duration = Duration::from_millis(50);
const MARGIN: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_the_data_plane_outlives_the_control_plane() {
    let mut product = Product::start(Plan::default()).await.unwrap();
    product.stop_control_plane().await;
    let upload = async |product: &Product, index: usize| product.nodes[index].ask("user:ada", "free", "POST", "/api/upload").await.unwrap();
    for turn in 0..5 {
        assert!(upload(&product, turn % 2).await.allowed());
    }
    product.restart_agent(0).await.unwrap();
    assert!(product.nodes[0].revision() > 0, "the restarted agent has the rules from its disk");
    product.nodes[0].agent.settled().await;
    let refused = upload(&product, 0).await;
    assert!(!refused.allowed() && !refused.degraded(), "it counts on the same shards with the same keys: {}", refused.body);
    product.start_control_plane().await.unwrap();
    let revision = product.api.edit_rule("upload", |rule| rule["limits"]["*"]["limit"] = json!(6)).await.unwrap();
    let back = await_until(Duration::from_secs(30), async || product.nodes.iter().all(|node| node.revision() == revision));
    assert!(back.await, "agents reconnect by themselves");
    assert!(upload(&product, 1).await.allowed());
    product.stop().await.unwrap();
}

/// Which of `subjects` each shard owns, by asking: the answer does not say, so the shard's own key count does.
async fn subject_on(product: &Product, shard: usize) -> String {
    for number in 0.. {
        let subject = format!("user:probe-{number}");
        let before = keys(product, shard).await;
        product.nodes[0].ask(&subject, "free", "GET", "/").await.unwrap();
        if keys(product, shard).await > before {
            return subject;
        }
    }
    unreachable!()
}

async fn keys(product: &Product, shard: usize) -> u64 {
    let mut connection = redis::Client::open(product.redis[shard].url()).unwrap().get_multiplexed_async_connection().await.unwrap();
    redis::cmd("DBSIZE").query_async(&mut connection).await.unwrap()
}

/// Asks once and says how long it took.
async fn timed(product: &Product, subject: &str) -> (weir_e2e::Answer, Duration) {
    let start = Instant::now();
    let answer = product.nodes[0].ask(subject, "free", "GET", "/").await.unwrap();
    (answer, start.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_a_shard_is_stopped_paused_and_restarted() {
    let product = Product::start(Plan { budget: BUDGET, ..Plan::default() }).await.unwrap();
    let (here, elsewhere) = (subject_on(&product, 0).await, subject_on(&product, 1).await);
    for trouble in ["paused", "killed"] {
        match trouble {
            "paused" => product.redis[0].pause().await,
            _ => product.redis[0].kill().await,
        }
        let mut degraded = 0;
        for _ in 0..20 {
            let (answer, took) = timed(&product, &here).await;
            assert!(took < BUDGET + MARGIN, "{trouble}: {took:?}");
            degraded += usize::from(answer.degraded());
            assert!(!timed(&product, &elsewhere).await.0.degraded(), "{trouble}: the other shards are not touched");
        }
        assert_eq!(degraded, 20, "{trouble}: every decision without the shard is marked");
        let metrics = product.nodes[0].agent.metrics_text();
        assert!(metrics.contains("weir_degraded_decisions_total{"), "{metrics}");
        match trouble {
            "paused" => product.redis[0].resume().await,
            _ => product.redis[0].restart().await.unwrap(),
        }
        let exact = await_until(Duration::from_secs(5), async || !timed(&product, &here).await.0.degraded()).await;
        assert!(exact, "{trouble}: exact again within 5 s");
    }
    product.stop().await.unwrap();
}
