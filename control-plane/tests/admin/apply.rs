//! A domain as one document.

use serde_json::{Value, json};

use super::bed::{Bed, rule, rules};

fn actions(answer: &Value) -> Vec<String> {
    let changes = answer["changes"].as_array().unwrap();
    changes.iter().map(|c| format!("{} {} {}", c["action"], c["kind"], c["name"]).replace('"', "")).collect()
}

#[tokio::test]
async fn applying_is_idempotent_and_all_or_nothing() {
    let bed = Bed::start().await;
    let first = bed.admin.post("/v1/apply", &rules()).await.expect(200).json();
    assert_eq!(first["domain"], "default");
    assert_eq!(first["revision"], 1);
    assert_eq!(
        actions(&first),
        [
            "create domain default",
            "create rule per-user",
            "create rule search",
            "create rule upload",
            "create tier free",
            "create tier paid"
        ]
    );
    assert!(first["changes"][1]["before"].is_null() && first["changes"][1]["after"]["name"] == "per-user");
    let second = bed.admin.post("/v1/apply", &rules()).await.expect(200).json();
    assert_eq!((second["changes"].as_array().unwrap().len(), &second["revision"]), (0, &json!(1)));

    let mut broken = rules();
    broken["rules"][0]["limits"]["free"]["limit"] = json!(7);
    broken["rules"][1]["limits"]["*"]["window"] = json!("soon");
    broken["rules"][2]["limits"]["*"]["limit"] = json!(-1);
    let problem = bed.admin.post("/v1/apply", &broken).await.problem(400, "invalid");
    let pointers: Vec<&str> = problem["errors"].as_array().unwrap().iter().map(|e| e["pointer"].as_str().unwrap()).collect();
    assert_eq!(pointers, ["/rules/1/limits/*/window", "/rules/2/limits/*/limit"]);
    assert_eq!(bed.admin.get("/v1/rules/per-user").await.json()["limits"]["free"]["limit"], 100);
    assert_eq!(bed.revision().await, 1);
}

