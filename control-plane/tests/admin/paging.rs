//! Lists, page by page.

use serde_json::{Value, json};

use super::bed::{Bed, rule};

#[tokio::test]
async fn every_list_is_walked_in_pages() {
    let bed = Bed::with_rules().await;
    for i in 0..5 {
        bed.admin.post("/v1/rules", &rule(&format!("r{i}"))).await.expect(201);
        bed.admin.post("/v1/domains", &json!({ "name": format!("d{i}") })).await.expect(201);
        bed.admin
            .post("/v1/shards", &json!({ "name": format!("s{i}"), "address": format!("redis://127.0.0.1:{}", i + 1) }))
            .await
            .expect(201);
        bed.admin.post("/v1/tokens", &json!({ "name": format!("t{i}"), "kind": "agent" })).await.expect(201);
    }
    for (list, count) in [("rules", 8_usize), ("tiers", 2), ("domains", 6), ("shards", 5), ("tokens", 6), ("revisions", 6)] {
        let (mut seen, mut token, mut pages) = (Vec::<Value>::new(), String::new(), 0);
        loop {
            let page = bed.admin.get(&format!("/v1/{list}?page_size=2&page_token={token}")).await.expect(200).json();
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 2, "{list}");
            seen.extend(items.iter().map(|i| if list == "revisions" { i["revision"].clone() } else { i["name"].clone() }));
            pages += 1;
            token = page["next_page_token"].as_str().unwrap().to_owned();
            if token.is_empty() {
                break;
            }
        }
        assert_eq!((seen.len(), pages), (count, count.div_ceil(2)), "{list}: {seen:?}");
        let mut sorted = seen.clone();
        sorted.sort_by_key(ToString::to_string);
        sorted.dedup();
        assert_eq!(sorted.len(), count, "{list} repeats itself: {seen:?}");
        let whole = bed.admin.get(&format!("/v1/{list}?page_size=100000")).await.expect(200).json();
        assert_eq!((whole["items"].as_array().unwrap().len(), &whole["next_page_token"]), (count, &json!("")), "{list}");
    }
}

#[tokio::test]
async fn odd_page_parameters_are_refused() {
    let bed = Bed::with_rules().await;
    bed.admin.post("/v1/domains", &json!({ "name": "other" })).await.expect(201);
    let token = bed.admin.get("/v1/rules?page_size=1").await.json()["next_page_token"].as_str().unwrap().to_owned();
    assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'), "{token}");
    for query in [
        "page_size=-1".to_owned(),
        "page_size=x".to_owned(),
        "page_size=1.5".to_owned(),
        "page_size=99999999999999999999".to_owned(),
        "page_size=1&page_size=2".to_owned(),
        "page_token=made-up".to_owned(),
        format!("page_token={token}x"),
        format!("domain=other&page_token={token}"),
        "unknown=1".to_owned(),
        "domain=".to_owned(),
        "domain=a%20b".to_owned(),
    ] {
        bed.admin.get(&format!("/v1/rules?{query}")).await.problem(400, "invalid");
    }
    bed.admin.get(&format!("/v1/tiers?page_token={token}")).await.problem(400, "invalid");
    let page = bed.admin.get("/v1/rules?page_size=0&page_token=").await.expect(200).json();
    assert_eq!(page["items"].as_array().unwrap().len(), 3);
    // The next page is there even when the entry it was to start after is gone.
    bed.admin.delete("/v1/rules/per-user", "*").await.expect(204);
    let rest = bed.admin.get(&format!("/v1/rules?page_token={token}")).await.expect(200).json();
    assert_eq!(rest["items"].as_array().unwrap().len(), 2);
    assert_eq!(bed.admin.get("/v1/rules?domain=nowhere").await.expect(200).json()["items"], json!([]));
}
