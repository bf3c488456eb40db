//! The tower layer, around services of several kinds.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod served;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::ConnectInfo;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::json;
use served::{Served, settings};
use tower::{Layer as _, Service, ServiceExt as _, service_fn};
use weir_agent::Agent;
use weir_agent::middleware::LayerSettings;

const RULES: &str = r#"
domain: default
tiers:
  - { name: free, default: true }
  - { name: paid }
defaults: { algorithm: fixed_window }
rules:
  - { name: plan, key: [subject], limits: { free: { limit: 3, window: 365d }, paid: { limit: 5, window: 365d } } }
"#;

fn named() -> LayerSettings {
    LayerSettings {
        subject_header: Some("x-user".parse().unwrap()),
        tier_header: Some("x-plan".parse().unwrap()),
        ..LayerSettings::default()
    }
}

fn request(headers: &[(&str, &[u8])]) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::from("question"));
    *request.uri_mut() = "/a/b?c".parse().unwrap();
    for (name, value) in headers {
        request.headers_mut().append(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_bytes(value).unwrap());
    }
    request
}

fn header<'a, B>(response: &'a Response<B>, name: &str) -> &'a str {
    response.headers()[name].to_str().unwrap()
}

async fn echo(request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await?.to_bytes();
    Ok(Response::builder().status(StatusCode::CREATED).header("x-own", "1").body(Full::from(body)).unwrap())
}

async fn status<S, B>(service: &S, request: Request<Full<Bytes>>) -> StatusCode
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible> + Clone,
{
    service.clone().oneshot(request).await.unwrap().status()
}

#[tokio::test]
async fn what_passes_keeps_its_answer_and_gets_the_headers() {
    let agent = Agent::start(settings(RULES)).await.unwrap();
    let service = agent.layer(named()).unwrap().layer(service_fn(echo));
    let response = service.clone().oneshot(request(&[("x-user", b"1")])).await.unwrap();
    assert_eq!((response.status(), header(&response, "x-own")), (StatusCode::CREATED, "1"));
    assert_eq!((header(&response, "x-ratelimit-limit"), header(&response, "x-ratelimit-remaining")), ("3", "2"));
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "question");
    agent.shutdown().await;
}

#[tokio::test]
async fn what_is_refused_never_reaches_the_service() {
    let agent = Agent::start(settings(RULES)).await.unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let service = agent.layer(named()).unwrap().layer(service_fn(move |request| {
        counted.fetch_add(1, Ordering::Relaxed);
        echo(request)
    }));
    for _ in 0..5 {
        assert_eq!(status(&service, request(&[("x-user", b"1"), ("x-plan", b"paid")])).await, StatusCode::CREATED);
    }
    let refused = service.clone().oneshot(request(&[("x-user", b"1"), ("x-plan", b"paid")])).await.unwrap();
    assert_eq!((refused.status(), header(&refused, "content-type")), (StatusCode::TOO_MANY_REQUESTS, "application/problem+json"));
    let wait: u64 = header(&refused, "retry-after").parse().unwrap();
    assert!(wait >= 1);
    assert_eq!(header(&refused, "ratelimit"), format!("\"plan\";r=0;t={wait}"));
    let body: serde_json::Value = serde_json::from_slice(&refused.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!((&body["retry-after"], &body["rule"], &body["violated-policies"]), (&json!(wait), &json!("plan"), &json!(["plan"])));
    let twice = service.clone().oneshot(request(&[("x-user", b"1"), ("x-user", b"2")])).await.unwrap();
    assert_eq!(twice.status(), StatusCode::BAD_REQUEST);
    assert_eq!(calls.load(Ordering::Relaxed), 5);
    agent.shutdown().await;
}

#[tokio::test]
async fn errors_of_the_service_pass_through() {
    let agent = Agent::start(settings(RULES)).await.unwrap();
    let failing = service_fn(|_: Request<Full<Bytes>>| async { Err::<Response<Full<Bytes>>, _>("the service broke") });
    let answer = agent.layer(named()).unwrap().layer(failing).oneshot(request(&[])).await;
    assert_eq!(answer.map(|response| response.status()), Err("the service broke"));
    agent.shutdown().await;
}

#[tokio::test]
async fn a_service_that_reports_limits_of_its_own_keeps_them() {
    let agent = Agent::start(settings(RULES)).await.unwrap();
    let own = service_fn(async |_: Request<Full<Bytes>>| {
        Ok::<_, Infallible>(Response::builder().header("x-ratelimit-limit", "7").body(Full::<Bytes>::default()).unwrap())
    });
    let response = agent.layer(named()).unwrap().layer(own).oneshot(request(&[])).await.unwrap();
    assert_eq!((header(&response, "x-ratelimit-limit"), header(&response, "x-ratelimit-remaining")), ("7", "2"));
    agent.shutdown().await;
}

#[tokio::test]
async fn without_named_headers_the_connection_is_the_subject() {
    let agent = Agent::start(settings(RULES)).await.unwrap();
    let service = agent.layer(LayerSettings::default()).unwrap().layer(service_fn(echo));
    let from = |ip: [u8; 4], headers: &[(&str, &[u8])]| {
        let mut request = request(headers);
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from((ip, 4000))));
        request
    };
    let mut seen = Vec::new();
    for i in 0..5u8 {
        let spoof = format!("198.51.100.{i}");
        let headers: [(&str, &[u8]); 4] =
            [("x-forwarded-for", spoof.as_bytes()), ("x-real-ip", spoof.as_bytes()), ("x-user", spoof.as_bytes()), ("x-plan", b"paid")];
        seen.push(status(&service, from([192, 0, 2, 1], &headers)).await.as_u16());
    }
    assert_eq!(seen, [201, 201, 201, 429, 429]);
    assert_eq!(status(&service, from([192, 0, 2, 2], &[])).await, StatusCode::CREATED);
    let proxied = LayerSettings { trusted_proxies: vec!["192.0.2.0/24".parse().unwrap()], ..LayerSettings::default() };
    let service = agent.layer(proxied).unwrap().layer(service_fn(echo));
    // BB-26: behind a trusted hop the address that the hop saw is the client, whatever the client wrote before it; nobody else pays.
    let mut seen = Vec::new();
    for i in 0..20 {
        let chain = format!("198.51.100.{i}, 203.0.113.9");
        seen.push(status(&service, from([192, 0, 2, 1], &[("x-forwarded-for", chain.as_bytes())])).await.as_u16());
    }
    assert_eq!((seen[..3].to_vec(), seen[3..].iter().all(|status| *status == 429)), (vec![201; 3], true), "{seen:?}");
    for expected in [201, 201, 201, 429] {
        assert_eq!(status(&service, from([192, 0, 2, 1], &[("x-forwarded-for", b"198.51.100.3")])).await.as_u16(), expected);
    }
    agent.shutdown().await;
}

