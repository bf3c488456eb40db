//! The dashboard's sign-in.

use serde_json::json;
use sqlx::{Connection as _, PgConnection};
use weir_control_plane::auth::Role;
use weir_control_plane::auth::attempts::PER_ADDRESS;
use weir_control_plane::{ControlPlane, Settings};
use weir_testbed::Postgres;

use super::bed::{Bed, rule};
use super::client::{Answer, Client};

fn with_cookie(client: &Client, answer: &Answer) -> Client {
    client.with("cookie", answer.header("set-cookie").split(';').next().unwrap())
}

#[tokio::test]
async fn a_sign_in_link_is_good_for_one_session() {
    let bed = Bed::with_rules().await;
    let url = bed.plane.sign_in_link().await.unwrap();
    let (page, code) = url.split_once("#code=").unwrap();
    assert_eq!(page, format!("http://{}/sign-in", bed.plane.http_addr()));
    let signed_in = bed.anybody().post("/v1/session", &json!({ "code": code })).await.expect(200);
    assert_eq!(signed_in.json()["role"], "admin");
    let cookie = signed_in.header("set-cookie");
    assert!(cookie.contains("; HttpOnly; SameSite=Strict; Path=/; Max-Age=") && !cookie.contains("Secure"), "{cookie}");
    bed.anybody().post("/v1/session", &json!({ "code": code })).await.problem(401, "unauthorized");

    // Reads need the cookie; writes need to come from our own page.
    let browser = with_cookie(&bed.anybody(), &signed_in);
    browser.get("/v1/session").await.expect(200);
    browser.get("/v1/rules").await.expect(200);
    browser.post("/v1/rules", &rule("x")).await.problem(403, "forbidden");
    browser.with("sec-fetch-site", "cross-site").post("/v1/rules", &rule("x")).await.problem(403, "forbidden");
    browser.with("origin", "http://evil.example").post("/v1/rules", &rule("x")).await.problem(403, "forbidden");
    let own = browser.with("origin", &format!("http://{}", bed.plane.http_addr()));
    own.post("/v1/rules", &rule("x")).await.expect(201);
    let link = browser.with("sec-fetch-site", "same-origin").send("POST", "/v1/sign-in-links", "").await.expect(201).json();
    assert!(link["url"].as_str().unwrap().contains("/sign-in#code=") && link["expires_at"].is_string());

    browser.send("DELETE", "/v1/session", "").await.problem(403, "forbidden");
    let out = own.send("DELETE", "/v1/session", "").await.expect(204);
    assert!(out.header("set-cookie").contains("Max-Age=0"));
    browser.get("/v1/rules").await.problem(401, "unauthorized");
    bed.anybody().get("/v1/session").await.problem(401, "unauthorized");
}

#[tokio::test]
async fn a_session_ends_with_its_token_and_in_time() {
    let bed = Bed::with_rules().await;
    let token = bed.token("dora", Some(Role::Viewer), Some(&["default"])).await;
    let signed_in = bed.anybody().post("/v1/session", &json!({ "token": token })).await.expect(200);
    assert_eq!(signed_in.json(), json!({ "name": "dora", "role": "viewer", "domains": ["default"] }));
    let browser = with_cookie(&bed.anybody(), &signed_in).with("sec-fetch-site", "same-origin");
    browser.get("/v1/rules").await.expect(200);
    browser.post("/v1/rules", &rule("x")).await.problem(403, "forbidden");
    let mut database = PgConnection::connect(&bed.database).await.unwrap();
    sqlx::query("UPDATE sessions SET expires_at = now()").execute(&mut database).await.unwrap();
    browser.get("/v1/rules").await.problem(401, "unauthorized");
    let again = bed.anybody().post("/v1/session", &json!({ "token": token })).await.expect(200);
    let browser = with_cookie(&bed.anybody(), &again);
    browser.get("/v1/rules").await.expect(200);
    sqlx::query("DELETE FROM tokens WHERE name = 'dora'").execute(&mut database).await.unwrap();
    browser.get("/v1/rules").await.problem(401, "unauthorized");
}

