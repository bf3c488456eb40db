//! Domains, tiers and rules: the life of a document.

use serde_json::{Value, json};
use weir_control_plane::auth::Role;

use super::bed::{Bed, rule};

#[tokio::test]
async fn a_rule_is_created_read_replaced_and_deleted() {
    let bed = Bed::with_rules().await;
    let carol = bed.client("carol", Some(Role::Operator), None).await;
    let created = carol.post("/v1/rules", &rule("login")).await.expect(201);
    assert_eq!(created.header("location"), "/v1/rules/login?domain=default");
    assert_eq!(created.header("weir-revision"), bed.revision().await.to_string());
    let read = carol.get(created.header("location")).await.expect(200);
    assert_eq!(read.etag(), created.etag());
    let mut document = read.json();
    assert_eq!(document["meta"]["etag"], read.etag());
    assert_eq!(document["meta"]["updated_by"], "carol");
    assert_eq!(document["meta"]["domain"], "default");
    assert_eq!(document["limits"]["*"]["limit"], 50);

    // What was read can be sent back, changed, with its meta.
    document["limits"]["*"]["limit"] = json!(60);
    carol.json("PUT", "/v1/rules/login", &document).await.problem(428, "if-match-needed");
    let replaced = carol.put("/v1/rules/login", &read.etag(), &document).await.expect(200);
    assert_ne!(replaced.etag(), read.etag());
    assert_eq!(replaced.json()["limits"]["*"]["limit"], 60);
    let stale = carol.put("/v1/rules/login", &read.etag(), &document).await.problem(412, "changed");
    assert!(stale["detail"].as_str().unwrap().contains(&replaced.etag()), "{stale}");
    carol.delete("/v1/rules/login", &read.etag()).await.problem(412, "changed");

    // The same again: nothing is published.
    let revision = bed.revision().await;
    let same = carol.put("/v1/rules/login", "*", &document).await.expect(200);
    assert_eq!((same.etag(), bed.revision().await), (replaced.etag(), revision));

    carol.send("DELETE", "/v1/rules/login", "").await.problem(428, "if-match-needed");
    let deleted = carol.delete("/v1/rules/login", &replaced.etag()).await.expect(204);
    assert_eq!(deleted.header("weir-revision"), (revision + 1).to_string());
    assert!(deleted.text.is_empty());
    carol.get("/v1/rules/login").await.problem(404, "not-found");
    carol.delete("/v1/rules/login", "*").await.problem(404, "not-found");
    carol.put("/v1/rules/login", "*", &document).await.problem(404, "not-found");

    let audit = bed.admin.get("/v1/audit?kind=rule&name=login").await.expect(200).json();
    let entries: Vec<(&str, &str)> =
        audit["items"].as_array().unwrap().iter().map(|e| (e["action"].as_str().unwrap(), e["author"].as_str().unwrap())).collect();
    assert_eq!(entries, [("delete", "carol"), ("update", "carol"), ("create", "carol")]);
    assert_eq!(audit["items"][1]["before"]["limits"]["*"]["limit"], 50);
    assert_eq!(audit["items"][1]["after"]["limits"]["*"]["limit"], 60);
    assert_eq!(audit["items"][2]["before"], Value::Null);
}

#[tokio::test]
async fn names_are_unique_and_nothing_is_renamed() {
    let bed = Bed::with_rules().await;
    for (path, document) in
        [("/v1/rules", rule("search")), ("/v1/tiers", json!({ "name": "free" })), ("/v1/domains", json!({ "name": "default" }))]
    {
        bed.admin.post(path, &document).await.problem(409, "conflict");
    }
    let renamed = bed.admin.put("/v1/rules/search", "*", &rule("find")).await.problem(400, "invalid");
    assert_eq!(renamed["errors"][0]["pointer"], "/name");
}

#[tokio::test]
async fn validate_only_stores_nothing() {
    let bed = Bed::with_rules().await;
    let before = bed.admin.get("/v1/export").await.json();
    let (revision, audit) = (bed.revision().await, bed.admin.get("/v1/audit").await.json());
    bed.admin.post("/v1/rules?validate_only=true", &rule("x")).await.expect(200);
    bed.admin.put("/v1/rules/search?validate_only=true", "*", &rule("search")).await.expect(200);
    bed.admin.delete("/v1/rules/search?validate_only=true", "*").await.expect(204);
    bed.admin.post("/v1/tiers?validate_only=true", &json!({ "name": "x" })).await.problem(400, "invalid");
    bed.admin.post("/v1/domains?validate_only=true", &json!({ "name": "x" })).await.expect(200);
    bed.admin
        .post("/v1/apply?validate_only=true&prune=true", &json!({ "domain": "default", "tiers": [{ "name": "free", "default": true }] }))
        .await
        .expect(200);
    bed.admin.post("/v1/shards?validate_only=true", &json!({ "name": "x", "address": "redis://127.0.0.1:1" })).await.expect(200);
    bed.admin.post("/v1/tokens?validate_only=true", &json!({ "name": "x", "role": "viewer" })).await.expect(200);
    let rolled_back = bed.admin.post(&format!("/v1/revisions/{revision}/rollback?validate_only=true"), &json!({})).await.expect(200).json();
    assert_eq!(rolled_back["changes"], json!([]));
    assert_eq!(bed.admin.get("/v1/export").await.json(), before);
    assert_eq!(bed.revision().await, revision);
    assert_eq!(bed.admin.get("/v1/audit").await.json(), audit);
    assert_eq!(bed.admin.get("/v1/shards").await.json()["items"], json!([]));
    bed.admin.get("/v1/domains/x").await.problem(404, "not-found");
    // What would be refused is refused here too.
    bed.admin.post("/v1/rules?validate_only=true", &rule("search")).await.problem(409, "conflict");
}

