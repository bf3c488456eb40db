//! What a stream carries.

use std::time::{Duration, Instant};

use serde_json::json;
use weir_proto::v1;
use weir_proto::v1::agent_message::Message as FromAgent;
use weir_proto::v1::server_message::Message as ToAgent;

use super::bed::{Bed, rules};
use super::wire::{Sync, hello};

#[tokio::test]
async fn secrets_then_ring_then_rules_and_a_change_within_a_second() {
    let bed = Bed::new().await;
    let mut stream = Sync::open(bed.control_plane.grpc_addr(), &bed.agent_token, hello("gw-1")).await.unwrap();
    let Some(ToAgent::Secrets(secrets)) = stream.next_but_ping().await else { panic!("secrets come first") };
    assert_eq!(secrets.hash_secret.len(), 32);
    let Some(ToAgent::Snapshot(ring)) = stream.next_but_ping().await else { panic!("then the ring") };
    assert!(ring.target.unwrap().domain.is_empty() && ring.last);
    let first = stream.snapshot("default").await;
    assert_eq!((first.limit(), first.chunks), (100, 1));
    stream.ack(&first.have).await;

    let published = Instant::now();
    let revision = bed.apply(&rules(7)).await;
    let second = stream.snapshot("default").await;
    assert!(published.elapsed() < Duration::from_secs(1), "took {:?}", published.elapsed());
    assert_eq!((second.have.revision, second.limit()), (revision, 7));
}

