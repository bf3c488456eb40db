//! Who may do what, on every route.

use serde_json::json;
use weir_control_plane::auth::Role;

use super::bed::{Bed, rule};
use super::openapi::operations;

#[tokio::test]
async fn bb_48_without_credentials_only_health_sign_in_and_static_files_answer() {
    let bed = Bed::with_rules().await;
    for operation in operations() {
        let answer = bed.anybody().with("if-match", "*").json(&operation.method, &operation.filled(), &json!({})).await;
        if operation.role.is_some() {
            assert!(answer.header("www-authenticate").starts_with("Bearer"), "{}", operation.id);
            answer.problem(401, "unauthorized");
        } else {
            let open = ["live", "ready", "signIn", "signOut"];
            assert!(open.contains(&operation.id.as_str()), "{} is open", operation.id);
            assert_ne!(answer.status, 401, "{}", operation.id);
        }
    }
    for method in ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"] {
        for path in [
            "/v1/rules",
            "//v1/rules",
            "/v1/rules/",
            "/V1/RULES",
            "/v1//rules",
            "/v1/./rules",
            "/x/../v1/rules",
            "/%761/rules",
            "/v1",
            "/v1/nothing",
            "/openapi.json",
            "/docs/",
        ] {
            let answer = bed.anybody().send(method, path, "").await;
            assert_eq!(answer.status, 401, "{method} {path}: {}", answer.text);
            assert!(!answer.text.contains("search"), "{method} {path} tells about rules");
        }
        for path in ["/", "/admin", "//admin", "/ADMIN/", "/livez"] {
            let answer = bed.anybody().send(method, path, "").await;
            let read = method == "GET" || method == "HEAD";
            assert_eq!(answer.status == 401, !read, "{method} {path}: {}", answer.status);
        }
    }
}

#[tokio::test]
async fn wrong_credentials_are_refused() {
    let bed = Bed::with_rules().await;
    let good = bed.token("good", Some(Role::Admin), None).await;
    let mut other = good.clone().into_bytes();
    let last = other.len() - 1;
    other[last] = if other[last] == b'0' { b'1' } else { b'0' };
    let forged = format!("Bearer {}", String::from_utf8(other).unwrap());
    for authorization in [&forged, "Bearer", "Bearer ", "Basic YTpi", &good, "bearer weir_", ""] {
        bed.anybody().with("authorization", authorization).get("/v1/rules").await.problem(401, "unauthorized");
    }
    bed.anybody().with("cookie", "weir_session=").get("/v1/rules").await.problem(401, "unauthorized");
    bed.anybody().with("authorization", &format!("bearer {good}")).get("/v1/rules").await.expect(200);
}

#[tokio::test]
async fn each_role_may_do_what_the_description_says() {
    let bed = Bed::with_rules().await;
    for role in Role::ALL {
        let client = bed.client(&format!("a-{role}"), Some(role), None).await.with("if-match", "*");
        for operation in operations().iter().filter(|o| o.role.is_some()) {
            let needed: Role = operation.role.as_deref().unwrap().parse().unwrap();
            let answer = client.json(&operation.method, &operation.filled(), &json!({})).await;
            let refused = answer.status == 403;
            assert_eq!(refused, role < needed, "{role} {}: {} {}", operation.id, answer.status, answer.text);
            assert!(answer.status != 401 && answer.status != 500, "{role} {}: {}", operation.id, answer.text);
            if refused {
                answer.problem(403, "forbidden");
            }
        }
    }
}

#[tokio::test]
async fn an_agents_token_is_good_for_nothing_here() {
    let bed = Bed::with_rules().await;
    let agent = bed.client("agent-1", None, None).await.with("if-match", "*");
    for operation in operations().iter().filter(|o| o.role.is_some()) {
        agent.json(&operation.method, &operation.filled(), &json!({})).await.problem(403, "forbidden");
    }
}

#[tokio::test]
async fn a_token_for_one_domain_stays_in_it() {
    let bed = Bed::with_rules().await;
    bed.admin.post("/v1/domains", &json!({ "name": "other" })).await.expect(201);
    let client = bed.client("scoped", Some(Role::Admin), Some(&["default"])).await.with("if-match", "*");
    for operation in operations().iter().filter(|o| o.in_domain) {
        let answer = client.json(&operation.method, &format!("{}?domain=other", operation.filled()), &rule("x")).await;
        assert_eq!(answer.status, 403, "{}: {}", operation.id, answer.text);
    }
    client.get("/v1/rules").await.expect(200);
    client.post("/v1/rules", &rule("mine")).await.expect(201);
    let domains = client.get("/v1/domains").await.expect(200).json();
    assert_eq!(domains["items"].as_array().unwrap().len(), 1);
    client.get("/v1/domains/other").await.problem(403, "forbidden");
    client.post("/v1/apply", &json!({ "domain": "other" })).await.problem(403, "forbidden");
    client.post("/v1/domains", &json!({ "name": "third" })).await.problem(403, "forbidden");
    client.post("/v1/shards", &json!({ "name": "s", "address": "/s" })).await.problem(403, "forbidden");
    client.get("/v1/tokens").await.problem(403, "forbidden");
    client.post("/v1/tokens", &json!({ "name": "wider", "role": "admin" })).await.problem(403, "forbidden");
    let audit = client.get("/v1/audit").await.expect(200).json();
    assert!(audit["items"].as_array().unwrap().iter().all(|entry| entry["domain"] == "default"), "{audit}");
}
