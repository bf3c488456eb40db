//! `POST /v1/check:batch`: many questions in one body.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod served;

use http::StatusCode;
use serde_json::{Value, json};
use served::{Served, settings};
use weir_agent::limiter::ShardConfig;
use weir_agent::settings::Counters;
use weir_testbed::{Flavor, Redis};

const RULES: &str = r#"
domain: default
rules:
  - { name: five, key: [subject], algorithm: fixed_window, limits: { "*": { limit: 5, window: 365d } } }
"#;

async fn batch(served: &Served, checks: &[Value]) -> Vec<Value> {
    let answer = served.post("/v1/check:batch", &json!({ "checks": checks })).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.json());
    answer.json()["answers"].as_array().unwrap().clone()
}

async fn on_redis(redis: &Redis) -> Served {
    let mut settings = settings(RULES);
    let shard = ShardConfig::new("a".parse().unwrap(), redis.url().parse().unwrap());
    settings.counters = Counters::Shards(vec![shard]);
    Served::start(settings).await
}

/// Each is answered in its place, as `/v1/check` would have.
#[tokio::test]
async fn answers_are_in_the_order_of_the_questions() {
    let served = Served::with_rules(RULES).await;
    let questions: Vec<Value> =
        (0..100).map(|i| json!({ "subject": format!("s{}", i % 10), "cost": if i < 10 { 1 } else { 0 } })).collect();
    let answers = batch(&served, &questions).await;
    assert_eq!(answers.len(), 100);
    assert!(answers.iter().all(|answer| answer["allowed"] == true && answer["remaining"] == 4), "{answers:?}");
    let alone = served.decide(&questions[10]).await;
    let fields = |answer: &Value| answer.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!((fields(&answers[10]), &answers[10]["limits"][0]["key"]), (fields(&alone), &alone["limits"][0]["key"]));
    for field in ["rule", "limit", "reason", "revision", "tier"] {
        assert_eq!(answers[10][field], alone[field], "{field}");
    }
    assert!(answers[0]["headers"]["RateLimit"].is_string());
    served.stop().await;
}

/// On a shard a batch is a few calls, and questions about one counter have their turn in their order.
#[tokio::test]
async fn equal_questions_have_their_turn_in_order() {
    let redis = Redis::temporary(Flavor::available().unwrap()).await.unwrap();
    let served = on_redis(&redis).await;
    let metric = async |name: &str| {
        let text = String::from_utf8(served.get("/metrics").await.body.to_vec()).unwrap();
        text.lines().filter(|line| line.starts_with(name)).filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum::<u64>()
    };
    let before = metric("weir_shard_calls_total").await;
    for round in 0..5 {
        let questions: Vec<Value> = (0..100).map(|_| json!({ "subject": format!("round {round}") })).collect();
        let answers = batch(&served, &questions).await;
        let remaining: Vec<_> = answers.iter().take(5).map(|answer| answer["remaining"].as_u64().unwrap()).collect();
        assert_eq!(remaining, [4, 3, 2, 1, 0]);
        assert!(
            answers[..5].iter().all(|answer| answer["allowed"] == true) && answers[5..].iter().all(|answer| answer["allowed"] == false)
        );
    }
    let calls = metric("weir_shard_calls_total").await - before;
    assert!((1..=25).contains(&calls), "{calls} calls for 5 batches of 100");
    served.stop().await;
}

/// A bad question is told so in its place, and the others are answered.
#[tokio::test]
async fn a_bad_question_costs_the_others_nothing() {
    let served = Served::with_rules(RULES).await;
    let questions = [
        json!({ "subject": "a" }),
        json!({ "subject": "a", "cost": -1, "colour": "red" }),
        json!({ "domain": "elsewhere" }),
        json!(7),
        json!({ "subject": "a", "limits": { "five": { "unlimited": true } } }),
        json!({ "subject": "a" }),
    ];
    let answers = batch(&served, &questions).await;
    assert_eq!((&answers[0]["remaining"], &answers[5]["remaining"]), (&json!(4), &json!(3)));
    let told: Vec<_> = answers[1..5].iter().map(|problem| (problem["status"].clone(), problem["type"].clone())).collect();
    let problem = |status: u16, name: &str| (json!(status), json!(format!("urn:weir:problem:{name}")));
    let bad = problem(400, "bad-request");
    assert_eq!(told, [bad.clone(), bad.clone(), bad, problem(403, "not-permitted")]);
    let pointers: Vec<_> = answers[1]["errors"].as_array().unwrap().iter().map(|error| error["pointer"].clone()).collect();
    assert_eq!(pointers, ["/cost", "/colour"]);
    for answer in &answers[1..5] {
        assert!(answer.get("allowed").is_none(), "{answer}");
    }
    served.stop().await;
}

#[tokio::test]
async fn a_batch_is_bounded() {
    let served = Served::with_rules(RULES).await;
    let many = |count: usize| json!({ "checks": vec![json!({ "subject": "x".repeat(1000), "cost": 0 }); count] });
    assert_eq!(served.post("/v1/check:batch", &many(100)).await.status, StatusCode::OK);
    assert_eq!(served.post("/v1/check:batch", &many(101)).await.status, StatusCode::BAD_REQUEST);
    let large = json!({ "checks": [{ "path": "x".repeat(1 << 20) }] });
    assert_eq!(served.post("/v1/check:batch", &large).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(served.post("/v1/check:batch", &json!([])).await.status, StatusCode::BAD_REQUEST);
    served.stop().await;
}
