//! The demo gateway limits by the headers that it trusts, and by address without them.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;
use weir_agent::Agent;
use weir_agent::settings::{AgentSettings, RulesFrom};
use weir_core::config::DomainConfig;

const RULES: &str = r#"
domain: default
tiers:
  - { name: free, default: true }
  - { name: paid }
defaults: { algorithm: fixed_window }
rules:
  - name: per-user
    match: { path: "/**" }
    key: [subject]
    limits: { free: { limit: 3, window: 365d }, paid: { limit: 6, window: 365d } }
  - name: upload
    match: { methods: [POST], path: "/api/upload" }
    key: [subject, route]
    limits: { "*": { limit: 1, window: 365d } }
"#;

async fn agent() -> Agent {
    let config = DomainConfig::from_yaml(RULES).unwrap();
    Agent::start(AgentSettings::new("demo".parse().unwrap(), RulesFrom::Given(vec![config]))).await.unwrap()
}

async fn ask(app: &axum::Router, method: Method, path: &str, headers: &[(&str, &str)]) -> (StatusCode, serde_json::Value, bool) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::from("hello")).unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([192, 0, 2, 1], 5000))));
    let response = app.clone().oneshot(request).await.unwrap();
    let (status, has_headers) = (response.status(), response.headers().contains_key("x-ratelimit-remaining"));
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap(), has_headers)
}

#[tokio::test]
async fn subjects_and_tiers_come_from_headers_and_else_the_address() {
    let agent = agent().await;
    let app = weir_demo_gateway::app(&agent).unwrap();
    for (caller, limit) in [(vec![("x-user-id", "1"), ("x-tier", "paid")], 6), (vec![("x-user-id", "2")], 3), (vec![], 3)] {
        for i in 0..limit {
            let (status, _, has_headers) = ask(&app, Method::GET, "/api/search?q=ring", &caller).await;
            assert_eq!((status, has_headers), (StatusCode::OK, true), "{caller:?} {i}");
        }
        let (status, body, has_headers) = ask(&app, Method::GET, "/api/search?q=ring", &caller).await;
        assert_eq!((status, has_headers), (StatusCode::TOO_MANY_REQUESTS, true), "{caller:?}");
        assert!(body.to_string().contains("per-user"), "{body}");
    }
    agent.shutdown().await;
}

#[tokio::test]
async fn routes_answer_and_an_upload_has_its_own_limit() {
    let agent = agent().await;
    let app = weir_demo_gateway::app(&agent).unwrap();
    let (status, body, _) = ask(&app, Method::POST, "/api/upload", &[("x-user-id", "u")]).await;
    assert_eq!((status, &body["stored_bytes"]), (StatusCode::CREATED, &5.into()));
    let (status, body, _) = ask(&app, Method::POST, "/api/upload", &[("x-user-id", "u")]).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert!(body.to_string().contains("upload"), "{body}");
    // The refused upload took nothing from the other limit: two of three are left.
    let (status, body, _) = ask(&app, Method::GET, "/api/search?q=ring", &[("x-user-id", "u")]).await;
    assert_eq!((status, &body["found"][0]), (StatusCode::OK, &"Rings of shards".into()));
    let (status, body, _) = ask(&app, Method::GET, "/nowhere", &[("x-user-id", "u")]).await;
    assert_eq!((status, body["message"].is_string()), (StatusCode::NOT_FOUND, true));
    assert_eq!(ask(&app, Method::GET, "/api/users/7", &[("x-user-id", "u")]).await.0, StatusCode::TOO_MANY_REQUESTS);
    agent.shutdown().await;
}
