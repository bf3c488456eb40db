//! `/authz`: what forward-auth gateways ask, and whose word counts.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod served;

use http::{Method, StatusCode};
use serde_json::json;
use served::{Answer, Served, settings};
use weir_agent::Agent;
use weir_agent::settings::{AgentSettings, Counters, Forwarded};

const RULES: &str = r#"
domain: default
tiers:
  - { name: free, default: true }
  - { name: paid }
defaults: { algorithm: fixed_window, group: routes, on_failure: { mode: closed } }
rules:
  - { name: expensive, match: { path: "/expensive" }, key: [ip], limits: { "*": { limit: 2, window: 365d } } }
  - { name: cheap, match: { path: "/cheap" }, key: [ip], limits: { "*": { limit: 1000, window: 365d } } }
  - { name: one, match: { path: "/one" }, key: [ip], limits: { "*": { limit: 1, window: 365d } } }
  - { name: post, match: { methods: [POST], path: "/method" }, key: [ip], limits: { "*": { limit: 1, window: 365d } } }
  - { name: host, match: { hosts: [api.example.com], path: "/host" }, key: [ip], limits: { "*": { limit: 1, window: 365d } } }
  - { name: plan, match: { path: "/plan" }, key: [subject], limits: { free: { limit: 1, window: 365d }, paid: { limit: 2, window: 365d } } }
  - { name: never, match: { path: "/never" }, key: [], limits: { "*": { limit: 0, window: 1m } } }
"#;

fn trusting() -> AgentSettings {
    let mut settings = settings(RULES);
    settings.authz.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    settings.authz.client_ip_header = weir_core::client_ip::SourceHeader::XForwardedFor;
    settings
}

async fn ask(served: &Served, headers: &[(&str, &str)]) -> Answer {
    served.send(Method::GET, "/authz?own=query", headers, "").await
}

async fn statuses(served: &Served, headers: &[(&str, &str)], times: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..times {
        statuses.push(ask(served, headers).await.status.as_u16());
    }
    statuses
}

#[tokio::test]
async fn answers_follow_the_status_table_and_carry_headers() {
    let served = Served::start(trusting()).await;
    let one = [("x-forwarded-uri", "/one?x=1"), ("x-forwarded-method", "GET"), ("x-forwarded-for", "203.0.113.1")];
    let passed = ask(&served, &one).await;
    assert_eq!((passed.status, passed.body.len()), (StatusCode::OK, 0));
    assert_eq!((passed.header("x-ratelimit-limit"), passed.header("x-ratelimit-remaining")), (Some("1"), Some("0")));
    assert!(passed.header("ratelimit").is_some() && passed.header("ratelimit-policy").is_some() && passed.header("retry-after").is_none());
    let refused = ask(&served, &one).await;
    assert_eq!((refused.status, refused.header("content-type")), (StatusCode::TOO_MANY_REQUESTS, Some("application/problem+json")));
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!(wait >= 1);
    assert_eq!(refused.header("cache-control"), Some("no-store"));
    assert_eq!(refused.header("ratelimit"), Some(format!("\"one\";r=0;t={wait}").as_str()));
    let body = refused.json();
    assert_eq!((&body["retry-after"], &body["rule"], &body["violated-policies"]), (&json!(wait), &json!("one"), &json!(["one"])));
    let blocked = ask(&served, &[("x-forwarded-uri", "/never")]).await;
    assert_eq!((blocked.status, blocked.header("retry-after")), (StatusCode::FORBIDDEN, None));
    served.stop().await;
}

/// Without its shards a `closed` rule is unavailable, which is not the client's fault.
#[tokio::test]
async fn a_closed_rule_without_shards_is_503() {
    let mut settings = trusting();
    settings.counters = Counters::Shards(Vec::new());
    let served = Served::start(settings).await;
    let answer = ask(&served, &[("x-forwarded-uri", "/one")]).await;
    assert_eq!((answer.status, answer.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, Some("1")));
    served.stop().await;
}

#[tokio::test]
async fn any_method_is_answered_and_never_with_a_redirect() {
    let served = Served::start(trusting()).await;
    for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PURGE"] {
        for path in ["/authz", "/authz?a=//b"] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let answer = served.send(method, path, &[("x-forwarded-uri", "/cheap")], "a body").await;
            assert_eq!(answer.status, StatusCode::OK);
        }
    }
    served.stop().await;
}

/// BB-31: from a peer that is no gateway, forwarding headers say nothing; from a gateway, what the client added is refused or ignored.
#[tokio::test]
async fn bb_31_clients_do_not_choose_what_is_judged() {
    let spoofs: [&[(&str, &str)]; 7] = [
        &[],
        &[("x-original-url", "/cheap"), ("x-forwarded-prefix", "/cheap")],
        &[("x_forwarded_uri", "/cheap"), ("x_forwarded_for", "203.0.113.77")],
        &[("x-forwarded-uri", "/cheap")],
        &[("X-Forwarded-URI", "/cheap")],
        &[("x-original-uri", "/cheap")],
        &[("x-http-method-override", "PUT"), ("forwarded", "for=203.0.113.77")],
    ];
    for (family, gateway) in
        [(Forwarded::Auto, "x-forwarded-uri"), (Forwarded::XForwarded, "x-forwarded-uri"), (Forwarded::XOriginal, "x-original-uri")]
    {
        for spoof in spoofs {
            let mut settings = trusting();
            settings.authz.forwarded = family;
            let served = Served::start(settings).await;
            let headers: Vec<_> =
                [(gateway, "/expensive"), ("x-forwarded-for", "203.0.113.1")].into_iter().chain(spoof.iter().copied()).collect();
            let seen = statuses(&served, &headers, 10).await;
            let passed = seen.iter().filter(|status| **status == 200).count();
            assert!(passed == 2 || seen.iter().all(|status| *status == 400), "{family:?} {spoof:?}: {seen:?}");
            served.stop().await;
        }
    }
    // Straight from a client: the request that is judged is the one it makes.
    let served = Served::start(settings(RULES)).await;
    let headers = [("x-forwarded-uri", "/never"), ("x-forwarded-method", "POST"), ("x-original-uri", "/never")];
    assert_eq!(statuses(&served, &headers, 3).await, [200; 3]);
    served.stop().await;
}

