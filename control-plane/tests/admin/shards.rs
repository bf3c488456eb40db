//! The ring and its credentials.

use serde_json::json;
use sqlx::{Connection as _, PgConnection};

use super::bed::Bed;

#[tokio::test]
async fn credentials_are_taken_and_never_shown() {
    let bed = Bed::start().await;
    let shard = json!({ "name": "s1", "address": "redis://127.0.0.1:6379", "username": "weir", "password": "hunter2-hunter2" });
    let created = bed.admin.post("/v1/shards", &shard).await.expect(201);
    assert_eq!(created.json()["has_password"], true);
    assert_eq!(created.json()["username"], "weir");
    let mut seen = vec![created.text.clone()];

    // Left out, the password stays; a new one is a new version; null removes it.
    let mut document = created.json();
    document["weight"] = json!(2);
    let heavier = bed.admin.put("/v1/shards/s1", &created.etag(), &document).await.expect(200);
    assert_eq!((&heavier.json()["has_password"], &heavier.json()["weight"]), (&json!(true), &json!(2)));
    document["password"] = json!("hunter2-again");
    let renewed = bed.admin.put("/v1/shards/s1", &heavier.etag(), &document).await.expect(200);
    assert_ne!(renewed.etag(), heavier.etag(), "somebody who saw the version before must not overwrite it");
    seen.extend([heavier.text, renewed.text]);
    let mut database = PgConnection::connect(&bed.database).await.unwrap();
    let stored = weir_control_plane::db::secret::credentials(&mut database).await.unwrap();
    assert_eq!((stored[0].username.as_deref(), stored[0].password.as_deref()), (Some("weir"), Some("hunter2-again")));
    document["password"] = json!(null);
    assert_eq!(bed.admin.put("/v1/shards/s1", "*", &document).await.expect(200).json()["has_password"], false);

    for path in ["/v1/shards", "/v1/shards/s1", "/v1/audit", "/v1/revisions?domain=default"] {
        seen.push(bed.admin.get(path).await.expect(200).text);
    }
    for table in ["documents", "audit", "items", "revisions"] {
        let sql = format!(
            "SELECT coalesce(string_agg(t::text, ' '), '') || coalesce((SELECT string_agg(convert_from(body, 'UTF8'), ' ') FROM items), '') FROM {table} t"
        );
        seen.push(sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&mut database).await.unwrap());
    }
    assert!(seen.iter().all(|text| !text.contains("hunter2")), "{seen:?}");
    assert!(seen.iter().any(|text| text.contains("redis://127.0.0.1:6379")));
}

#[tokio::test]
async fn the_last_shard_stays_while_rules_count_on_it() {
    let bed = Bed::with_rules().await;
    for name in ["a", "b"] {
        bed.admin.post("/v1/shards", &json!({ "name": name, "address": "/run/redis.sock" })).await.expect(201);
    }
    bed.admin.post("/v1/shards", &json!({ "name": "a", "address": "/run/redis.sock" })).await.problem(409, "conflict");
    bed.admin.delete("/v1/shards/a", "\"0\"").await.problem(412, "changed");
    bed.admin.delete("/v1/shards/a", "*").await.expect(204);
    let used = bed.admin.delete("/v1/shards/b", "*").await.problem(409, "in-use");
    assert_eq!(used["used_by"].as_array().unwrap().len(), 3);
    for rule in ["per-user", "search", "upload"] {
        bed.admin.delete(&format!("/v1/rules/{rule}"), "*").await.expect(204);
    }
    bed.admin.delete("/v1/shards/b", "*").await.expect(204);
    bed.admin.get("/v1/shards/b").await.problem(404, "not-found");
}

#[tokio::test]
async fn a_password_does_not_follow_to_another_address() {
    let bed = Bed::start().await;
    let shard = json!({ "name": "s1", "address": "redis://127.0.0.1:6379", "username": "weir", "password": "hunter2-hunter2" });
    bed.admin.post("/v1/shards", &shard).await.expect(201);
    let mut moved = json!({ "name": "s1", "address": "redis://192.0.2.1:6379", "username": "weir" });
    let problem = bed.admin.put("/v1/shards/s1", "*", &moved).await.problem(400, "invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/password");
    moved["password"] = json!("hunter2-hunter2");
    assert_eq!(bed.admin.put("/v1/shards/s1", "*", &moved).await.expect(200).json()["has_password"], true);
    moved["address"] = json!("redis://192.0.2.2:6379");
    moved["password"] = json!(null);
    assert_eq!(bed.admin.put("/v1/shards/s1", "*", &moved).await.expect(200).json()["has_password"], false);
    // Without a password there is nothing to keep.
    let bare = json!({ "name": "s1", "address": "redis://192.0.2.3:6379" });
    bed.admin.put("/v1/shards/s1", "*", &bare).await.expect(200);
}

#[tokio::test]
async fn a_ring_that_agents_would_refuse_is_not_published() {
    let bed = Bed::start().await;
    for (field, value) in [
        ("address", json!("redis://0.0.0.0:1")),
        ("address", json!("redis://[::]:1")),
        ("address", json!("/sock?pass=hunter2")),
        ("weight", json!(101)),
    ] {
        let mut shard = json!({ "name": "s", "address": "redis://127.0.0.1:1" });
        shard[field] = value;
        let problem = bed.admin.post("/v1/shards", &shard).await.problem(400, "invalid");
        assert_eq!(problem["errors"][0]["pointer"], format!("/{field}"), "{problem}");
        assert!(!problem.to_string().contains("hunter2"), "{problem}");
    }
    bed.admin.post("/v1/shards", &json!({ "name": "s", "address": "/s", "weight": 100 })).await.expect(201);
    let mut database = PgConnection::connect(&bed.database).await.unwrap();
    let many = "INSERT INTO documents (domain, kind, name, body, revision, updated_by) \
                SELECT '', 'shard', 's' || i, json_build_object('name', 's' || i, 'address', '/s', 'weight', 1), 1, 'test' FROM generate_series(2, 1000) i";
    sqlx::query(many).execute(&mut database).await.unwrap();
    bed.admin.post("/v1/shards", &json!({ "name": "one-more", "address": "/s" })).await.problem(409, "conflict");
    bed.admin.put("/v1/shards/s", "*", &json!({ "name": "s", "address": "/s" })).await.expect(200);
}
