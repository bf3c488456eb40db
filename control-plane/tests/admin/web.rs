//! Static files, health, and the headers of every answer.

use serde_json::json;

use super::bed::Bed;

#[tokio::test]
async fn every_answer_carries_the_security_headers() {
    let bed = Bed::start().await;
    let answers = [
        bed.anybody().get("/").await.expect(200),
        bed.anybody().get("/livez").await.expect(200),
        bed.anybody().get("/v1/rules").await.expect(401),
        bed.admin.get("/v1/rules").await.expect(200),
        bed.admin.get("/v1/nothing").await.expect(404),
        bed.admin.get("/docs/").await.expect(200),
        bed.admin.post("/v1/rules", &json!({})).await.expect(400),
    ];
    for answer in answers {
        let policy = answer.header("content-security-policy");
        assert!(
            policy.contains("script-src 'self';") && policy.contains("frame-ancestors 'none'") && policy.contains("default-src 'none'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe-eval"));
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("referrer-policy"), "no-referrer");
    }
    assert_eq!(bed.admin.get("/v1/rules").await.header("cache-control"), "no-store");
}

#[tokio::test]
async fn the_dashboard_answers_its_own_paths_and_no_others() {
    let bed = Bed::start().await;
    for page in ["/", "/index.html", "/rules", "/agents/a-b", "/sign-in"] {
        let answer = bed.anybody().get(page).await.expect(200);
        assert!(answer.header("content-type").starts_with("text/html"), "{page}");
        assert!(answer.text.contains("Weir"), "{page}");
        // Inline scripts would not run under the policy.
        assert!(!answer.text.contains("<script>") && !answer.text.contains("onclick="), "{page}");
    }
    for missing in ["/assets/missing.js", "/favicon.nothing"] {
        bed.anybody().get(missing).await.problem(404, "not-found");
    }
    bed.admin.send("POST", "/rules", "").await.problem(404, "not-found");
    bed.admin.send("PATCH", "/v1/rules/search", "").await.problem(405, "method-not-allowed");
    let refused = bed.admin.send("DELETE", "/v1/rules", "").await;
    assert!(refused.header("allow").contains("GET"), "{:?}", refused.headers);
    refused.problem(405, "method-not-allowed");
    bed.anybody().send("HEAD", "/", "").await.expect(200);
}

#[tokio::test]
async fn the_api_is_described_and_browsable() {
    let bed = Bed::start().await;
    let description = bed.admin.get("/openapi.json").await.expect(200).json();
    assert_eq!(description["openapi"], "3.1.0");
    let page = bed.admin.get("/docs/").await.expect(200);
    assert!(page.text.contains("swagger-ui") && !page.text.contains("<script>"), "{}", page.text);
    assert!(bed.admin.get("/docs/swagger-initializer.js").await.expect(200).text.contains("/openapi.json"));
    bed.anybody().get("/docs/").await.problem(401, "unauthorized");
    bed.anybody().get("/openapi.json").await.problem(401, "unauthorized");
}

#[tokio::test]
async fn metrics_count_by_route_and_tell_revisions() {
    let bed = Bed::with_rules().await;
    bed.admin.get("/v1/rules/nothing").await.expect(404);
    bed.admin.get("/v1/%00").await.expect(404);
    let metrics = bed.admin.get("/metrics").await.expect(200);
    for line in [
        "weir_http_requests_total{method=\"GET\",route=\"/v1/rules/{name}\",status=\"404\"} 1\n",
        "weir_http_requests_total{method=\"POST\",route=\"/v1/apply\",status=\"200\"} 1\n",
        "weir_revision{kind=\"rules\",domain=\"default\"} 1\n",
        "weir_revision{kind=\"ring\",domain=\"\"} 0\n",
    ] {
        assert!(metrics.text.contains(line), "{line} is not in {}", metrics.text);
    }
    assert_eq!(metrics.text.matches("# EOF").count(), 1);
    assert!(metrics.text.ends_with("# EOF\n"), "{}", metrics.text);
    assert!(!metrics.text.contains("nothing"), "paths are not labels");
    bed.anybody().get("/metrics").await.problem(401, "unauthorized");
}