#[tokio::test]
async fn applying_keeps_what_it_does_not_name_unless_told_to_prune() {
    let bed = Bed::with_rules().await;
    let small = json!({
        "domain": "default", "mode": "shadow",
        "tiers": [{ "name": "basic", "default": true }],
        "rules": [rule("search"), rule("new")],
    });
    let problem = bed.admin.post("/v1/apply", &small).await.problem(400, "invalid");
    assert!(problem.to_string().contains("per-user"), "the old rule has no limit for the new tier: {problem}");
    let dry = bed.admin.post("/v1/apply?prune=true&validate_only=true", &small).await.expect(200).json();
    let wet = bed.admin.post("/v1/apply?prune=true", &small).await.expect(200);
    assert_eq!(wet.header("weir-revision"), "2");
    assert_eq!(actions(&dry), actions(&wet.json()));
    assert_eq!(
        actions(&dry),
        [
            "update domain default",
            "create rule new",
            "delete rule per-user",
            "delete rule upload",
            "create tier basic",
            "delete tier free",
            "delete tier paid"
        ]
    );
    let merged = json!({ "domain": "default", "tiers": [{ "name": "gold", "default": true }], "rules": [rule("more")] });
    let merged = bed.admin.post("/v1/apply", &merged).await.expect(200).json();
    assert_eq!(actions(&merged), ["create rule more", "update tier basic", "create tier gold"]);
    assert_eq!(bed.admin.get("/v1/rules").await.json()["items"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn an_export_applies_elsewhere_and_a_rollback_brings_content_back() {
    let bed = Bed::with_rules().await;
    let export = bed.admin.get("/v1/export").await.expect(200).json();
    let same = bed.admin.post("/v1/apply?prune=true", &export).await.expect(200).json();
    assert_eq!(same["changes"], json!([]), "what is exported is what is there");
    let mut copy = export.clone();
    copy["domain"] = json!("copy");
    bed.admin.post("/v1/apply", &copy).await.expect(200);
    assert_eq!(bed.admin.get("/v1/export?domain=copy").await.json()["rules"], export["rules"]);

    bed.admin.delete("/v1/rules/search", "*").await.expect(204);
    bed.admin.put("/v1/domains/default", "*", &json!({ "name": "default", "mode": "off" })).await.expect(200);
    let hash = |n: u64| {
        let bed = &bed;
        async move { bed.admin.get(&format!("/v1/revisions/{n}")).await.expect(200).json()["hash"].as_str().unwrap().to_owned() }
    };
    let back = bed.admin.send("POST", "/v1/revisions/1/rollback", "").await.expect(200);
    assert_eq!(back.header("weir-revision"), "4");
    assert_eq!(actions(&back.json()), ["update domain default", "create rule search"]);
    assert_eq!(bed.admin.get("/v1/export").await.json(), export);
    assert_eq!(hash(1).await, hash(4).await);
    assert_ne!(hash(1).await, hash(2).await);
    let revision = bed.admin.get("/v1/revisions/4").await.json();
    assert_eq!((&revision["author"], &revision["summary"]), (&json!("admin"), &json!("roll back to revision 1")));
    assert_eq!(revision["agents"], json!({ "current": [], "pending": [], "refused": [], "offline": [] }));
    for missing in ["9", "0", "18446744073709551615", "x", "-1"] {
        bed.admin.send("POST", &format!("/v1/revisions/{missing}/rollback"), "").await.problem(404, "not-found");
        bed.admin.get(&format!("/v1/revisions/{missing}")).await.problem(404, "not-found");
    }
    bed.admin.get("/v1/export?domain=nowhere").await.problem(404, "not-found");
    assert!(bed.admin.get("/v1/lint").await.expect(200).json()["warnings"].is_array());
}

#[tokio::test]
async fn what_a_document_does_not_mention_stays() {
    let bed = Bed::with_rules().await;
    let mut settings = bed.admin.get("/v1/domains/default").await.json();
    settings["mode"] = json!("off");
    settings["description"] = json!("thrown in an incident");
    settings["defaults"] = json!({ "on_failure": { "mode": "open" } });
    bed.admin.put("/v1/domains/default", "*", &settings).await.expect(200);
    // A pipeline that knows nothing of it.
    bed.admin.post("/v1/apply", &rules()).await.expect(200);
    bed.admin.post("/v1/apply", &json!({ "rules": [rule("login")] })).await.expect(200);
    let after = bed.admin.get("/v1/domains/default").await.json();
    assert_eq!((&after["mode"], &after["description"]), (&json!("off"), &json!("thrown in an incident")), "{after}");
    assert_eq!(after["defaults"]["on_failure"]["mode"], "open");
    // Pruned, all goes but the kill switch, until the document says so.
    bed.admin.post("/v1/apply?prune=true", &rules()).await.expect(200);
    let after = bed.admin.get("/v1/domains/default").await.json();
    assert_eq!((&after["mode"], after.get("defaults"), after.get("description")), (&json!("off"), None, None), "{after}");
    bed.admin.post("/v1/apply", &json!({ "mode": "enforce" })).await.expect(200);
    assert_eq!(bed.admin.get("/v1/domains/default").await.json()["mode"], "enforce");
}

#[tokio::test]
async fn a_part_of_a_domain_may_be_applied_and_its_mistakes_have_their_place() {
    let bed = Bed::with_rules().await;
    let mut gold = rule("login");
    gold["limits"] = json!({ "free": { "limit": 1, "window": "1s" }, "paid": { "limit": 2, "window": "1s" } });
    let answer = bed.admin.post("/v1/apply", &json!({ "rules": [gold.clone()] })).await.expect(200).json();
    assert_eq!(actions(&answer), ["create rule login"]);

    gold["limits"]["gold"] = json!({ "limit": 3, "window": "1s" });
    let problem = bed.admin.post("/v1/apply", &json!({ "rules": [rule("search"), gold.clone()] })).await.problem(400, "invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/rules/1/limits/gold", "{problem}");
    // A new tier that a rule beside the document knows nothing of.
    let problem = bed.admin.post("/v1/apply", &json!({ "tiers": [{ "name": "gold" }] })).await.problem(400, "invalid");
    assert_eq!(problem["errors"][0]["pointer"], "");
    assert!(problem["errors"][0]["detail"].as_str().unwrap().contains("rule login"), "{problem}");
    for twice in [json!({ "rules": [rule("a"), rule("a")] }), json!({ "tiers": [{ "name": "a" }, { "name": "a" }] })] {
        bed.admin.post("/v1/apply", &twice).await.problem(400, "invalid");
    }
    let both = json!({ "tiers": [{ "name": "free", "default": true }, { "name": "paid", "default": true }] });
    let problem = bed.admin.post("/v1/apply", &both).await.problem(400, "invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/tiers/1/default");
}