#[tokio::test]
async fn the_default_tier_moves_and_never_goes() {
    let bed = Bed::with_rules().await;
    let default_tiers = async || {
        let tiers = bed.admin.get("/v1/tiers").await.expect(200).json();
        let defaults = tiers["items"].as_array().unwrap().iter().filter(|t| t["default"] == true);
        defaults.map(|t| t["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(default_tiers().await, ["free"]);
    let unset = bed.admin.put("/v1/tiers/free", "*", &json!({ "name": "free" })).await.problem(400, "invalid");
    assert_eq!(unset["errors"][0]["pointer"], "/default");
    bed.admin.put("/v1/tiers/paid", "*", &json!({ "name": "paid", "default": true })).await.expect(200);
    assert_eq!(default_tiers().await, ["paid"]);
    let used = bed.admin.delete("/v1/tiers/free", "*").await.problem(409, "in-use");
    assert_eq!(used["used_by"], json!([{ "kind": "rule", "domain": "default", "name": "per-user" }]));
    let mut per_user = bed.admin.get("/v1/rules/per-user").await.json();
    per_user["limits"] = json!({ "*": { "limit": 1, "window": "1s" } });
    bed.admin.put("/v1/rules/per-user", "*", &per_user).await.expect(200);
    bed.admin.delete("/v1/tiers/paid", "*").await.problem(409, "conflict");
    bed.admin.delete("/v1/tiers/free", "*").await.expect(204);
    bed.admin.delete("/v1/tiers/paid", "*").await.expect(204);
}

#[tokio::test]
async fn a_tier_that_leaves_a_rule_without_a_limit_is_refused_by_name() {
    let bed = Bed::with_rules().await;
    let problem = bed.admin.post("/v1/tiers", &json!({ "name": "gold" })).await.problem(400, "invalid");
    assert!(problem.to_string().contains("per-user") && problem.to_string().contains("gold"), "{problem}");
    let mut unknown = rule("gold-only");
    unknown["limits"] = json!({ "*": { "limit": 1, "window": "1s" }, "gold": { "limit": 1, "window": "1s" } });
    let problem = bed.admin.post("/v1/rules", &unknown).await.problem(400, "invalid");
    assert!(problem["errors"][0]["pointer"].as_str().unwrap().starts_with("/limits"), "{problem}");
}

#[tokio::test]
async fn a_domain_begins_empty_and_ends_without_rules() {
    let bed = Bed::start().await;
    bed.admin.post("/v1/rules?domain=shop", &rule("a")).await.problem(404, "not-found");
    bed.admin.post("/v1/domains", &json!({ "name": "shop", "mode": "shadow" })).await.expect(201);
    bed.admin.post("/v1/tiers?domain=shop", &json!({ "name": "only" })).await.problem(400, "invalid");
    bed.admin.post("/v1/tiers?domain=shop", &json!({ "name": "only", "default": true })).await.expect(201);
    bed.admin.post("/v1/rules?domain=shop", &rule("a")).await.expect(201);
    let used = bed.admin.delete("/v1/domains/shop", "*").await.problem(409, "in-use");
    assert_eq!(used["used_by"], json!([{ "kind": "rule", "domain": "shop", "name": "a" }]));
    bed.admin.delete("/v1/rules/a?domain=shop", "*").await.expect(204);
    bed.admin.delete("/v1/domains/shop", "*").await.expect(204);
    bed.admin.get("/v1/domains/shop").await.problem(404, "not-found");
    assert_eq!(bed.admin.get("/v1/tiers?domain=shop").await.expect(200).json()["items"], json!([]));

    // Made anew it goes on counting: agents may hold the old revisions.
    let again = bed.admin.post("/v1/domains", &json!({ "name": "shop" })).await.expect(201);
    assert_eq!(again.header("weir-revision"), "5");
    assert_eq!(again.json()["meta"]["revision"], 5);
    assert_eq!(bed.admin.get("/v1/tiers?domain=shop").await.json()["items"], json!([]));
    let off = bed.admin.put("/v1/domains/shop", &again.etag(), &json!({ "name": "shop", "mode": "off" })).await.expect(200);
    assert_eq!(off.json()["mode"], "off");
}

#[tokio::test]
async fn the_default_domain_is_made_by_the_first_write() {
    let bed = Bed::start().await;
    bed.admin.get("/v1/domains/default").await.problem(404, "not-found");
    bed.admin.post("/v1/rules", &rule("first")).await.expect(201);
    assert_eq!(bed.admin.get("/v1/domains/default").await.expect(200).json()["mode"], "enforce");
    assert_eq!(bed.revision().await, 1);
}
