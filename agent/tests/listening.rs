//! Where an agent listens, and for whom.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod served;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::Duration;

use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::json;
use served::{PATIENCE, Served, settings, until};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use weir_agent::Agent;
use weir_agent::limiter::ShardConfig;
use weir_agent::settings::{Counters, ListenSettings, Permission, Permissions};
use weir_agent::transport::listen::{ListenError, Listeners};
use weir_agent::transport::serve::serve;
use weir_testbed::{Flavor, Redis};

const RULES: &str = r#"
domain: default
tiers: [{ name: free, default: true }]
rules:
  - { name: all, key: [subject], limits: { "*": { limit: 100, window: 1h } } }
"#;

#[tokio::test]
async fn beyond_loopback_a_token_is_needed() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let settings = ListenSettings { tcp: Some(address.parse().unwrap()), ..ListenSettings::default() };
        assert!(matches!(Listeners::open(&settings).await, Err(ListenError::NoToken(_))), "{address}");
    }
}

/// Whoever may refund or reset can lift any limit: not for everybody on the machine.
#[tokio::test]
async fn operations_beyond_the_usual_need_a_token_or_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let refused = async |settings: ListenSettings| Listeners::open(&settings).await.unwrap_err().to_string();
    let tcp = Some("127.0.0.1:0".parse().unwrap());
    let all = Permissions::all();
    let error = refused(ListenSettings { tcp, tcp_operations: all, ..ListenSettings::default() }).await;
    assert!(error.starts_with("tcp_operations needs a listen token"), "{error}");
    let error = refused(ListenSettings { tcp_operations: all, token: Some("t".into()), ..ListenSettings::default() }).await;
    assert_eq!(error, "tcp_operations is set, but nothing listens there: set listen too");
    let error = refused(ListenSettings { tcp, socket_operations: all, ..ListenSettings::default() }).await;
    assert_eq!(error, "socket_operations is set, but nothing listens there: set socket too");
    let error = refused(ListenSettings { tcp, socket_group: Some("0".into()), ..ListenSettings::default() }).await;
    assert_eq!(error, "socket_group is set, but nothing listens there: set socket too");
    let unix = Some(folder.path().join("a.sock"));
    let group = Some("no such group".to_owned());
    let error = refused(ListenSettings { unix: unix.clone(), socket_group: group, ..ListenSettings::default() }).await;
    assert!(error.ends_with("socket_group: there is no group \"no such group\""), "{error}");
    Listeners::open(&ListenSettings { tcp, tcp_operations: all, token: Some("t".into()), ..ListenSettings::default() }).await.unwrap();
    Listeners::open(&ListenSettings { unix, socket_operations: all, ..ListenSettings::default() }).await.unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

/// The socket is given to a group that the process belongs to, by number or by name.
#[tokio::test]
async fn a_unix_socket_is_given_to_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let own = std::fs::metadata(folder.path()).unwrap().gid();
    // Root may give to any group, others only to their own.
    let group = if std::fs::metadata("/proc/self").unwrap().uid() == 0 { own + 1 } else { own };
    let listen = ListenSettings { unix: Some(path.clone()), socket_group: Some(group.to_string()), ..ListenSettings::default() };
    let _listeners = Listeners::open(&listen).await.unwrap();
    let found = std::fs::metadata(&path).unwrap();
    assert_eq!((found.gid(), found.permissions().mode() & 0o777), (group, 0o660));
}

/// What a listener does not accept is refused with the way to change that, never ignored.
#[tokio::test]
async fn limits_of_a_question_are_accepted_only_where_they_are_permitted() {
    let question = json!({ "subject": "s", "limits": { "all": { "limit": 1, "window": "1h" } } });
    let served = Served::start(settings(RULES)).await;
    let answer = served.check(&question).await;
    assert_eq!((answer.status, answer.header("content-type")), (StatusCode::FORBIDDEN, Some("application/problem+json")));
    assert_eq!(
        answer.json()["detail"],
        "the field limits is not accepted by this listener; to allow it, name limits in WEIR_AGENT_TCP_OPERATIONS, and give the listener a token"
    );
    served.stop().await;

    let mut permitting = settings(RULES);
    permitting.listen.token = Some("s3cret".into());
    permitting.listen.tcp_operations = [Permission::Limits].into_iter().collect();
    let served = Served::start(permitting).await;
    let headers = [("content-type", "application/json"), ("authorization", "Bearer s3cret")];
    let ask = async || served.send(Method::POST, "/v1/check", &headers, question.to_string()).await.json();
    let first = ask().await;
    assert_eq!((&first["limit"], &first["remaining"], &first["limits"][0]["source"]), (&json!(1), &json!(0), &json!("override")));
    assert_eq!(ask().await["allowed"], false);
    served.stop().await;
}

