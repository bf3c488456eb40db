//! The stream of events: what was decided reaches the control plane once each, whatever happens to the connection.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod served;
mod upstream;

use std::collections::BTreeMap;

use serde_json::json;
use served::{Served, until};
use upstream::{Upstream, rules};
use weir_agent::settings::Counters;
use weir_proto::v1;

/// The batches by sequence number: taking one twice counts it once, as the control plane does.
type Taken = BTreeMap<u64, v1::EventBatch>;

fn requests(taken: &Taken, outcome: v1::Outcome) -> u64 {
    taken.values().flat_map(|batch| &batch.aggregates).filter(|row| row.outcome() == outcome).map(|row| row.requests).sum()
}

async fn start(upstream: &mut Upstream) -> (Served, upstream::Sync) {
    let mut settings = upstream.settings(None);
    settings.counters = Counters::Memory;
    let served = Served::start(settings).await;
    let mut sync = upstream.sync().await;
    sync.give_rules(1, &rules(5)).await;
    (served, sync)
}

#[tokio::test]
async fn decisions_arrive_counted_with_whole_denials_and_denied_subjects() {
    let mut upstream = Upstream::start().await;
    let (served, _sync) = start(&mut upstream).await;
    let mut upload = upstream.upload().await;
    assert_eq!(served.admitted(&json!({ "subject": "s", "path": "/a", "client_ip": "203.0.113.7" }), 20).await, 5);
    let boot = served.agent.boot().to_owned();
    // The rest comes with the shutdown, which waits until everything is acknowledged.
    let stopping = tokio::spawn(served.stop());
    let mut taken = Taken::new();
    while requests(&taken, v1::Outcome::Allowed) + requests(&taken, v1::Outcome::Denied) < 20
        || taken.values().all(|batch| batch.subjects.is_empty())
    {
        let batch = upload.batch().await;
        assert_eq!((batch.agent.as_str(), batch.boot.as_str(), batch.dropped), ("a1", boot.as_str(), 0));
        upload.acknowledge(batch.sequence).await;
        taken.insert(batch.sequence, batch);
    }
    stopping.await.unwrap();
    assert_eq!((requests(&taken, v1::Outcome::Allowed), requests(&taken, v1::Outcome::Denied)), (5, 15));
    assert_eq!(taken.keys().copied().collect::<Vec<_>>(), (1..=taken.len() as u64).collect::<Vec<_>>());
    let denials: Vec<_> = taken.values().flat_map(|batch| &batch.denials).collect();
    assert_eq!(denials.len(), 15);
    let first = denials[0];
    assert_eq!((first.subject.as_str(), first.rule.as_str(), first.reason.as_str()), ("user:s", "all", "limited"));
    assert_eq!((first.path.as_str(), first.client_ip.as_str(), first.limit), ("/a", "203.0.113.7", 5));
    let subjects: Vec<_> = taken.values().flat_map(|batch| &batch.subjects).collect();
    assert_eq!(subjects.iter().map(|subject| subject.denied).sum::<u64>(), 15);
}

#[tokio::test]
async fn what_was_not_acknowledged_is_sent_again() {
    let mut upstream = Upstream::start().await;
    let (served, _sync) = start(&mut upstream).await;
    let mut upload = upstream.upload().await;
    served.admitted(&json!({ "subject": "s" }), 3).await;
    let mut taken = Taken::new();
    let first = upload.batch().await;
    taken.insert(first.sequence, first.clone());
    // The connection breaks before the acknowledgement.
    drop(upload);
    served.admitted(&json!({ "subject": "s" }), 3).await;
    let mut upload = upstream.upload().await;
    let again = upload.batch().await;
    assert_eq!(again, first);
    upload.acknowledge(again.sequence).await;
    while requests(&taken, v1::Outcome::Allowed) + requests(&taken, v1::Outcome::Denied) < 6 {
        let batch = upload.batch().await;
        upload.acknowledge(batch.sequence).await;
        taken.insert(batch.sequence, batch);
    }
    assert_eq!((requests(&taken, v1::Outcome::Allowed), requests(&taken, v1::Outcome::Denied)), (5, 1));
    until("everything is acknowledged", async || (served.agent.status().spool_bytes == 0).then_some(())).await;
    served.stop().await;
}

#[tokio::test]
async fn checks_go_on_while_nobody_takes_the_events() {
    let mut upstream = Upstream::start().await;
    let (served, _sync) = start(&mut upstream).await;
    upstream.stop();
    assert_eq!(served.admitted(&json!({ "subject": "s" }), 50).await, 5);
    until("a batch waits", async || (served.agent.status().spool_bytes > 0).then_some(())).await;
    assert_eq!(served.agent.status().dropped_events, 0);
    served.agent.shutdown_within(std::time::Duration::from_millis(50)).await;
}