#[tokio::test]
async fn method_and_host_are_those_of_the_original_request() {
    let served = Served::start(trusting()).await;
    let posted = [("x-forwarded-uri", "/method"), ("x-forwarded-method", "POST")];
    assert_eq!(statuses(&served, &posted, 2).await, [200, 429]);
    assert_eq!(ask(&served, &[("x-forwarded-uri", "/method"), ("x-forwarded-method", "GET")]).await.status, StatusCode::OK);
    let hosted = [("x-forwarded-uri", "/host"), ("x-forwarded-host", "API.example.com:8443")];
    assert_eq!(statuses(&served, &hosted, 2).await, [200, 429]);
    assert_eq!(ask(&served, &[("x-forwarded-uri", "/host"), ("x-forwarded-host", "other.example.com")]).await.status, StatusCode::OK);
    let long = format!("/{}", "a".repeat(8 << 10));
    for bad in [
        [("x-forwarded-uri", "/%zz"), ("x-forwarded-method", "GET")],
        [("x-forwarded-uri", "/host"), ("x-forwarded-host", "x@api.example.com")],
        [("x-forwarded-uri", &long), ("x-forwarded-method", "GET")],
    ] {
        assert_eq!(ask(&served, &bad).await.status, StatusCode::BAD_REQUEST, "{bad:.40?}");
    }
    served.stop().await;
}

/// BB-26: the walk goes from the right past trusted hops only; what a client writes in front makes no new client and burns nobody's budget.
#[tokio::test]
async fn bb_26_a_made_up_prefix_changes_nobody() {
    let served = Served::start(trusting()).await;
    let mut seen = Vec::new();
    for i in 0..20 {
        let chain = format!("198.51.100.{i}, 192.0.2.9");
        seen.push(ask(&served, &[("x-forwarded-uri", "/one"), ("x-forwarded-for", &chain)]).await.status.as_u16());
    }
    assert_eq!((seen[0], seen[1..].iter().all(|status| *status == 429)), (200, true), "{seen:?}");
    let two_lines = [("x-forwarded-uri", "/one"), ("x-forwarded-for", "203.0.113.50"), ("x-forwarded-for", "192.0.2.9")];
    assert_eq!(ask(&served, &two_lines).await.status, StatusCode::TOO_MANY_REQUESTS);
    // A victim that was named by another still has its one request.
    let victim = [("x-forwarded-uri", "/one"), ("x-forwarded-for", "203.0.113.50"), ("x-real-ip", "1.1.1.1"), ("forwarded", "for=2.2.2.2")];
    assert_eq!(statuses(&served, &victim, 2).await, [200, 429]);
    // Garbage at the right end stops the walk at the last good hop, the gateway: one bucket, not one per client-chosen entry.
    for (i, status) in [200, 429, 429].into_iter().enumerate() {
        let chain = format!("198.51.100.1{i}, garbage");
        assert_eq!(ask(&served, &[("x-forwarded-uri", "/one"), ("x-forwarded-for", &chain)]).await.status.as_u16(), status);
    }
    served.stop().await;
}

#[tokio::test]
async fn subject_and_tier_come_from_named_headers_only() {
    let served = Served::start(trusting()).await;
    let as_paid =
        |user: &'static str| [("x-forwarded-uri", "/plan"), ("x-user", user), ("x-plan", "paid"), ("x-forwarded-for", "192.0.2.1")];
    // No header is named: the address is the subject, the default tier its tier.
    assert_eq!(statuses(&served, &as_paid("1"), 2).await, [200, 429]);
    assert_eq!(ask(&served, &as_paid("2")).await.status, StatusCode::TOO_MANY_REQUESTS);
    served.stop().await;
    let mut settings = trusting();
    settings.authz.subject_header = Some("x-user".parse().unwrap());
    settings.authz.tier_header = Some("x-plan".parse().unwrap());
    let served = Served::start(settings).await;
    assert_eq!(statuses(&served, &as_paid("1"), 3).await, [200, 200, 429]);
    assert_eq!(ask(&served, &as_paid("2")).await.status, StatusCode::OK);
    let twice = [("x-forwarded-uri", "/plan"), ("x-user", "3"), ("x-user", "4")];
    assert_eq!(ask(&served, &twice).await.status, StatusCode::BAD_REQUEST);
    served.stop().await;
}

/// An agent that would answer each question with 400 does not start.
#[tokio::test]
async fn a_domain_that_is_not_served_is_said_at_the_start() {
    let mut settings = trusting();
    settings.authz.domain = Some("shop".parse().unwrap());
    let error = Agent::start(settings).await.unwrap_err();
    assert_eq!(error.to_string(), "/authz asks about domain shop, but default is served");
}
