//! What is known of agents: the API says who runs what, who refused what, and who is gone.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use weir_core::item::SetHash;
use weir_proto::v1;
use weir_proto::v1::agent_message::Message as FromAgent;
use weir_proto::v1::server_message::Message as ToAgent;

use super::bed::{Bed, PATIENCE, rules};
use super::events::now;
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
    assert_eq!((&agent["build"], &agent["time_zones"]), (&"0.1.0".into(), &"2026b".into()));
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
    let warning = v1::ShardWarning { code: "evicts_counters".into(), text: "it evicts".into() };
    let node = v1::NodeHealth { node: "10.0.0.1:1".into(), breaker: "open".into(), last_error: "refused".into() };
    let shard = v1::ShardHealth {
        shard: "a".into(),
        breaker: "open".into(),
        last_error: "refused".into(),
        warnings: vec![warning],
        memory_bytes: 900,
        memory_limit_bytes: 1_000,
        guarded: true,
        nodes: vec![node],
    };
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
    let shard = &agent["shards"][0];
    assert_eq!((&shard["breaker"], &shard["nodes"][0]["node"], &shard["guarded"]), (&"open".into(), &"10.0.0.1:1".into(), &true.into()));
    assert_eq!((&agent["ring"]["state"], &agent["domains"][0]["domain"]), (&"current".into(), &"default".into()));
    bed.admin.send("POST", "/v1/shards", &[], Some(&serde_json::json!({ "name": "a", "address": "redis://127.0.0.1:1" }))).await;
    let seen = &bed.admin.get("/v1/shards/a").await.body["warnings"];
    assert_eq!(*seen, serde_json::json!([{ "code": "evicts_counters", "text": "it evicts", "agents": 1 }]));
    assert_eq!(bed.admin.get("/v1/shards").await.body["items"][0]["warnings"], *seen);
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
async fn bb_40_agents_of_a_crashed_replica_show_as_gone_and_the_dead_are_forgotten() {
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

#[tokio::test]
async fn one_agent_that_the_database_refuses_holds_up_nobody() {
    let bed = Bed::new().await;
    let address = bed.control_plane.grpc_addr();
    // A revision that no database can hold.
    let liar =
        v1::Hello { have: vec![v1::Have { revision: u64::MAX, ..v1::Have::rules("default", 1, SetHash([7; 32])) }], ..hello("liar") };
    let mut lying = Sync::open(address, &bed.agent_token, liar).await.unwrap();
    lying.snapshot("default").await;
    // And whatever else it may be that one agent says.
    let trigger = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE numeric_value_out_of_range; END $$; \
                   CREATE TRIGGER refuse BEFORE UPDATE ON agents FOR EACH ROW WHEN (new.decisions_per_second = 666) EXECUTE FUNCTION refuse()";
    sqlx::raw_sql(trigger).execute(&bed.pool()).await.unwrap();
    let mut bad = Sync::open(address, &bed.agent_token, hello("bad")).await.unwrap();
    bad.settle().await;
    bad.send(FromAgent::Heartbeat(v1::Heartbeat { decisions_per_second: 666.0, ..v1::Heartbeat::default() })).await;
    let mut good = Sync::open(address, &bed.agent_token, hello("good")).await.unwrap();
    good.settle().await;
    bed.agent_becomes("good", |agent| agent["domains"][0]["state"] == "current").await;
    assert_eq!(bed.agent("liar").await["domains"][0]["revision"], 0);
}

#[tokio::test]
async fn a_database_that_was_restored_is_followed() {
    let bed = Bed::new().await;
    let mut stream = Sync::open(bed.control_plane.grpc_addr(), &bed.agent_token, hello("gw-1")).await.unwrap();
    let backup = stream.settle().await;
    for limit in [1, 2, 3] {
        bed.apply(&rules(limit)).await;
        let arrived = stream.snapshot("default").await;
        stream.ack(&arrived.have).await;
    }
    // The backup was made before these three.
    let restore = "UPDATE sets SET revision = 1, hash = (SELECT hash FROM revisions WHERE domain = 'default' AND revision = 1) WHERE domain = 'default'; \
                   DELETE FROM revisions WHERE domain = 'default' AND revision > 1; \
                   DELETE FROM revision_items WHERE domain = 'default' AND from_revision > 1; \
                   UPDATE revision_items SET until_revision = NULL WHERE domain = 'default' AND from_revision = 1";
    sqlx::raw_sql(restore).execute(&bed.pool()).await.unwrap();
    assert_eq!(stream.snapshot("default").await.have, backup.have);
    stream.ack(&backup.have).await;
    assert_eq!(bed.apply(&rules(7)).await, 2);
    assert_eq!(stream.snapshot("default").await.limit(), 7);
}

#[tokio::test]
async fn what_is_reported_is_what_was_published_and_when() {
    let bed = Bed::new().await;
    let mut stream = Sync::open(bed.control_plane.grpc_addr(), &bed.agent_token, hello("gw-1")).await.unwrap();
    stream.settle().await;
    let revision = bed.apply(&rules(7)).await;
    let rules = stream.snapshot("default").await;
    stream.ack(&rules.have).await;
    bed.agent_becomes("gw-1", |agent| agent["domains"][0]["revision"] == revision).await;
    let agent = bed.admin.get("/v1/agents").await.body["items"][0].take();
    let published = bed.admin.get(&format!("/v1/revisions/{revision}")).await.body;
    assert_eq!((&agent["domains"][0]["hash"], agent["domains"][0]["hash"].as_str().map(str::len)), (&published["hash"], Some(64)));
    assert_eq!(published["agents"]["current"], serde_json::json!(["gw-1"]));
    let seen: jiff::Timestamp = agent["last_seen"].as_str().unwrap().parse().unwrap();
    assert!((now() - seen.as_second()).abs() <= 30, "{agent}");
}

#[tokio::test]
async fn the_hash_secret_is_nowhere_but_in_its_message() {
    let bed = Bed::new().await;
    let shard = serde_json::json!({ "name": "s1", "address": "redis://127.0.0.1:1", "username": "weir", "password": "hunter2-hunter2" });
    assert_eq!(bed.admin.send("POST", "/v1/shards", &[], Some(&shard)).await.status, 201);
    let mut first = Sync::open(bed.control_plane.grpc_addr(), &bed.agent_token, hello("gw-0")).await.unwrap();
    let secret = loop {
        if let Some(ToAgent::Secrets(secrets)) = first.next_but_ping().await
            && let Some(shard) = secrets.shards.first()
        {
            assert_eq!((secrets.hash_secret.len(), shard.password.as_str()), (32, "hunter2-hunter2"));
            break secrets.hash_secret;
        }
    };
    let mut stream = Sync::open(bed.control_plane.grpc_addr(), &bed.agent_token, hello("gw-1")).await.unwrap();
    let (ring, rules) = (stream.snapshot("").await, stream.snapshot("default").await);
    stream.ack(&rules.have).await;
    bed.agent_becomes("gw-1", |agent| agent["domains"][0]["state"] == "current").await;
    let mut seen = vec![ring.plain, rules.plain];
    for path in ["/v1/shards", "/v1/shards/s1", "/v1/agents", "/v1/agents/gw-1", "/v1/audit", "/v1/export", "/v1/revisions", "/metrics"] {
        let answer = bed.admin.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        seen.push(answer.text.into_bytes());
    }
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let base64 = [STANDARD_NO_PAD.encode(&secret), URL_SAFE_NO_PAD.encode(&secret)];
    let forms = [secret, hex.to_uppercase().into_bytes(), hex.into_bytes(), b"hunter2".to_vec()].into_iter();
    for form in forms.chain(base64.map(String::into_bytes)) {
        for text in &seen {
            assert!(!text.windows(form.len()).any(|window| window == form), "{}", String::from_utf8_lossy(text));
        }
    }
}