#[tokio::test]
async fn no_secret_is_in_a_snapshot() {
    let bed = Bed::new().await;
    let shard = json!({ "name": "a", "address": "redis://127.0.0.1:6379", "username": "weir-user", "password": "correct-horse" });
    assert_eq!(bed.admin.send("POST", "/v1/shards", &[], Some(&shard)).await.status, 201);
    let mut stream = Sync::open(bed.control_plane.grpc_addr(), &bed.agent_token, hello("gw-1")).await.unwrap();
    let credentials = loop {
        match stream.next_but_ping().await.unwrap() {
            ToAgent::Secrets(mut secrets) if !secrets.shards.is_empty() => break secrets.shards.remove(0),
            _ => {}
        }
    };
    assert_eq!((credentials.username.as_str(), credentials.password.as_str()), ("weir-user", "correct-horse"));
    drop(stream);
    let mut stream = Sync::open(bed.control_plane.grpc_addr(), &bed.agent_token, hello("gw-1")).await.unwrap();
    for set in ["", "default"] {
        let text = String::from_utf8_lossy(&stream.snapshot(set).await.plain).into_owned();
        for secret in ["correct-horse", "weir-user", "password"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        assert!(!set.is_empty() || text.contains("redis://127.0.0.1:6379"));
    }
}

#[tokio::test]
async fn changed_credentials_are_sent_to_open_streams() {
    let bed = Bed::new().await;
    let mut stream = Sync::open(bed.control_plane.grpc_addr(), &bed.agent_token, hello("gw-1")).await.unwrap();
    stream.settle().await;
    let shard = json!({ "name": "a", "address": "redis://127.0.0.1:6379", "password": "one" });
    assert_eq!(bed.admin.send("POST", "/v1/shards", &[], Some(&shard)).await.status, 201);
    let Some(ToAgent::Secrets(secrets)) = stream.next_but_ping().await else { panic!("secrets come before the ring that needs them") };
    assert_eq!(secrets.shards[0].password, "one");
    assert_eq!(stream.snapshot("").await.items.len(), 1);
}

#[tokio::test]
async fn who_has_it_all_gets_no_payload() {
    let bed = Bed::new().await;
    let address = bed.control_plane.grpc_addr();
    let mut stream = Sync::open(address, &bed.agent_token, hello("gw-1")).await.unwrap();
    let Some(ToAgent::Secrets(secrets)) = stream.next_but_ping().await else { panic!("secrets come first") };
    let (ring, rules) = (stream.snapshot("").await, stream.snapshot("default").await);
    drop(stream);
    let know = v1::Hello { have: vec![ring.have, rules.have.clone()], secrets_fingerprint: secrets.fingerprint, ..hello("gw-1") };
    let mut stream = Sync::open(address, &bed.agent_token, know).await.unwrap();
    for set in ["", "default"] {
        let Some(ToAgent::UpToDate(up)) = stream.next_but_ping().await else { panic!("only UpToDate") };
        assert_eq!(up.current.unwrap().domain, set);
    }
    assert!(stream.is_quiet_for(Duration::from_millis(300)).await);
    let agent = bed.agent_becomes("gw-1", |agent| agent["domains"][0]["state"] == "current").await;
    assert_eq!(agent["domains"][0]["revision"], rules.have.revision);
}

#[tokio::test]
async fn a_large_set_comes_in_chunks_and_a_slow_reader_gets_the_newest() {
    let bed = Bed::new().await;
    let mut document = rules(1);
    // Text that does not compress, some hundred kilobytes of it.
    let rule = |i: usize| {
        let noise: String = (0..30).map(|_| format!("{:016x}", rand::random::<u64>())).collect();
        json!({ "name": format!("r{i}"), "description": noise, "key": ["subject"], "limits": { "*": { "limit": 5, "window": "60s" } } })
    };
    document["rules"].as_array_mut().unwrap().extend((0..600).map(rule));
    bed.apply(&document).await;
    let mut stream = Sync::open(bed.control_plane.grpc_addr(), &bed.agent_token, hello("gw-1")).await.unwrap();
    while stream.snapshot("default").await.chunks < 3 {}

    // The reader stops: what fits into the buffers is sent, and then the newest only.
    let revisions = 20;
    let mut last = 0;
    for limit in 2..2 + revisions {
        document["rules"][0]["limits"]["*"]["limit"] = json!(limit);
        last = bed.apply(&document).await;
    }
    let mut seen = Vec::new();
    while seen.last() != Some(&last) {
        seen.push(stream.snapshot("default").await.have.revision);
    }
    assert!(seen.is_sorted() && seen.len() < usize::try_from(revisions).unwrap(), "{seen:?}");
}

#[tokio::test]
async fn pings_tell_the_newest_and_how_many_live() {
    let bed = Bed::new().await;
    let address = bed.control_plane.grpc_addr();
    let mut one = Sync::open(address, &bed.agent_token, hello("gw-1")).await.unwrap();
    let mut two = Sync::open(address, &bed.agent_token, hello("gw-2")).await.unwrap();
    let revision = two.settle().await.have.revision;
    let mut ping = one.ping().await;
    while ping.live_agents.get("default") != Some(&2) || ping.latest.iter().all(|have| have.revision != revision) {
        ping = one.ping().await;
    }
    drop(two);
    while one.ping().await.live_agents.get("default") != Some(&1) {}
}

#[tokio::test]
async fn a_stopping_control_plane_drains_its_streams() {
    let bed = Bed::new().await;
    let mut stream = Sync::open(bed.control_plane.grpc_addr(), &bed.agent_token, hello("gw-1")).await.unwrap();
    let rules = stream.settle().await;
    let drained = async {
        let Some(ToAgent::Drain(drain)) = stream.next_but_ping().await else { panic!("no Drain") };
        assert!(drain.reconnect_after_ms > 0);
        assert!(stream.next().await.is_none());
        drop(stream);
    };
    let (bed, ()) = tokio::join!(bed.restart(), drained);
    assert_eq!(bed.agent("gw-1").await["connected"], false, "the last thing it wrote");
    let know = v1::Hello { have: vec![rules.have], ..hello("gw-1") };
    let mut stream = Sync::open(bed.control_plane.grpc_addr(), &bed.agent_token, know).await.unwrap();
    while !matches!(stream.next_but_ping().await, Some(ToAgent::UpToDate(up)) if up.current.as_ref().unwrap().domain == "default") {}
}

#[tokio::test]
async fn the_first_message_must_be_a_sane_hello() {
    let bed = Bed::new().await;
    let address = bed.control_plane.grpc_addr();
    for (hello, word) in [
        (hello("no spaces"), "letters"),
        (v1::Hello { domains: vec![], ..hello("gw-1") }, "domains"),
        (v1::Hello { boot: "x".repeat(100), ..hello("gw-1") }, "boot"),
    ] {
        let mut stream = Sync::open(address, &bed.agent_token, hello).await.unwrap();
        let reason = stream.refusal().await;
        assert!(reason.contains(word), "{reason}");
    }
    let mut stream = Sync::open(address, &bed.agent_token, hello("gw-1")).await.unwrap();
    // A second Hello changes nothing.
    stream.send(FromAgent::Hello(hello("gw-2"))).await;
    stream.settle().await;
    assert_eq!(bed.admin.get("/v1/agents/gw-2").await.status, 404);
}
