//! Tokens: made once, shown once, gone at once.

use serde_json::json;
use sqlx::{Connection as _, PgConnection};
use weir_control_plane::auth::Role;

use super::bed::Bed;

#[tokio::test]
async fn a_token_is_shown_once_and_works_until_it_is_revoked() {
    let bed = Bed::with_rules().await;
    let made = bed.admin.post("/v1/tokens", &json!({ "name": "ci", "role": "operator", "domains": ["default"] })).await.expect(201).json();
    let secret = made["secret"].as_str().unwrap();
    assert!(secret.starts_with("weir_"));
    bed.admin.post("/v1/tokens", &json!({ "name": "ci", "role": "viewer" })).await.problem(409, "conflict");
    let ci = bed.anybody().with_token(secret);
    ci.get("/v1/rules").await.expect(200);
    let path = format!("/v1/tokens/{}", made["id"].as_str().unwrap());
    let read = bed.admin.get(&path).await.expect(200);
    assert!(read.json()["last_used_at"].is_string() && read.json().get("secret").is_none());
    let listed = bed.admin.get("/v1/tokens").await.expect(200).text;
    let audit = bed.admin.get("/v1/audit?kind=token").await.expect(200).text;
    assert!(!listed.contains(secret) && !audit.contains(secret) && audit.contains("\"ci\""));
    let mut database = PgConnection::connect(&bed.database).await.unwrap();
    let stored: String = sqlx::query_scalar("SELECT string_agg(t::text, ' ') FROM tokens t").fetch_one(&mut database).await.unwrap();
    assert!(!stored.contains(&secret["weir_".len()..]));

    bed.admin.send("DELETE", &path, "").await.expect(204);
    ci.get("/v1/rules").await.problem(401, "unauthorized");
    bed.admin.send("DELETE", &path, "").await.problem(404, "not-found");
    bed.admin.send("DELETE", "/v1/tokens/x", "").await.problem(404, "not-found");
}

#[tokio::test]
async fn tokens_expire() {
    let bed = Bed::start().await;
    let token = bed.token("soon", Some(Role::Viewer), None).await;
    let client = bed.anybody().with_token(&token);
    client.get("/v1/rules").await.expect(200);
    let mut database = PgConnection::connect(&bed.database).await.unwrap();
    sqlx::query("UPDATE tokens SET expires_at = now() - interval '1 second' WHERE name = 'soon'").execute(&mut database).await.unwrap();
    client.get("/v1/rules").await.problem(401, "unauthorized");
    let over = bed.admin.post("/v1/tokens", &json!({ "name": "x", "role": "viewer", "expires_at": "2001-01-01T00:00:00Z" })).await;
    assert_eq!(over.problem(400, "invalid")["errors"][0]["pointer"], "/expires_at");
    let far =
        bed.admin.post("/v1/tokens", &json!({ "name": "x", "role": "viewer", "expires_at": "2999-01-01T00:00:00Z" })).await.expect(201);
    assert_eq!(far.json()["expires_at"], "2999-01-01T00:00:00.000Z");
}

#[tokio::test]
async fn every_mistake_in_a_new_token_is_reported() {
    let bed = Bed::start().await;
    let all = json!({ "name": "a b", "kind": "robot", "role": "king", "domains": ["a", "a", 1], "expires_at": "soon", "sudo": true });
    let problem = bed.admin.post("/v1/tokens", &all).await.problem(400, "invalid");
    let pointers: Vec<&str> = problem["errors"].as_array().unwrap().iter().map(|e| e["pointer"].as_str().unwrap()).collect();
    assert_eq!(pointers, ["/sudo", "/name", "/kind", "/role", "/domains/1", "/domains/2", "/expires_at"]);
    for (body, pointer) in [
        (json!({ "name": "x" }), "/role"),
        (json!({ "name": "x", "kind": "agent", "role": "admin" }), "/role"),
        (json!({ "name": "x", "role": "viewer", "domains": [] }), "/domains"),
        (json!({ "role": "viewer" }), "/name"),
        (json!(["x"]), ""),
    ] {
        let problem = bed.admin.post("/v1/tokens", &body).await.problem(400, "invalid");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}");
    }
}
