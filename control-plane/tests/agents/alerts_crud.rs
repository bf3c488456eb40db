//! `/v1/alerts` as a resource.

use serde_json::{Value, json};

use super::bed::Bed;

const SECRET: &str = "0123456789abcdef";

fn alert() -> Value {
    json!({ "name": "a", "rule": "search", "denied_share_percent": 20, "for": "5m",
            "webhook": { "url": "https://hooks.example.com/x", "secret": SECRET } })
}

async fn bed() -> Bed {
    Bed::with(|settings| settings.webhook_allow = vec!["hooks.example.com".into()]).await
}

#[tokio::test]
async fn an_alert_lives_its_life_and_its_secret_is_never_shown() {
    let bed = bed().await;
    let tried = bed.admin.send("POST", "/v1/alerts?validate_only=true", &[], Some(&alert())).await;
    assert_eq!(tried.status, 200, "{}", tried.body);
    assert_eq!(bed.admin.get("/v1/alerts/a").await.status, 404);
    let created = bed.admin.send("POST", "/v1/alerts", &[], Some(&alert())).await;
    assert_eq!(created.status, 201, "{}", created.body);
    assert_eq!(bed.admin.send("POST", "/v1/alerts", &[], Some(&alert())).await.status, 409);
    let read = bed.admin.get("/v1/alerts/a").await;
    assert_eq!((read.body["state"]["firing"].as_bool(), &read.etag), (Some(false), &created.etag));

    // What was read can be sent back, and the secret stays what it was.
    let mut changed = read.body.clone();
    changed["denied_share_percent"] = json!(33.5);
    let put = async |condition: &[(&str, &str)], body: &Value| bed.admin.send("PUT", "/v1/alerts/a", condition, Some(body)).await;
    assert_eq!(put(&[], &changed).await.status, 428);
    assert_eq!(put(&[("if-match", "\"999\"")], &changed).await.status, 412);
    let replaced = put(&[("if-match", &read.etag)], &changed).await;
    assert_eq!((replaced.status, &replaced.body["denied_share_percent"]), (200, &json!(33.5)), "{}", replaced.body);
    let kept: String = sqlx::query_scalar("SELECT webhook_secret FROM alerts").fetch_one(&bed.pool()).await.unwrap();
    assert_eq!(kept, SECRET);
    // But not for another address, which would get signatures made with it.
    changed["webhook"] = json!({ "url": "https://hooks.example.com/other" });
    let moved = put(&[("if-match", "*")], &changed).await;
    assert_eq!((moved.status, &moved.body["errors"][0]["pointer"]), (400, &json!("/webhook/secret")));

    let list = bed.admin.get("/v1/alerts").await.body;
    let audit = bed.admin.get("/v1/audit?kind=alert&name=a").await.body;
    assert_eq!((list["items"].as_array().unwrap().len(), audit["items"].as_array().unwrap().len()), (1, 2));
    for shown in [&created.body, &read.body, &replaced.body, &list, &audit] {
        assert!(!shown.to_string().contains(SECRET));
    }
    assert_eq!(bed.admin.send("DELETE", "/v1/alerts/a", &[], None).await.status, 428);
    assert_eq!(bed.admin.send("DELETE", "/v1/alerts/a", &[("if-match", &replaced.etag)], None).await.status, 204);
    assert_eq!(bed.admin.get("/v1/alerts/a").await.status, 404);
    // Made anew under the name, it is another one: whoever saw the old one must look again.
    let anew = bed.admin.send("POST", "/v1/alerts", &[], Some(&alert())).await;
    assert!(anew.status == 201 && ![&created.etag, &replaced.etag].contains(&&anew.etag), "{}", anew.etag);
    assert_eq!(put(&[("if-match", &created.etag)], &alert()).await.status, 412);
}

#[tokio::test]
async fn mistakes_are_told_at_their_place() {
    let bed = bed().await;
    let change = |field: &str, value: Value| {
        let mut alert = alert();
        alert[field] = value;
        alert
    };
    for (body, pointer) in [
        (change("rule", json!("nowhere")), "/rule"),
        (change("name", json!("a b")), "/name"),
        (change("denied_share_percent", json!(-1)), "/denied_share_percent"),
        (change("for", json!("1s")), "/for"),
        (change("extra", json!(1)), "/extra"),
        (change("webhook", json!({ "url": "https://hooks.example.com/x" })), "/webhook/secret"),
        (change("webhook", json!({ "url": "http://169.254.169.254/", "secret": SECRET })), "/webhook/url"),
        (change("webhook", json!({ "url": "http://[::1]/", "secret": SECRET })), "/webhook/url"),
        (change("webhook", json!({ "url": "http://localhost#", "secret": SECRET })), "/webhook/url"),
        (change("webhook", json!("https://hooks.example.com")), "/webhook"),
    ] {
        let answer = bed.admin.send("POST", "/v1/alerts", &[], Some(&body)).await;
        assert_eq!((answer.status, &answer.body["errors"][0]["pointer"]), (400, &json!(pointer)), "{body}: {}", answer.body);
    }
    assert_eq!(bed.number("SELECT count(*) FROM alerts").await, 0);
    assert_eq!(bed.admin.send("POST", "/v1/alerts?domain=none", &[], Some(&alert())).await.status, 400, "no such rule there");
}