#[tokio::test]
async fn failed_sign_ins_are_limited_and_good_tokens_are_not() {
    let bed = Bed::with_rules().await;
    let (good, agent) = (bed.token("good", Some(Role::Viewer), None).await, bed.token("agent", None, None).await);
    for body in [json!({}), json!({ "code": 1 }), json!({ "code": "a", "token": "b" }), json!([]), json!({ "password": "x" })] {
        bed.anybody().post("/v1/session", &body).await.problem(400, "invalid");
    }
    bed.anybody().with("origin", "http://evil.example").post("/v1/session", &json!({ "token": good })).await.problem(403, "forbidden");
    bed.anybody().post("/v1/session", &json!({ "token": agent })).await.problem(401, "unauthorized");
    for _ in 1..PER_ADDRESS {
        bed.anybody().post("/v1/session", &json!({ "code": "guess" })).await.problem(401, "unauthorized");
    }
    let limited = bed.anybody().post("/v1/session", &json!({ "code": "guess" })).await;
    assert!(limited.header("retry-after").parse::<u32>().unwrap() > 0);
    limited.problem(429, "too-many-attempts");
    // The right code is right whatever else was tried from here; so is a good token.
    let right = bed.plane.sign_in_link().await.unwrap().split_once('=').unwrap().1.to_owned();
    bed.anybody().post("/v1/session", &json!({ "code": right })).await.expect(200);
    bed.anybody().post("/v1/session", &json!({ "code": right })).await.problem(429, "too-many-attempts");
    for _ in 0..PER_ADDRESS {
        bed.anybody().with_token("weir_wrong").get("/v1/rules").await.problem(401, "unauthorized");
        bed.anybody().with("cookie", "weir_session=old").get("/v1/rules").await.problem(401, "unauthorized");
    }
    bed.anybody().with_token("weir_wrong").get("/v1/rules").await.problem(429, "too-many-attempts");
    bed.anybody().with_token(&good).get("/v1/rules").await.expect(200);
}

#[tokio::test]
async fn behind_a_trusted_proxy_clients_are_told_apart() {
    let postgres = Postgres::temporary().await.unwrap();
    let database = postgres.create_database("weir").await.unwrap();
    for (trusted, others) in [(vec![], 429), (vec!["127.0.0.1/32".parse().unwrap()], 401)] {
        let plane = ControlPlane::start(Settings { trusted_proxies: trusted, ..Settings::new(&database) }).await.unwrap();
        let client = Client::new(plane.http_addr());
        let guess =
            async |from: &str| client.with("x-forwarded-for", from).post("/v1/session", &json!({ "code": "guess" })).await.status.as_u16();
        for _ in 0..PER_ADDRESS {
            assert_eq!(guess("192.0.2.1").await, 401);
        }
        assert_eq!(guess("192.0.2.1").await, 429);
        assert_eq!(guess("192.0.2.2").await, others);
        plane.shutdown().await;
    }
}

#[tokio::test]
async fn a_session_from_a_link_cannot_prolong_itself_by_links() {
    let bed = Bed::start().await;
    let sign_in =
        async |url: String| bed.anybody().post("/v1/session", &json!({ "code": url.split_once('=').unwrap().1 })).await.expect(200);
    let first = sign_in(bed.plane.sign_in_link().await.unwrap()).await;
    let mut database = PgConnection::connect(&bed.database).await.unwrap();
    sqlx::query("UPDATE sessions SET expires_at = now() + interval '1 hour'").execute(&mut database).await.unwrap();
    let browser = with_cookie(&bed.anybody(), &first).with("sec-fetch-site", "same-origin");
    let link = browser.post("/v1/sign-in-links", &json!({})).await.expect(201).json()["url"].as_str().unwrap().to_owned();
    sign_in(link).await;
    let ends: i64 = sqlx::query_scalar("SELECT count(DISTINCT expires_at) FROM sessions").fetch_one(&mut database).await.unwrap();
    assert_eq!(ends, 1, "both end together");
}
