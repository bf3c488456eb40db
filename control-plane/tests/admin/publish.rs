//! What agents get: revisions, items, notices.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use sqlx::postgres::PgListener;
use sqlx::{Connection as _, PgConnection};
use weir_control_plane::db::{revision, set};
use weir_core::config::DomainConfig;
use weir_core::item::SetHash;

use super::bed::{Bed, rule};

#[tokio::test]
async fn every_revision_can_be_read_back_as_it_was() {
    let bed = Bed::with_rules().await;
    let mut exports = vec![bed.admin.get("/v1/export").await.json()];
    for step in 0..4 {
        match step {
            0 => bed.admin.post("/v1/rules", &rule("extra")).await.expect(201),
            1 => bed.admin.delete("/v1/rules/search", "*").await.expect(204),
            2 => bed.admin.post("/v1/rules", &rule("search")).await.expect(201),
            _ => bed.admin.put("/v1/domains/default", "*", &json!({ "name": "default", "mode": "off" })).await.expect(200),
        };
        exports.push(bed.admin.get("/v1/export").await.json());
    }
    let mut database = PgConnection::connect(&bed.database).await.unwrap();
    for (i, export) in exports.iter().enumerate() {
        let number = i as u64 + 1;
        let items = revision::items(&mut database, "default", number).await.unwrap();
        let (config, left_out) = DomainConfig::from_items(&items).unwrap();
        assert_eq!((&config.to_document(), left_out.len()), (export, 0), "revision {number}");
        let published = bed.admin.get(&format!("/v1/revisions/{number}")).await.json();
        assert_eq!(published["hash"], SetHash::of(&items).to_string());
    }
    let head = set::head(&mut database, "default").await.unwrap().unwrap();
    assert_eq!(head.revision, 5);
    assert_eq!(head.hash, SetHash::of(&revision::items(&mut database, "default", 5).await.unwrap()));
    let bodies: i64 = sqlx::query_scalar("SELECT count(*) FROM items").fetch_one(&mut database).await.unwrap();
    assert_eq!(bodies, 8, "a body that comes back is stored once");
}

#[tokio::test]
async fn old_revisions_go_and_take_only_their_own_items_along() {
    let bed = Bed::with_rules().await;
    for limit in 1..=4 {
        let mut document = rule("search");
        document["limits"]["*"]["limit"] = json!(limit);
        bed.admin.put("/v1/rules/search", "*", &document).await.expect(200);
    }
    let pool = &bed.plane.app().pool;
    let mut database = PgConnection::connect(&bed.database).await.unwrap();
    let kept = async |database: &mut PgConnection| {
        let mut texts = Vec::new();
        for number in 3..=5 {
            texts.push(revision::items(database, "default", number).await.unwrap());
        }
        texts
    };
    let before = kept(&mut database).await;
    revision::prune(pool, "default", revision::KEPT + 2).await.unwrap();
    assert_eq!(kept(&mut database).await, before);
    let left: Vec<i64> = sqlx::query_scalar("SELECT revision FROM revisions ORDER BY 1").fetch_all(&mut database).await.unwrap();
    assert_eq!(left, [3, 4, 5]);
    let unused = "SELECT count(*) FROM items i WHERE NOT EXISTS (SELECT FROM revision_items r WHERE r.hash = i.hash)";
    assert_eq!(sqlx::query_scalar::<_, i64>(unused).fetch_one(&mut database).await.unwrap(), 0);
    bed.admin.get("/v1/revisions/2").await.problem(404, "not-found");
}

#[tokio::test]
async fn a_write_tells_and_a_dry_run_does_not() {
    let bed = Bed::with_rules().await;
    let mut listener = PgListener::connect(&bed.database).await.unwrap();
    listener.listen_all([weir_control_plane::db::REVISION_CHANNEL, weir_control_plane::db::SECRETS_CHANNEL]).await.unwrap();
    bed.admin.post("/v1/rules?validate_only=true", &rule("x")).await.expect(200);
    bed.admin.post("/v1/rules", &json!({ "name": "broken" })).await.expect(400);
    bed.admin.post("/v1/rules", &rule("x")).await.expect(201);
    bed.admin.post("/v1/shards", &json!({ "name": "s", "address": "/s", "password": "p" })).await.expect(201);
    let mut told = BTreeSet::new();
    for _ in 0..3 {
        let notice = tokio::time::timeout(Duration::from_secs(10), listener.recv()).await.unwrap().unwrap();
        told.insert((notice.channel().to_owned(), notice.payload().to_owned()));
    }
    let expected = [("weir_revision", ""), ("weir_revision", "default"), ("weir_secrets", "")];
    assert_eq!(told, expected.map(|(channel, payload)| (channel.to_owned(), payload.to_owned())).into());
}