/// BB-56: the same id through two surfaces is one subject, and bytes that are no text are a subject of their own.
#[tokio::test]
async fn bb_56_one_id_is_one_subject_on_every_surface() {
    let served = Served::with_rules(RULES).await;
    let service = served.agent.layer(named()).unwrap().layer(service_fn(echo));
    for id in ["日本語", "key:7", "a b"] {
        assert_eq!(status(&service, request(&[("x-user", id.as_bytes())])).await, StatusCode::CREATED);
        assert_eq!(served.admitted(&serde_json::json!({ "subject": id, "path": "/a/b" }), 3).await, 2, "{id}");
        assert_eq!(status(&service, request(&[("x-user", id.as_bytes())])).await, StatusCode::TOO_MANY_REQUESTS);
    }
    for id in [b"\xff\xfe".as_slice(), b"\xff\xfd", "\u{fffd}".as_bytes()] {
        for expected in [201, 201, 201, 429] {
            assert_eq!(status(&service, request(&[("x-user", id)])).await.as_u16(), expected, "{id:?}");
        }
    }
    served.stop().await;
}

#[tokio::test]
async fn the_layer_fits_an_axum_application() {
    let agent = Agent::start(settings(RULES)).await.unwrap();
    let app: axum::Router = axum::Router::new().route("/", axum::routing::get(async || "hello")).layer(agent.layer(named()).unwrap());
    let mut seen = Vec::new();
    for _ in 0..4 {
        let request = Request::get("/").header("x-user", "1").body(axum::body::Body::empty()).unwrap();
        seen.push(app.clone().oneshot(request).await.unwrap().status().as_u16());
    }
    assert_eq!(seen, [200, 200, 200, 429]);
    agent.shutdown().await;
}

/// The host of a request to a proxy is told without a user name; what is too long is the client's mistake.
#[tokio::test]
async fn targets_in_absolute_form_have_their_host_bounded_and_plain() {
    let rules = r#"{ domain: default, rules: [{ name: host, match: { hosts: [api.example.com] }, key: [], limits: { "*": { limit: 0, window: 1m } } }] }"#;
    let agent = Agent::start(settings(rules)).await.unwrap();
    let service = agent.layer(LayerSettings::default()).unwrap().layer(service_fn(echo));
    let long = format!("/{}", "a".repeat(8 << 10));
    for (target, expected) in [
        ("http://x@api.example.com/p", StatusCode::FORBIDDEN),
        ("http://x:y@API.example.com:80/p", StatusCode::FORBIDDEN),
        ("http://other.example.com/p", StatusCode::CREATED),
        (&long, StatusCode::BAD_REQUEST),
    ] {
        let mut request = request(&[]);
        *request.uri_mut() = target.parse().unwrap();
        assert_eq!(status(&service, request).await, expected, "{target:.40}");
    }
    agent.shutdown().await;
}

#[tokio::test]
async fn a_layer_about_a_domain_that_is_not_served_is_refused() {
    let agent = Agent::start(settings(RULES)).await.unwrap();
    let error = agent.layer(LayerSettings { domain: Some("shop".parse().unwrap()), ..named() }).unwrap_err();
    assert_eq!(error.to_string(), "the layer asks about domain shop, but default is served");
    agent.shutdown().await;
}

/// Where the header's kind is fixed, nobody can name themselves into another's limits.
#[tokio::test]
async fn a_fixed_kind_keeps_subjects_apart() {
    let served = Served::with_rules(RULES).await;
    let fixed = LayerSettings { subject_kind: Some("tenant".parse().unwrap()), ..named() };
    let service = served.agent.layer(fixed).unwrap().layer(service_fn(echo));
    for expected in [201, 201, 201, 429] {
        assert_eq!(status(&service, request(&[("x-user", b"user:1")])).await.as_u16(), expected);
    }
    assert_eq!(served.admitted(&json!({ "subject": "user:1" }), 4).await, 3);
    assert_eq!(served.admitted(&json!({ "subject": "tenant:user:1" }), 1).await, 0);
    served.stop().await;
}
