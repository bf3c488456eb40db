//! `POST /v1/check` and its neighbours, over real connections.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod served;

use std::collections::BTreeSet;

use bytes::Bytes;
use futures::future::join_all;
use http::{Method, StatusCode};
use serde_json::json;
use served::{Served, settings};

const RULES: &str = r#"
domain: default
tiers:
  - { name: free, default: true }
  - { name: paid }
rules:
  - name: search
    match: { methods: [GET], path: "/api/search" }
    key: [subject, route]
    algorithm: sliding_window
    limits: { "*": { limit: 10, window: 1h } }
  - name: by-ip
    match: { path: "/login" }
    key: [ip]
    algorithm: fixed_window
    limits: { "*": { limit: 10, window: 365d } }
  - name: three
    match: { path: "/three" }
    key: [subject]
    algorithm: fixed_window
    limits: { free: { limit: 3, window: 365d }, paid: { limit: 5, window: 365d } }
  - name: off-limits
    match: { path: "/blocked" }
    key: []
    limits: { "*": { limit: 0, window: 1m } }
"#;

#[tokio::test]
async fn an_answer_has_the_documented_shape_and_agrees_with_its_headers() {
    let served = Served::with_rules(RULES).await;
    let question = json!({ "subject": "user:123", "tier": "free", "method": "GET", "host": "api.example.com", "path": "/api/search?q=1" });
    let first = served.decide(&question).await;
    assert_eq!((&first["allowed"], &first["status"], &first["reason"]), (&json!(true), &json!(200), &json!("ok")));
    assert_eq!((&first["rule"], &first["limit"], &first["remaining"]), (&json!("search"), &json!(10), &json!(9)));
    assert_eq!((&first["degraded"], &first["revision"], &first["retry_after_ms"]), (&json!(null), &json!(1), &json!(null)));
    assert_eq!((&first["tier"], first["limits"][0]["key"].as_str().unwrap().len()), (&json!("free"), 28));
    assert_eq!(first["headers"]["X-RateLimit-Remaining"], "9");
    assert_eq!(served.admitted(&question, 20).await, 9);
    let refused = served.decide(&question).await;
    assert_eq!((&refused["allowed"], &refused["status"], &refused["reason"]), (&json!(false), &json!(429), &json!("limited")));
    assert_eq!((&refused["remaining"], &refused["limits"][0]["mode"]), (&json!(0), &json!("enforce")));
    let retry_ms = refused["retry_after_ms"].as_u64().unwrap();
    let retry_s: u64 = refused["headers"]["Retry-After"].as_str().unwrap().parse().unwrap();
    assert_eq!(retry_s, retry_ms.div_ceil(1_000).max(1));
    served.stop().await;
}

#[tokio::test]
async fn a_hundred_requests_at_once_at_a_sliding_window_of_ten_admit_ten() {
    let served = Served::with_rules(RULES).await;
    let question = json!({ "subject": "burst", "method": "GET", "path": "/api/search" });
    let answers = join_all((0..100).map(|_| served.decide(&question))).await;
    assert_eq!(answers.iter().filter(|answer| answer["allowed"] == true).count(), 10);
    assert!(answers.iter().all(|answer| answer["degraded"].is_null()));
    served.stop().await;
}

#[tokio::test]
async fn refusals_follow_the_status_table() {
    let served = Served::with_rules(RULES).await;
    for (path, cost, status, reason) in
        [("/blocked", 1, 403, "blocked"), ("/three", 4, 429, "cost_exceeds_capacity"), ("/nowhere", 1, 200, "ok")]
    {
        let answer = served.decide(&json!({ "subject": "s", "path": path, "cost": cost })).await;
        assert_eq!(
            (&answer["status"], &answer["reason"], &answer["retry_after_ms"]),
            (&json!(status), &json!(reason), &json!(null)),
            "{path}"
        );
    }
    served.stop().await;
}

