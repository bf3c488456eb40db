//! BB-35: the database is away, and agents get their rules all the same.

use tonic::Code;
use weir_proto::v1;
use weir_proto::v1::agent_message::Message as FromAgent;
use weir_proto::v1::server_message::Message as ToAgent;

use super::bed::{Bed, rules};
use super::events::batch;
use super::wire::{Sync, Upload, hello};

#[tokio::test]
async fn bb_35_new_and_known_agents_are_served_from_memory_and_nothing_is_lost() {
    let bed = Bed::new().await;
    let address = bed.control_plane.grpc_addr();
    let other = bed.agent_token("others", &["default"]).await;
    let mut known = Sync::open(address, &bed.agent_token, hello("known")).await.unwrap();
    let settled = known.settle().await;
    let mut taken = Sync::open(address, &other, hello("taken")).await.unwrap();
    taken.settle().await;
    drop(taken);
    bed.agent_becomes("known", |agent| agent["domains"][0]["state"] == "current").await;
    bed.agent_becomes("taken", |agent| agent["connected"] == false).await;

    // The testbed's server does not wait for its disk: what was committed a moment ago would not outlive it otherwise.
    sqlx::query("CHECKPOINT").execute(&bed.pool()).await.unwrap();
    bed.postgres.kill().await;
    // An agent that nobody has seen before, one that comes back with what it has, and one under a name that is not its own.
    let mut fresh = Sync::open(address, &bed.agent_token, hello("fresh")).await.unwrap();
    assert_eq!(fresh.settle().await.limit(), 100);
    drop(known);
    let know = v1::Hello { have: vec![settled.have.clone()], ..hello("known") };
    let mut known = Sync::open(address, &bed.agent_token, know).await.unwrap();
    while !matches!(known.next_but_ping().await, Some(ToAgent::UpToDate(up)) if up.current.as_ref() == Some(&settled.have)) {}
    // Writes and reads of operators say so, and events are not acknowledged.
    assert_eq!(bed.admin.send("POST", "/v1/apply", &[], Some(&rules(5))).await.status, 503);
    assert_eq!(bed.admin.get("/v1/agents").await.status, 503);
    let away = Upload::open(address, &bed.agent_token).await.unwrap().store(batch("known", 1)).await.unwrap_err();
    assert_eq!(away.code(), Code::Unavailable);

    for stream in [&fresh, &known] {
        stream.send(FromAgent::Heartbeat(v1::Heartbeat::default())).await;
    }
    let mut thief = Sync::open(address, &bed.agent_token, hello("taken")).await.unwrap();

    bed.postgres.restart().await.unwrap();
    assert!(thief.refusal().await.contains("another token"), "found out as soon as the database can tell");
    bed.agent_becomes("fresh", |agent| agent["connected"] == true && agent["domains"][0]["state"] == "current").await;
    bed.agent_becomes("known", |agent| agent["connected"] == true && agent["domains"][0]["state"] == "current").await;
    bed.apply(&rules(6)).await;
    for stream in [&mut fresh, &mut known] {
        assert_eq!(stream.snapshot("default").await.limit(), 6);
    }
}
