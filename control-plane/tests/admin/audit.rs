//! Every change leaves its entry, conditions hold on every kind of document, and no secret is ever shown.

use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};
use weir_control_plane::auth::Role;

use super::bed::{Bed, rule, rules};
use super::client::Answer;

/// That a change went well, and that the newest entry tells of it.
async fn told(bed: &Bed, done: Answer, kind: &str, name: &str, action: &str) {
    assert!(done.status.is_success(), "{action} {kind} {name}: {}", done.text);
    let entry = bed.admin.get("/v1/audit?page_size=1").await.expect(200).json()["items"][0].take();
    let told = ["kind", "name", "action", "author"].map(|field| entry[field].as_str().unwrap_or_default().to_owned());
    assert_eq!(told, [kind, name, action, "carol"], "{entry}");
    assert_eq!((entry["before"].is_null(), entry["after"].is_null()), (action == "create", action == "delete"), "{entry}");
}

#[tokio::test]
async fn every_change_is_in_the_audit() {
    let bed = Bed::with_rules().await;
    let carol = bed.client("carol", Some(Role::Admin), None).await;
    let url = |path: &str| path.to_owned();

    let kinds: [(&str, String, Value, Value); 4] = [
        ("domain", url("/v1/domains"), json!({ "name": "x" }), json!({ "name": "x", "mode": "off" })),
        (
            "tier",
            url("/v1/tiers?domain=x"),
            json!({ "name": "x", "default": true }),
            json!({ "name": "x", "default": true, "description": "y" }),
        ),
        ("rule", url("/v1/rules?domain=x"), rule("x"), {
            let mut changed = rule("x");
            changed["mode"] = json!("shadow");
            changed
        }),
        ("shard", url("/v1/shards"), json!({ "name": "x", "address": "/x" }), json!({ "name": "x", "address": "/x", "weight": 2 })),
    ];
    let one = |list: &str| list.split_once('?').map_or_else(|| format!("{list}/x"), |(path, query)| format!("{path}/x?{query}"));
    for (kind, list, made, changed) in &kinds {
        told(&bed, carol.post(list, made).await, kind, "x", "create").await;
        told(&bed, carol.put(&one(list), "*", changed).await, kind, "x", "update").await;
    }
    // The last shard would stay.
    bed.admin.post("/v1/shards", &json!({ "name": "other", "address": "/other" })).await.expect(201);
    // A domain goes when its rules have; its tier goes first, so that the last entry is the domain's own.
    for kind in ["shard", "rule", "tier", "domain"] {
        let (_, list, ..) = kinds.iter().find(|(own, ..)| *own == kind).unwrap();
        told(&bed, carol.delete(&one(list), "*").await, kind, "x", "delete").await;
    }

    told(&bed, carol.post("/v1/apply", &json!({ "rules": [rule("applied")] })).await, "rule", "applied", "create").await;
    told(&bed, carol.send("POST", "/v1/revisions/1/rollback", "").await, "rule", "applied", "delete").await;

    let made = carol.post("/v1/tokens", &json!({ "name": "robot", "role": "viewer" })).await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    told(&bed, made, "token", "robot", "create").await;
    told(&bed, carol.send("DELETE", &format!("/v1/tokens/{id}"), "").await, "token", "robot", "delete").await;

    let mut database = PgConnection::connect(&bed.database).await.unwrap();
    sqlx::query("INSERT INTO agents (name) VALUES ('gone')").execute(&mut database).await.unwrap();
    told(&bed, carol.send("DELETE", "/v1/agents/gone", "").await, "agent", "gone", "delete").await;

    // What changes nothing, and what is refused, leaves none.
    let entries = async || bed.admin.get("/v1/audit?page_size=500").await.json()["items"].as_array().unwrap().len();
    let before = entries().await;
    carol.post("/v1/apply", &rules()).await.expect(200);
    carol.post("/v1/rules", &rule("search")).await.problem(409, "conflict");
    assert_eq!(entries().await, before);
}

#[tokio::test]
async fn conditions_hold_on_tiers_domains_and_shards() {
    let bed = Bed::with_rules().await;
    bed.admin.post("/v1/domains", &json!({ "name": "shop" })).await.expect(201);
    bed.admin.post("/v1/shards", &json!({ "name": "s", "address": "/s" })).await.expect(201);
    for (path, field, value) in [
        ("/v1/tiers/paid", "description", json!("changed")),
        ("/v1/domains/shop", "mode", json!("shadow")),
        ("/v1/shards/s", "weight", json!(7)),
    ] {
        let read = bed.admin.get(path).await.expect(200);
        let mut document = read.json();
        document[field] = value.clone();
        bed.admin.json("PUT", path, &document).await.problem(428, "if-match-needed");
        bed.admin.put(path, "\"0\"", &document).await.problem(412, "changed");
        assert_ne!(bed.admin.get(path).await.json()[field], value, "{path}: nothing was stored");
        let replaced = bed.admin.put(path, &read.etag(), &document).await.expect(200);
        assert_eq!((&replaced.json()[field], replaced.etag() == read.etag()), (&value, false), "{path}");
        bed.admin.put(path, &read.etag(), &document).await.problem(412, "changed");
        bed.admin.send("DELETE", path, "").await.problem(428, "if-match-needed");
        bed.admin.delete(path, &read.etag()).await.problem(412, "changed");
        bed.admin.get(path).await.expect(200);
    }
}
