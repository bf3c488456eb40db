//! Over HTTP: a lease is handed out, and ends with its token.

use http::StatusCode;
use serde_json::{Value, json};
use weir_agent::Lease;
use weir_agent::settings::Counters;
use weir_testbed::{Flavor, Redis};

use crate::served::{Served, settings};
use crate::{RULES, free, on};

async fn acquire(served: &Served, question: &Value) -> Value {
    let answer = served.post("/v1/acquire", question).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.json());
    answer.json()
}

async fn release(served: &Served, lease: &Value) -> Value {
    let answer = served.post("/v1/release", &json!({ "domain": "default", "lease": lease })).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.json());
    answer.json()
}

#[tokio::test]
async fn leases_over_http_in_memory() {
    let served = Served::with_rules(RULES).await;
    leases(&served, &served).await;
    served.stop().await;
}

/// Any agent on the same shards releases what another acquired.
#[tokio::test]
async fn leases_over_http_on_a_shard() {
    let redis = Redis::temporary(Flavor::available().unwrap()).await.unwrap();
    let (one, other) = (Served::start(on(&redis, settings(RULES))).await, Served::start(on(&redis, settings(RULES))).await);
    leases(&one, &other).await;
    one.stop().await;
    other.stop().await;
}

async fn leases(one: &Served, other: &Served) {
    // The cost is of the other rule: a request in flight is one.
    let first = acquire(one, &json!({ "cost": 5 })).await;
    assert_eq!((&first["allowed"], &first["lease_expires_after_ms"]), (&json!(true), &json!(60_000)));
    assert_eq!((&first["limits"][0]["remaining"], &first["limits"][0]["algorithm"]), (&json!(1), &json!("concurrency")));
    let second = acquire(one, &json!({})).await;
    assert_ne!(first["lease"], second["lease"]);
    let refused = acquire(other, &json!({})).await;
    assert_eq!((&refused["allowed"], &refused["status"], &refused["reason"]), (&json!(false), &json!(429), &json!("limited")));
    assert_eq!((&refused["rule"], &refused["lease"], &refused["lease_expires_after_ms"]), (&json!("jobs"), &json!(null), &json!(null)));
    // At the latest when the first lease expires.
    let wait = refused["retry_after_ms"].as_u64().unwrap();
    assert!((1..=60_000).contains(&wait), "{wait}");
    let policy = refused["headers"]["RateLimit-Policy"].as_str().unwrap();
    assert!(policy.starts_with("\"jobs\";q=2;qu=\"concurrent-requests\", \"rate\";q=1000000;w=1"), "{policy}");
    // A look holds nothing, nor does a question of no cost.
    assert_eq!(one.post("/v1/peek", &json!({})).await.json()["allowed"], false);
    let nothing = acquire(one, &json!({ "cost": 0 })).await;
    assert_eq!((&nothing["allowed"], &nothing["lease"]), (&json!(true), &json!(null)));

    assert_eq!(release(other, &first["lease"]).await, json!({ "released": true, "error": null }));
    assert_eq!(release(other, &first["lease"]).await, json!({ "released": false, "error": null }));
    assert_eq!(release(one, &first["lease"]).await, json!({ "released": false, "error": null }));
    assert_eq!(acquire(one, &json!({})).await["allowed"], true);
    // A check takes a place and hands out nothing to give it back by.
    release(one, &second["lease"]).await;
    let checked = one.decide(&json!({})).await;
    assert_eq!((&checked["allowed"], checked.get("lease")), (&json!(true), None));
    assert_eq!(acquire(other, &json!({})).await["allowed"], false);
    let text = String::from_utf8(other.get("/metrics").await.body.to_vec()).unwrap();
    assert!(text.contains("weir_operations_total{operation=\"release\",outcome=\"done\"} "), "{text}");
}

/// Whoever makes up a lease releases nothing.
#[tokio::test]
async fn made_up_leases_release_nothing() {
    let served = Served::with_rules(RULES).await;
    let lease = acquire(&served, &json!({})).await["lease"].as_str().unwrap().to_owned();
    // Of the right counter, under a name that nobody has.
    let forged = format!("1{}{}", "A".repeat(22), &lease[23..]);
    assert!(forged.parse::<Lease>().is_ok());
    assert_eq!(release(&served, &json!(forged)).await["released"], false);
    assert_eq!(free(&served.agent).await, 1);
    for (body, pointer) in [
        (json!({ "lease": "x" }), "/lease"),
        (json!({ "lease": null }), "/lease"),
        (json!({ "lease": 1 }), "/lease"),
        (json!({}), "/lease"),
        (json!({ "lease": format!("{lease}A") }), "/lease"),
        (json!({ "lease": lease, "domain": "elsewhere" }), "/domain"),
        (json!({ "lease": lease, "leases": [] }), "/leases"),
    ] {
        let answer = served.post("/v1/release", &body).await;
        assert_eq!((answer.status, &answer.json()["errors"][0]["pointer"]), (StatusCode::BAD_REQUEST, &json!(pointer)), "{body}");
    }
    assert_eq!(release(&served, &json!(lease)).await["released"], true);
    served.stop().await;
}

/// Without its shard the places of a rule are this agent's own, and are given back here.
#[tokio::test]
async fn local_leases_are_released_where_they_are_held() {
    let mut settings = settings(RULES);
    settings.counters = Counters::Shards(Vec::new());
    let served = Served::start(settings).await;
    let (first, _second) = (acquire(&served, &json!({})).await, acquire(&served, &json!({})).await);
    assert_eq!((&first["allowed"], &first["degraded"]["mode"]), (&json!(true), &json!("local")));
    let refused = acquire(&served, &json!({})).await;
    assert_eq!((&refused["allowed"], &refused["status"], &refused["lease"]), (&json!(false), &json!(429), &json!(null)));
    assert_eq!(release(&served, &first["lease"]).await["released"], true);
    assert_eq!(acquire(&served, &json!({})).await["allowed"], true);
    served.stop().await;
}

/// What is allowed without being counted holds nothing.
#[tokio::test]
async fn an_open_failure_hands_out_no_lease() {
    let rules = RULES.replace("algorithm: concurrency,", "algorithm: concurrency, on_failure: { mode: open },");
    let mut settings = settings(&rules);
    settings.counters = Counters::Shards(Vec::new());
    let served = Served::start(settings).await;
    for _ in 0..5 {
        let acquired = acquire(&served, &json!({})).await;
        assert_eq!((&acquired["allowed"], &acquired["lease"]), (&json!(true), &json!(null)));
    }
    served.stop().await;
}

/// A shadow rule counts what is in flight, refuses nothing, and gives back what it took.
#[tokio::test]
async fn a_shadow_rule_takes_leases_too() {
    let served = Served::with_rules(&RULES.replace("algorithm: concurrency,", "algorithm: concurrency, mode: shadow,")).await;
    let mut held = Vec::new();
    for remaining in [1, 0, 0] {
        let acquired = acquire(&served, &json!({})).await;
        assert_eq!((&acquired["allowed"], &acquired["limits"][0]["remaining"]), (&json!(true), &json!(remaining)));
        held.push(acquired["lease"].clone());
    }
    assert_eq!(held[2], json!(null));
    assert_eq!(release(&served, &held[0]).await["released"], true);
    assert_eq!(free(&served.agent).await, 1);
    served.stop().await;
}