#[tokio::test]
async fn a_listener_with_a_token_answers_only_health_without_it() {
    let mut settings = settings(RULES);
    settings.listen.token = Some("s3cret".into());
    let served = Served::start(settings).await;
    for path in ["/metrics", "/authz", "/v1/check", "/nowhere"] {
        for header in [None, Some("s3cret"), Some("Bearer wrong"), Some("Bearer s3cret2"), Some("Basic s3cret"), Some("Bearer ")] {
            let headers: Vec<_> = header.map(|value| ("authorization", value)).into_iter().collect();
            let answer = served.send(Method::GET, path, &headers, "").await;
            assert_eq!((answer.status, answer.header("www-authenticate")), (StatusCode::UNAUTHORIZED, Some("Bearer")), "{path} {header:?}");
        }
    }
    for path in ["/livez", "/readyz"] {
        assert_eq!(served.get(path).await.status, StatusCode::OK);
    }
    let answer = served.send(Method::GET, "/authz", &[("authorization", "bearer s3cret")], "").await;
    assert_eq!(answer.status, StatusCode::OK);
    served.stop().await;
}

#[tokio::test]
async fn a_unix_socket_has_its_mode_replaces_a_stale_one_and_goes_with_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    // A crash leaves its socket behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let listen = ListenSettings { unix: Some(path.clone()), ..ListenSettings::default() };
    let listeners = Listeners::open(&listen).await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    assert!(matches!(Listeners::open(&listen).await, Err(ListenError::Unix(..))), "another agent serves it");
    let mut settings = settings(RULES);
    settings.authz.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let agent = Agent::start(settings).await.unwrap();
    let drain = CancellationToken::new();
    let serving = tokio::spawn(serve(listeners, agent.router(), drain.clone(), PATIENCE));
    let stream = UnixStream::connect(&path).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    // Two requests on one connection; callers on the socket count as 127.0.0.1.
    for remaining in ["99", "98"] {
        let request = http::Request::get("/authz").header("host", "x").header("x-forwarded-for", "203.0.113.5");
        let response = sender.send_request(request.body(Full::<bytes::Bytes>::default()).unwrap()).await.unwrap();
        assert_eq!(response.headers()["x-ratelimit-remaining"], remaining);
        response.into_body().collect().await.unwrap();
    }
    drain.cancel();
    tokio::time::timeout(PATIENCE, serving).await.unwrap().unwrap();
    assert!(!path.exists());
    agent.shutdown().await;
    std::fs::write(&path, "a file of somebody's").unwrap();
    assert!(matches!(Listeners::open(&listen).await, Err(ListenError::Unix(..))));
    assert!(path.exists());
}

/// A request that hangs on a shard while the agent stops is still answered, and the agent waits for it.
#[tokio::test]
async fn requests_in_flight_are_finished_before_the_listener_closes() {
    let redis = Redis::temporary(Flavor::available().unwrap()).await.unwrap();
    let mut settings = settings(RULES);
    let shard = ShardConfig::new("s1".parse().unwrap(), redis.url().parse().unwrap());
    settings.counters = Counters::Shards(vec![shard]);
    settings.budget = Duration::from_millis(1_500);
    let served = Served::start(settings).await;
    assert_eq!(served.get("/authz").await.status, StatusCode::OK);
    redis.pause().await;
    let request = hyper::Request::get(format!("http://{}/authz", served.address)).body(Full::<bytes::Bytes>::default()).unwrap();
    let hanging = tokio::spawn(served.client.request(request));
    until("a call that hangs", async || {
        let metrics = served.agent.metrics_text();
        metrics.contains("weir_shard_calls_in_flight{shard=\"s1\"} 1").then_some(())
    })
    .await;
    let address = served.address;
    assert!(!hanging.is_finished());
    served.stop().await;
    // The rule counts here while its shard is away.
    let answer = tokio::time::timeout(PATIENCE, hanging).await.unwrap().unwrap().unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    redis.resume().await;
}