/// BB-59: a cost of 0 looks and takes nothing; none is 1.
#[tokio::test]
async fn bb_59_a_look_charges_nothing() {
    let served = Served::with_rules(RULES).await;
    let look = json!({ "subject": "s", "path": "/three", "cost": 0 });
    for _ in 0..3 {
        let answer = served.decide(&look).await;
        assert_eq!((&answer["allowed"], &answer["remaining"]), (&json!(true), &json!(3)));
    }
    let plain = json!({ "subject": "s", "path": "/three" });
    assert_eq!(served.decide(&plain).await["remaining"], 2);
    assert_eq!(served.decide(&look).await["remaining"], 2);
    assert_eq!(served.admitted(&plain, 5).await, 2);
    assert_eq!(served.decide(&look).await["remaining"], 0);
    served.stop().await;
}

/// BB-27: the port behind an address is not part of it, nor are brackets and spaces.
#[tokio::test]
async fn bb_27_a_source_port_makes_no_new_client() {
    let served = Served::with_rules(RULES).await;
    let ask = async |ip: String| served.decide(&json!({ "client_ip": ip, "path": "/login" })).await["allowed"] == true;
    let mut admitted = 0;
    for port in 50_001..=50_012 {
        admitted += u32::from(ask(format!("198.51.100.7:{port}")).await);
    }
    assert_eq!(admitted, 10);
    for same in ["198.51.100.7", " 198.51.100.7 ", "::ffff:198.51.100.7", "[::ffff:198.51.100.7]:443"] {
        assert!(!ask(same.to_owned()).await, "{same}");
    }
    for _ in 0..4 {
        for same in ["[2001:db8::1]:443", "2001:db8::1", "\"[2001:db8::1]:443\"", "2001:DB8:0:0::2"] {
            ask(same.to_owned()).await;
        }
    }
    assert!(!ask("2001:db8::1".to_owned()).await && ask("2001:db8:1::1".to_owned()).await);
    assert_eq!(served.check(&json!({ "client_ip": "nonsense", "path": "/login" })).await.status, StatusCode::BAD_REQUEST);
    served.stop().await;
}

/// BB-56: each distinct id has its own limit, whatever its alphabet.
#[tokio::test]
async fn bb_56_ids_of_every_alphabet_are_distinct() {
    let served = Served::with_rules(RULES).await;
    for id in ["日本語", "中文字", "😀", "😁", "a b", "a\tb", "a\r\nb", "a\u{0}b", "a%20b", "_ _"] {
        let answer = served.admitted(&json!({ "subject": id, "path": "/three" }), 4).await;
        assert_eq!(answer, 3, "{id:?}");
    }
    served.stop().await;
}

