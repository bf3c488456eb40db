//! Bad input on every endpoint: refused with a problem that says where, and nothing is stored.

use serde_json::{Value, json};
use weir_control_plane::http::extract::{MAX_BODY, MAX_RULES_BODY};

use super::bed::{Bed, rule, rules};
use super::openapi::{Operation, operations};

/// A fresh request to an operation, its path filled in, with a condition where one is needed.
async fn send(bed: &Bed, operation: &Operation, query: &str, kind: &str, body: impl Into<bytes::Bytes>) -> super::client::Answer {
    let client = bed.admin.with("if-match", "*").with("content-type", kind);
    client.send(&operation.method, &format!("{}{query}", operation.filled()), body).await
}

#[tokio::test]
async fn bodies_that_cannot_be_read_are_refused_everywhere() {
    let bed = Bed::with_rules().await;
    let export = bed.admin.get("/v1/export").await.json();
    for operation in operations().iter().filter(|o| o.has_body) {
        let name = &operation.id;
        for body in ["", "{", "nonsense", "{\"name\":\"a\",}", "{\"name\":NaN}", "{\"name\":\"a\",\"name\":\"b\"}", "{} {}", "\u{feff}{}"] {
            let answer = send(&bed, operation, "", "application/json", body).await;
            assert_eq!(answer.status, 400, "{name} with {body:?}: {}", answer.text);
            answer.problem(400, "malformed");
        }
        send(&bed, operation, "", "application/json", "[".repeat(100_000)).await.problem(400, "malformed");
        send(&bed, operation, "", "application/json", &b"{\"name\":\"\xff\"}"[..]).await.problem(400, "malformed");
        for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
            send(&bed, operation, "", kind, "{}").await.problem(415, "unsupported-media-type");
        }
        let limit = if operation.id == "apply" { MAX_RULES_BODY } else { MAX_BODY };
        send(&bed, operation, "", "application/json", format!("{{\"name\":\"{}\"}}", "a".repeat(limit))).await.problem(413, "too-large");
        // An empty rules document says nothing about the domain `default`, and that is no mistake.
        let odd = ["null", "true", "1", "\"text\"", "[]", "[{}]", "{}"];
        for body in odd.iter().take(if operation.id == "apply" { 6 } else { 7 }).copied() {
            let answer = send(&bed, operation, "", "application/json", body).await;
            assert_eq!(answer.status, 400, "{name} with {body}: {}", answer.text);
            assert!(answer.problem(400, "invalid")["errors"].as_array().is_some_and(|errors| !errors.is_empty()), "{name}");
        }
    }
    assert_eq!(bed.admin.get("/v1/export").await.json(), export);
    assert_eq!(bed.revision().await, 1);
}

#[tokio::test]
async fn unknown_query_parameters_are_refused_everywhere() {
    let bed = Bed::with_rules().await;
    for operation in operations() {
        let client = bed.admin.with("if-match", "*");
        let answer = client.json(&operation.method, &format!("{}?unknown=1", operation.filled()), &json!({})).await;
        assert_eq!(answer.status, 400, "{}: {}", operation.id, answer.text);
        answer.problem(400, "invalid");
    }
}

