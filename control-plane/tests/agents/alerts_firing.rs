//! An alert fires, is told once, signed, to allowed targets only, and resolves.

use std::collections::HashSet;

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use sqlx::PgPool;
use weir_control_plane::alerts::delivery;
use weir_control_plane::alerts::target::AllowList;
use weir_control_plane::alerts::watch::{deliver, look};
use weir_control_plane::alerts::webhook::signature;
use weir_core::clock::SystemClock;
use weir_testbed::{Postgres, await_until};

use super::bed::{Bed, PATIENCE};
use super::events::now;
use super::receiver::Receiver;

const SECRET: &str = "0123456789abcdef";
/// Looks, counted in steps of ten seconds, at which the alert of the first test changes.
const FIRES_AND_RESOLVES: [i64; 2] = [12, 22];
const URL: &str = "https://weir.example";

async fn bed(allow: &[&str]) -> Bed {
    let allow: Vec<String> = allow.iter().map(|entry| (*entry).to_owned()).collect();
    Bed::with(|settings| settings.webhook_allow = allow).await
}

/// Stops the control plane, so that only the test looks and sends; the database stays.
async fn alone(bed: Bed) -> (Postgres, PgPool) {
    let pool = PgPool::connect(bed.settings.database_url.expose_secret()).await.unwrap();
    bed.control_plane.shutdown().await;
    (bed.postgres, pool)
}

