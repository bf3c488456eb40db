//! Long runs, with `make soak`: how many rows of events are stored in a second.

use std::time::Instant;

use weir_proto::v1::Outcome;

use super::bed::Bed;
use super::events::{aggregate, batch, now};
use super::wire::Upload;

const BATCHES: u64 = 40;
const ROWS: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: make soak"]
async fn soak_fifty_thousand_rows_a_second() {
    let bed = Bed::new().await;
    let address = bed.control_plane.grpc_addr();
    let second = now() - 600;
    let agents = (0..4).map(|agent| {
        let token = bed.agent_token.clone();
        // Rows as agents send them: many seconds of some hundred rules.
        let rows: Vec<_> =
            (0..ROWS).map(|i| aggregate(second + i64::try_from(i / 500).unwrap(), &format!("r{}", i % 250), outcome(i), 1)).collect();
        tokio::spawn(async move {
            let mut upload = Upload::open(address, &token).await.unwrap();
            for sequence in 1..=BATCHES / 4 {
                let mut events = batch(&format!("gw-{agent}"), sequence);
                events.aggregates.clone_from(&rows);
                assert!(upload.store(events).await.unwrap().stored);
            }
        })
    });
    let started = Instant::now();
    for agent in agents.collect::<Vec<_>>() {
        agent.await.unwrap();
    }
    let all = BATCHES * u64::try_from(ROWS).unwrap();
    assert_eq!(bed.number("SELECT sum(requests)::bigint FROM traffic_1m").await, i64::try_from(all).unwrap());
    let per_second = all / u64::try_from(started.elapsed().as_millis()).unwrap().max(1) * 1_000;
    assert!(per_second >= 50_000, "{per_second} rows a second");
}

fn outcome(i: usize) -> Outcome {
    if i.is_multiple_of(2) { Outcome::Allowed } else { Outcome::Denied }
}