#[tokio::test]
async fn numbers_out_of_range_are_refused_at_their_place() {
    let bed = Bed::with_rules().await;
    let odd = [
        "-1",
        "1.5",
        "\"10\"",
        "\"\"",
        "null",
        "true",
        "1e3",
        "9007199254740992",
        "9223372036854775808",
        "18446744073709551616",
        "[]",
        "{}",
    ];
    let template = rule("odd").to_string();
    for (field, extra) in
        [("limit", None), ("burst", Some("0")), ("window", Some("0")), ("priority", None), ("enforce_percent", Some("101"))]
    {
        for number in odd.iter().copied().chain(extra) {
            let (text, pointer) = match field {
                "limit" => (template.replace("\"limit\":50", &format!("\"limit\":{number}")), "/limits/*/limit"),
                "burst" => {
                    let bucket = template.replace("sliding_window", "token_bucket");
                    (bucket.replace("\"limit\":50", &format!("\"limit\":50,\"burst\":{number}")), "/limits/*/burst")
                }
                "window" => (template.replace("\"window\":\"60s\"", &format!("\"window\":{number}")), "/limits/*/window"),
                _ if field == "priority" && number == "-1" => continue,
                _ => (
                    template.replacen('{', &format!("{{\"{field}\":{number},"), 1),
                    if field == "priority" { "/priority" } else { "/enforce_percent" },
                ),
            };
            let answer = bed.admin.with("content-type", "application/json").send("POST", "/v1/rules", text.clone()).await;
            assert_eq!(answer.status, 400, "{text}: {}", answer.text);
            let problem = answer.problem(400, "invalid");
            assert_eq!(problem["errors"][0]["pointer"], pointer, "{text}: {problem}");
        }
    }
    for window in ["", "60", "0s", "999ms", "367d", "-1s", "1.5s", "1 h", "1w", "99999999999999999999s"] {
        let mut odd = rule("odd");
        odd["limits"]["*"]["window"] = json!(window);
        let problem = bed.admin.post("/v1/rules", &odd).await.problem(400, "invalid");
        assert_eq!(problem["errors"][0]["pointer"], "/limits/*/window", "{window:?}");
    }
    assert_eq!(bed.revision().await, 1, "nothing was published");
}

#[tokio::test]
async fn a_batch_with_one_bad_entry_changes_nothing_and_names_every_mistake() {
    let bed = Bed::with_rules().await;
    let mut document = rules();
    document["rules"][0]["limits"]["free"]["limit"] = json!(1);
    document["rules"].as_array_mut().unwrap().extend([
        rule("search"),
        json!({ "name": "x');alert(1)//", "key": ["colour"], "limits": { "gold": { "limit": 1, "window": "1s" } }, "unknown": 1 }),
    ]);
    document["tiers"].as_array_mut().unwrap().push(json!({ "name": "free" }));
    let problem = bed.admin.post("/v1/apply", &document).await.problem(400, "invalid");
    let text = problem["errors"].to_string();
    for place in ["/rules/3/name", "/rules/4/name", "/rules/4/key/0", "/rules/4/unknown", "/tiers/2/name"] {
        assert!(text.contains(&format!("\"{place}\"")), "{place} is not in {text}");
    }
    let read = bed.admin.get("/v1/rules/per-user").await.json();
    assert_eq!((&read["limits"]["free"]["limit"], bed.revision().await), (&json!(100), 1));
}

#[tokio::test]
async fn names_that_could_be_script_or_path_are_refused_and_never_served_as_such() {
    let bed = Bed::with_rules().await;
    for name in
        ["x');alert(1)//", "<img src=x onerror=alert(1)>", "</script >", "a/b", "../b", "\u{202e}abc", "", " ", "a\u{0}", "é", "%2e"]
    {
        for (path, mut document) in [
            ("/v1/rules", rule("x")),
            ("/v1/tiers", json!({})),
            ("/v1/domains", json!({})),
            ("/v1/shards", json!({ "address": "/s" })),
            ("/v1/tokens", json!({ "role": "viewer" })),
        ] {
            document["name"] = json!(name);
            let problem = bed.admin.post(path, &document).await.problem(400, "invalid");
            assert!(problem["errors"].to_string().contains("\"/name\""), "{path} {name:?}: {problem}");
        }
    }
    let long = "n".repeat(64);
    bed.admin.post("/v1/rules", &rule(&long)).await.expect(201);
    bed.admin.post("/v1/rules", &rule(&format!("{long}n"))).await.problem(400, "invalid");
    // Descriptions may hold anything; they come back as JSON, of a type that no browser renders.
    let mut described = rule("described");
    described["description"] = json!("</script><script>alert(1)</script>");
    let answer = bed.admin.post("/v1/rules", &described).await.expect(201);
    assert_eq!((answer.header("content-type"), answer.header("x-content-type-options")), ("application/json", "nosniff"));
    for odd in ["/v1/rules/a%2Fb", "/v1/rules/%00", "/v1/rules/%ff", "/v1/rules/..%2F..%2Fetc"] {
        let answer = bed.admin.get(odd).await;
        assert!(answer.status == 404 || answer.status == 400, "{odd}: {} {}", answer.status, answer.text);
        let status = answer.status.as_u16();
        let problem: Value = answer.json();
        assert_eq!(problem["status"], status);
    }
}