async fn create(bed: &Bed, name: &str, url: &str, r#for: &str) -> Value {
    let alert =
        json!({ "name": name, "rule": "search", "denied_share_percent": 20, "for": r#for, "webhook": { "url": url, "secret": SECRET } });
    let answer = bed.admin.send("POST", "/v1/alerts", &[], Some(&alert)).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.body
}

/// Ten seconds of traffic of the rule `search`.
async fn traffic(pool: &PgPool, bucket: i64, allowed: i64, denied: i64) {
    let sql = "INSERT INTO traffic_10s VALUES ($1, 'default', 'search', 'free', 1, 'a', '', $2, $2), ($1, 'default', 'search', 'free', 2, 'a', '', $3, $3)";
    sqlx::query(sql).bind(bucket).bind(allowed).bind(denied).execute(pool).await.unwrap();
}

/// Makes deliveries that wait for their next attempt due now.
async fn hurry(pool: &PgPool) {
    sqlx::query("UPDATE alert_deliveries SET next_attempt = now() WHERE state = 'pending'").execute(pool).await.unwrap();
}

#[tokio::test]
async fn it_fires_after_its_time_is_told_signed_and_resolves() {
    let (receiver, address) = Receiver::start(vec![(500, None)]).await;
    let bed = bed(&[&address.to_string()]).await;
    create(&bed, "too-many", &format!("http://{address}/hook?x=1"), "30s").await;
    let (_postgres, pool) = alone(bed).await;
    let start = now() - now() % 10;
    for i in 0..30 {
        let denied = if (6..18).contains(&i) { 50 } else { 5 };
        traffic(&pool, start + 10 * i, 100, denied).await;
    }
    let mut changes = Vec::new();
    for i in 6..30 {
        if look(&pool, URL, start + 10 * i + 6).await.unwrap() > 0 {
            changes.push(i);
        }
    }
    // The last minute is above 20 % denied from its fourth bad bucket to its fourth last; the alert fires 30 s after the first and resolves at once.
    assert_eq!(changes, FIRES_AND_RESOLVES);

    let allowed: AllowList = address.to_string().parse().unwrap();
    while receiver.calls().len() < 3 {
        hurry(&pool).await;
        deliver(&pool, &allowed, &SystemClock).await.unwrap();
    }
    let calls = receiver.calls();
    let bodies: Vec<Value> = calls.iter().map(|call| serde_json::from_str(&call.body).unwrap()).collect();
    let firing = bodies.iter().find(|body| body["event"] == "firing").unwrap();
    assert!(bodies.iter().any(|body| body["event"] == "resolved"));
    assert_eq!((&firing["rule"], &firing["alert"]), (&json!("search"), &json!("too-many")));
    assert!(firing["link"].as_str().unwrap().starts_with("https://weir.example/?domain=default&rule=search&from=20"), "{firing}");
    assert!(firing["denied_share_percent"].as_f64().unwrap() > 20.0);
    for (call, body) in calls.iter().zip(&bodies) {
        let given = call.headers["weir-signature"].to_str().unwrap();
        let time: i64 = given.strip_prefix("t=").unwrap().split(',').next().unwrap().parse().unwrap();
        assert_eq!(given, signature(SECRET, time, &call.body));
        assert!((now() - time).abs() < 60);
        assert_eq!(call.headers["weir-delivery"].to_str().unwrap(), body["id"]);
    }
    let repeated = calls.iter().filter(|call| call.headers["weir-delivery"] == calls[0].headers["weir-delivery"]);
    assert_eq!(repeated.count(), 2, "the one answered with 500 came again under its id");
    let attempts: Vec<(String, i32)> =
        sqlx::query_as("SELECT state, attempts FROM alert_deliveries ORDER BY attempts").fetch_all(&pool).await.unwrap();
    assert_eq!(attempts, [("delivered".to_owned(), 1), ("delivered".to_owned(), 2)]);
}

#[tokio::test]
async fn the_running_control_plane_does_it_by_itself() {
    let (receiver, address) = Receiver::start(vec![]).await;
    let bed = bed(&[&address.to_string()]).await;
    create(&bed, "now", &format!("http://{address}/"), "10s").await;
    let start = now() - now() % 10 - 60;
    for i in 0..18 {
        traffic(&bed.pool(), start + 10 * i, 1, 9).await;
    }
    let told = await_until(2 * PATIENCE, async || bed.admin.get("/v1/alerts/now").await.body["state"]["delivery"]["state"] == "delivered");
    assert!(told.await, "{}", bed.admin.get("/v1/alerts/now").await.body);
    let state = bed.admin.get("/v1/alerts/now").await.body["state"].clone();
    assert_eq!((&state["firing"], &state["denied_share"]), (&json!(true), &json!(0.9)));
    assert!(state["since"].is_string() && state["last_delivery"].is_string());
    assert_eq!(receiver.calls().len(), 1);
    assert!(receiver.calls()[0].body.contains("\"event\":\"firing\""));
}

/// What came of one delivery to `url`, with this list.
async fn attempt(url: &str, allow: &str) -> String {
    let allowed: AllowList = allow.parse().unwrap();
    let message = weir_control_plane::alerts::webhook::Message { id: uuid::Uuid::nil(), body: "{}", secret: SECRET, time: 1 };
    match weir_control_plane::alerts::webhook::send(&allowed, url, message).await {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn blocked_targets_are_never_contacted() {
    let (receiver, address) = Receiver::start(vec![]).await;
    let port = address.port();
    for (url, allow) in [
        (format!("http://{address}/"), ""),
        (format!("http://localhost:{port}/"), "localhost"),
        (format!("http://localhost:{port}/"), "example.com,10.0.0.0/8"),
        (format!("http://127.0.0.1:{port}/"), "127.0.0.1:1"),
        (format!("http://[::ffff:127.0.0.1]:{port}/"), "example.com"),
        (format!("http://2130706433:{port}/"), "example.com"),
        ("http://169.254.169.254/latest/meta-data".into(), "169.254.169.254:8080"),
        ("http://[::1]/".into(), "::2"),
        (format!("http://localhost:{port}#"), "localhost:80"),
        (format!("http://example.com@127.0.0.1:{port}/"), "example.com"),
    ] {
        let outcome = attempt(&url, allow).await;
        assert!(outcome.starts_with("target "), "{url} with {allow:?}: {outcome}");
    }
    assert!(receiver.calls().is_empty());
    assert_eq!(attempt(&format!("http://localhost:{port}/"), &format!("localhost:{port}")).await, "200");
    assert_eq!(attempt(&format!("http://127.0.0.1:{port}/"), "127.0.0.0/8").await, "200");
    assert_eq!(receiver.calls().len(), 2);
}

#[tokio::test]
async fn redirects_are_not_followed_and_silence_does_not_hang() {
    let (inside, inside_address) = Receiver::start(vec![]).await;
    let location = Some(format!("http://{inside_address}/"));
    let (_outside, address) = Receiver::start(vec![(302, location.clone()), (307, location)]).await;
    let url = format!("http://{address}/");
    for status in ["302", "307"] {
        assert!(attempt(&url, &address.to_string()).await.contains(status));
    }
    assert!(inside.calls().is_empty());
    // It accepts connections and never says a word.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let outcome = attempt(&format!("http://{address}/"), &address.to_string()).await;
    assert!(outcome.contains("no answer within"), "{outcome}");
}

/// A delivery of the alert `a` that is due.
async fn due(pool: &PgPool, attempts: i32) {
    let insert = "INSERT INTO alert_deliveries (id, domain, alert, event, body, attempts) VALUES ($1, 'default', 'a', 'firing', '{}', $2)";
    sqlx::query(insert).bind(uuid::Uuid::now_v7()).bind(attempts).execute(pool).await.unwrap();
}

#[tokio::test]
async fn several_replicas_tell_each_change_once() {
    let (receiver, address) = Receiver::start(vec![]).await;
    let bed = bed(&[&address.to_string()]).await;
    create(&bed, "a", &format!("http://{address}/"), "10s").await;
    let (_postgres, pool) = alone(bed).await;
    for _ in 0..40 {
        due(&pool, 0).await;
    }
    let allowed: AllowList = address.to_string().parse().unwrap();
    let replica = async || while deliver(&pool, &allowed, &SystemClock).await.unwrap() > 0 {};
    tokio::join!(replica(), replica(), replica());
    let ids: Vec<_> = receiver.calls().iter().map(|call| call.headers["weir-delivery"].clone()).collect();
    assert_eq!((ids.len(), ids.into_iter().collect::<HashSet<_>>().len()), (40, 40));
}

#[tokio::test]
async fn a_delivery_is_given_up_in_the_end_and_a_removed_target_is_not_contacted() {
    let (receiver, address) = Receiver::start(vec![(500, None)]).await;
    let bed = bed(&[&address.to_string()]).await;
    create(&bed, "a", &format!("http://{address}/"), "10s").await;
    let (_postgres, pool) = alone(bed).await;
    let state = async || {
        let sql = "SELECT state, last_error FROM alert_deliveries ORDER BY created_at DESC LIMIT 1";
        sqlx::query_as::<_, (String, String)>(sql).fetch_one(&pool).await.unwrap()
    };
    due(&pool, delivery::MAX_ATTEMPTS - 1).await;
    let allowed: AllowList = address.to_string().parse().unwrap();
    assert_eq!(deliver(&pool, &allowed, &SystemClock).await.unwrap(), 1);
    assert_eq!(state().await, ("failed".to_owned(), "the receiver answered 500".to_owned()));
    // The setting changed since the alert was written.
    due(&pool, 0).await;
    assert_eq!(deliver(&pool, &AllowList::default(), &SystemClock).await.unwrap(), 1);
    let (state, error) = state().await;
    assert!(state == "pending" && error.contains("WEIR_WEBHOOK_ALLOW"), "{state} {error}");
    assert_eq!(receiver.calls().len(), 1);
}
