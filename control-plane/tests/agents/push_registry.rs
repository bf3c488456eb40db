//! What is known of agents: the API says who runs what, who refused what, and who is gone.

use std::time::Duration;

use weir_proto::v1;
use weir_proto::v1::agent_message::Message as FromAgent;

use super::bed::{Bed, PATIENCE, rules};
use super::wire::{Sync, hello};
use weir_testbed::await_until;

#[tokio::test]
async fn a_refused_revision_is_shown_with_its_reason_and_not_sent_again() {
    let bed = Bed::new().await;
    let address = bed.control_plane.grpc_addr();
    let mut stream = Sync::open(address, &bed.agent_token, hello("gw-1")).await.unwrap();
    let good = stream.settle().await;
    let bad_revision = bed.apply(&rules(2)).await;
    let bad = stream.snapshot("default").await;
    stream.nack(&bad.have, false).await;
    let agent = bed.agent_becomes("gw-1", |agent| agent["domains"][0]["state"] == "refused").await;
    assert_eq!(agent["domains"][0]["revision"], good.have.revision);
    assert_eq!(agent["domains"][0]["errors"][0], "/rules/0: no such algorithm");
    assert!(agent["last_error"].as_str().unwrap().contains("no such algorithm"));
    let revision = bed.admin.get(&format!("/v1/revisions/{bad_revision}")).await.body;
    assert_eq!(revision["agents"]["refused"][0]["agent"], "gw-1");
    assert_eq!(revision["agents"]["refused"][0]["errors"][0], "/rules/0: no such algorithm");
    assert!(stream.is_quiet_for(Duration::from_millis(300)).await);

    // Not on a new stream either, but a new build of the agent is asked again.
    drop(stream);
    let know = v1::Hello { have: vec![good.have], ..hello("gw-1") };
    let mut stream = Sync::open(address, &bed.agent_token, know.clone()).await.unwrap();
    assert!(stream.snapshot("").await.have.domain.is_empty());
    assert!(stream.is_quiet_for(Duration::from_millis(300)).await);
    stream.send(FromAgent::Heartbeat(v1::Heartbeat { decisions_per_second: 1.5, ..v1::Heartbeat::default() })).await;
    let agent = bed.agent_becomes("gw-1", |agent| agent["decisions_per_second"] == 1.5).await;
    assert_eq!(
        (&agent["domains"][0]["state"], &agent["domains"][0]["errors"][0]),
        (&"refused".into(), &"/rules/0: no such algorithm".into())
    );
    drop(stream);
    let mut stream = Sync::open(address, &bed.agent_token, v1::Hello { build: "0.2.0".into(), ..know }).await.unwrap();
    assert_eq!(stream.snapshot("default").await.have, bad.have);

    // What comes after is another matter.
    bed.apply(&rules(3)).await;
    let next = stream.snapshot("default").await;
    stream.ack(&next.have).await;
    let agent = bed.agent_becomes("gw-1", |agent| agent["domains"][0]["state"] == "current").await;
    assert!(agent["domains"][0]["errors"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn what_is_refused_for_a_passing_reason_comes_again() {
    let bed = Bed::new().await;
    let mut stream = Sync::open(bed.control_plane.grpc_addr(), &bed.agent_token, hello("gw-1")).await.unwrap();
    let first = stream.snapshot("default").await;
    stream.nack(&first.have, true).await;
    bed.agent_becomes("gw-1", |agent| agent["domains"][0]["state"] == "refused").await;
    let again = stream.snapshot("default").await;
    assert_eq!(again.have, first.have);
    stream.ack(&again.have).await;
    bed.agent_becomes("gw-1", |agent| agent["domains"][0]["state"] == "current").await;
}

#[tokio::test]
async fn heartbeats_are_shown_and_a_closed_stream_is_not_connected() {
    let bed = Bed::new().await;
    let mut stream = Sync::open(bed.control_plane.grpc_addr(), &bed.agent_token, hello("gw-1")).await.unwrap();
    let rules = stream.settle().await;
    let shard = v1::ShardHealth { shard: "a".into(), breaker: "open".into(), last_error: "refused".into() };
    let heartbeat = v1::Heartbeat {
        warnings: vec!["shard a is away".into(), "nul \0 here".into()],
        shards: vec![shard],
        decisions_per_second: 12.5,
        stale_seconds: 0,
        dropped_events: 3,
    };
    stream.send(FromAgent::Heartbeat(heartbeat)).await;
    let agent = bed.agent_becomes("gw-1", |agent| agent["decisions_per_second"] == 12.5).await;
    assert_eq!((&agent["warnings"][0], &agent["dropped_events"]), (&"shard a is away".into(), &3.into()));
    assert_eq!(agent["shards"][0]["breaker"], "open");
    assert_eq!((&agent["ring"]["state"], &agent["domains"][0]["domain"]), (&"current".into(), &"default".into()));
    assert_eq!(bed.admin.send("DELETE", "/v1/agents/gw-1", &[], None).await.status, 409, "it is connected");

    drop(stream);
    let agent = bed.agent_becomes("gw-1", |agent| agent["connected"] == false).await;
    assert_eq!((&agent["domains"][0]["state"], &agent["domains"][0]["revision"]), (&"offline".into(), &rules.have.revision.into()));
    let list = bed.admin.get("/v1/agents").await.body;
    assert_eq!((list["items"].as_array().unwrap().len(), &list["next_page_token"]), (1, &"".into()));
    assert_eq!(bed.admin.send("DELETE", "/v1/agents/gw-1", &[], None).await.status, 204);
    assert_eq!(bed.admin.get("/v1/agents/gw-1").await.status, 404);
}

#[tokio::test]
async fn the_newest_stream_of_an_agent_wins_on_whichever_replica() {
    let bed = Bed::new().await;
    let mut first = Sync::open(bed.control_plane.grpc_addr(), &bed.agent_token, hello("gw-1")).await.unwrap();
    first.settle().await;
    let mut second = Sync::open(bed.control_plane.grpc_addr(), &bed.agent_token, hello("gw-1")).await.unwrap();
    assert!(first.refusal().await.contains("newer stream"));
    second.settle().await;

    let replica = bed.replica().await;
    let mut third = Sync::open(replica.grpc_addr(), &bed.agent_token, hello("gw-1")).await.unwrap();
    third.settle().await;
    second.send(FromAgent::Heartbeat(v1::Heartbeat::default())).await;
    assert!(second.refusal().await.contains("newer stream"));
    bed.agent_becomes("gw-1", |agent| agent["connected"] == true && agent["domains"][0]["state"] == "current").await;
    // A change made through one replica reaches the streams of the other.
    bed.apply(&rules(9)).await;
    assert_eq!(third.snapshot("default").await.limit(), 9);
    replica.shutdown().await;
}

#[tokio::test]
async fn agents_of_a_crashed_replica_show_as_gone_and_the_dead_are_forgotten() {
    let bed = Bed::with(|settings| settings.agents_kept = Duration::from_secs(3_600)).await;
    let pool = bed.pool();
    // What a replica leaves that died: rows that say connected, and nobody to say otherwise.
    let insert = "INSERT INTO agents (name, stream, connected_to, connected_since, last_seen) \
                  SELECT 'dead-' || i, gen_random_uuid(), gen_random_uuid(), now(), now() - make_interval(mins => i) FROM generate_series(1, 100) i";
    sqlx::query(insert).execute(&pool).await.unwrap();
    let sets = "INSERT INTO agent_sets (agent, domain) SELECT name, 'default' FROM agents";
    sqlx::query(sets).execute(&pool).await.unwrap();
    let mut stream = Sync::open(bed.control_plane.grpc_addr(), &bed.agent_token, hello("alive")).await.unwrap();
    stream.settle().await;
    let forgotten = async || sqlx::query_scalar::<_, i64>("SELECT count(*) FROM agents").fetch_one(&pool).await.unwrap() == 60;
    assert!(await_until(PATIENCE, forgotten).await, "59 dead of the last hour, and the one that lives");
    assert_eq!(bed.number("SELECT count(DISTINCT agent) FROM agent_sets").await, 60);
    assert_eq!(bed.agent("dead-5").await["connected"], false);
    while stream.ping().await.live_agents.get("default") != Some(&1) {}
}
