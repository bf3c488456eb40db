//! Several operators at once.

use futures::future::join_all;
use serde_json::json;

use super::bed::{Bed, rule};

#[tokio::test]
async fn of_two_writers_that_saw_the_same_version_one_wins() {
    let bed = Bed::with_rules().await;
    let etag = bed.admin.get("/v1/rules/search").await.etag();
    let writers = (1..=8).map(|limit| {
        let (bed, etag) = (&bed, &etag);
        async move {
            let mut document = rule("search");
            document["limits"]["*"]["limit"] = json!(limit);
            (limit, bed.admin.put("/v1/rules/search", etag, &document).await.status.as_u16())
        }
    });
    let answers = join_all(writers).await;
    let winners: Vec<_> = answers.iter().filter(|(_, status)| *status == 200).collect();
    assert_eq!(winners.len(), 1, "{answers:?}");
    assert!(answers.iter().all(|(_, status)| [200, 412].contains(status)), "{answers:?}");
    assert_eq!(bed.admin.get("/v1/rules/search").await.json()["limits"]["*"]["limit"], winners[0].0);
}

#[tokio::test]
async fn concurrent_creations_neither_collide_nor_get_lost() {
    let bed = Bed::with_rules().await;
    let first = bed.revision().await;
    let different = (0..10).map(|i| {
        let bed = &bed;
        async move { bed.admin.post("/v1/rules", &rule(&format!("r{i}"))).await.expect(201).header("weir-revision").parse::<u64>().unwrap() }
    });
    let mut revisions = join_all(different).await;
    revisions.sort_unstable();
    assert_eq!(revisions, (first + 1..=first + 10).collect::<Vec<_>>());
    let body = rule("same");
    let same = join_all((0..8).map(|_| bed.admin.post("/v1/rules", &body))).await;
    let created = same.iter().filter(|answer| answer.status == 201).count();
    assert_eq!((created, same.iter().filter(|answer| answer.status == 409).count()), (1, 7));
}