#[tokio::test]
async fn bad_questions_are_problems_and_count_nothing() {
    let served = Served::with_rules(RULES).await;
    let json_type = [("content-type", "application/json; charset=utf-8")];
    let send = async |body: Bytes| served.send(Method::POST, "/v1/check", &json_type, body).await;
    let answer = send(Bytes::from(r#"{"cost":-1,"path":"/three","subject":"s","extra":true}"#)).await;
    assert_eq!((answer.status, answer.header("content-type")), (StatusCode::BAD_REQUEST, Some("application/problem+json")));
    let pointers: Vec<_> = answer.json()["errors"].as_array().unwrap().iter().map(|e| e["pointer"].clone()).collect();
    assert_eq!(pointers, ["/cost", "/extra"]);
    for bad in ["", "{", "[1]", "\u{0}"] {
        assert_eq!(send(Bytes::from(bad)).await.status, StatusCode::BAD_REQUEST, "{bad:?}");
    }
    assert_eq!(send(Bytes::from(vec![b' '; (64 << 10) + 1])).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    // What a web page can make a browser send here without asking first.
    for simple in [
        None,
        Some("application/x-www-form-urlencoded"),
        Some("text/plain"),
        Some("multipart/form-data"),
        Some("application/jsonp"),
        Some(""),
    ] {
        let headers: Vec<_> = simple.map(|value| ("content-type", value)).into_iter().collect();
        let posted = served.send(Method::POST, "/v1/check", &headers, r#"{"path":"/three","subject":"s"}"#).await;
        assert_eq!(posted.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{simple:?}");
        assert!(posted.json()["detail"].as_str().unwrap().contains("application/json"));
    }
    for (method, path, status) in [(Method::GET, "/v1/check", 405), (Method::GET, "/", 404), (Method::POST, "/metrics", 405)] {
        let answer = served.send(method, path, &[], "").await;
        assert_eq!((answer.status.as_u16(), answer.header("content-type")), (status, Some("application/problem+json")), "{path}");
    }
    let unknown = served.check(&json!({ "domain": "other", "path": "/three" })).await;
    assert_eq!((unknown.status, &unknown.json()["errors"][0]["pointer"]), (StatusCode::BAD_REQUEST, &json!("/domain")));
    let path = served.check(&json!({ "path": "/a%zz" })).await;
    assert_eq!(path.status, StatusCode::BAD_REQUEST, "{}", path.json());
    assert_eq!(served.decide(&json!({ "subject": "s", "path": "/three", "cost": 0 })).await["remaining"], 3);
    served.stop().await;
}

/// What a client writes into a cost header cannot have a request refused by a rule that refuses nothing; the operator sees it.
#[tokio::test]
async fn an_unreadable_cost_does_not_stop_a_trial() {
    let rules = r#"{ domain: default, rules: [{ name: trial, mode: shadow, key: [], cost_header: x-cost, limits: { "*": { limit: 5, window: 1h } } }] }"#;
    let served = Served::with_rules(rules).await;
    for (i, bad) in ["abc", "", "0", "-1"].into_iter().enumerate() {
        let answer = served.decide(&json!({ "headers": { "x-cost": bad } })).await;
        assert_eq!((&answer["allowed"], &answer["limits"][0]["remaining"]), (&json!(true), &json!(4 - i)), "{bad:?}");
    }
    let metrics = String::from_utf8(served.get("/metrics").await.body.to_vec()).unwrap();
    assert!(metrics.contains("weir_unreadable_costs_total{domain=\"default\",rule=\"trial\"} 4"), "{metrics}");
    served.stop().await;
}

/// BB-39: the number of metric series does not depend on the number of clients.
#[tokio::test]
async fn bb_39_metrics_do_not_grow_with_clients() {
    let served = Served::with_rules(RULES).await;
    let series = async || {
        let text = String::from_utf8(served.get("/metrics").await.body.to_vec()).unwrap();
        let name = |line: &str| line.rsplit_once(' ').map(|(name, _)| name.to_owned());
        text.lines().filter(|line| !line.starts_with('#')).filter_map(name).collect::<BTreeSet<String>>()
    };
    let ask = async |i: usize| {
        let id = format!("{i}{}", "x".repeat(i % 900));
        let ip = format!("10.{}.{}.{}", i >> 16, (i >> 8) & 255, i & 255);
        served.decide(&json!({ "subject": id, "tier": format!("t{i}"), "client_ip": ip, "path": "/three", "host": id.get(..200) })).await;
    };
    ask(0).await;
    let before = series().await;
    assert!(before.iter().any(|s| s.contains("weir_decisions_total") && s.contains("three")), "{before:?}");
    for i in 1..2_000 {
        ask(i).await;
    }
    assert_eq!(series().await, before);
    served.stop().await;
}

#[tokio::test]
async fn health_tells_life_from_readiness() {
    let served = Served::with_rules(RULES).await;
    assert_eq!(served.get("/livez").await.status, StatusCode::OK);
    let ready = served.get("/readyz").await;
    assert_eq!((ready.status, &ready.json()["domains"][0]["rules"]["revision"]), (StatusCode::OK, &json!(1)));
    served.agent.drain();
    let draining = served.get("/readyz").await;
    assert_eq!((draining.status, &draining.json()["draining"]), (StatusCode::SERVICE_UNAVAILABLE, &json!(true)));
    assert_eq!(served.get("/livez").await.status, StatusCode::OK);
    assert_eq!(served.admitted(&json!({ "subject": "s", "path": "/three" }), 1).await, 1);
    served.stop().await;
}

#[tokio::test]
async fn a_domain_without_rules_is_not_ready_and_says_so_in_every_answer() {
    let mut settings = settings(RULES);
    settings.domains = vec!["default".parse().unwrap(), "later".parse().unwrap()];
    let served = Served::start(settings).await;
    assert_eq!(served.get("/readyz").await.status, StatusCode::SERVICE_UNAVAILABLE);
    let answer = served.decide(&json!({ "domain": "later", "subject": "s" })).await;
    assert_eq!((&answer["allowed"], &answer["degraded"]), (&json!(true), &json!({ "mode": "open", "cause": "no_rules" })));
    served.stop().await;
}
