//! The stream of configuration: what the agent says, takes, refuses, keeps and starts from.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod served;
mod upstream;

use std::time::Duration;

use serde_json::json;
use served::{Served, until};
use upstream::{Upstream, rules, tls_path};
use weir_agent::rules::store::Origin;
use weir_agent::settings::{Counters, RulesFrom};
use weir_agent::{Agent, AgentStatus, StartError};
use weir_core::item::{Item, SetHash};
use weir_proto::v1;
use weir_proto::v1::agent_message::Message as FromAgent;
use weir_proto::v1::server_message::Message as FromServer;

fn secrets() -> v1::Secrets {
    let shard = v1::ShardCredentials { shard: "s1".into(), password: "hunter2".into(), ..Default::default() };
    v1::Secrets { hash_secret: vec![9; 32], shards: vec![shard], fingerprint: "f1".into() }
}

/// A shard at a port where nobody listens: what is tested here is the ring's way, not its use.
fn ring() -> Vec<Item> {
    let body = br#"{"name":"s1","address":"redis://127.0.0.1:1/0","weight":1}"#.to_vec();
    vec![Item { kind: "shard".into(), name: "s1".into(), body, requires: vec![] }]
}

async fn limit(served: &Served) -> u64 {
    served.decide(&json!({ "subject": "look", "cost": 0 })).await["limit"].as_u64().unwrap_or_default()
}

async fn until_status(agent: &Agent, what: &str, condition: impl Fn(&AgentStatus) -> bool) -> AgentStatus {
    until(what, async || Some(agent.status()).filter(|status| condition(status))).await
}

#[tokio::test]
async fn an_agent_takes_secrets_ring_and_rules_and_says_so() {
    let mut upstream = Upstream::start().await;
    let agent = Agent::start(upstream.settings(None)).await.unwrap();
    let mut sync = upstream.sync().await;
    assert_eq!((sync.token.as_str(), sync.hello.agent.as_str(), sync.hello.boot.as_str()), ("Bearer weir_test", "a1", agent.boot()));
    assert_eq!((sync.hello.domains.as_slice(), sync.hello.have.as_slice()), (["default".to_owned()].as_slice(), [].as_slice()));
    assert!(sync.hello.features.contains(&"algorithm:fixed_window".to_owned()));
    assert!(!agent.status().ready);
    let target = v1::Have::ring(3, SetHash::of(&ring()));
    sync.snapshot(&target, &ring()).await;
    assert_eq!(sync.hear().await, FromAgent::Ack(v1::Ack { applied: Some(target) }));
    let warnings = agent.status().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("hash secret")), "{warnings:?}");
    sync.say(FromServer::Secrets(secrets())).await;
    until_status(&agent, "the secret is in force", |status| status.warnings.is_empty()).await;
    sync.give_rules(7, &rules(5)).await;
    let status = agent.status();
    assert!(status.ready && status.connected && status.stale_seconds == Some(0.0), "{status:?}");
    assert_eq!(status.ring.map(|ring| (ring.revision, ring.origin)), Some((3, Origin::ControlPlane)));
    assert_eq!(status.shards.iter().map(|shard| shard.name.to_string()).collect::<Vec<_>>(), ["s1"]);
    assert_eq!(sync.heartbeat().await.shards[0].shard, "s1");
    agent.shutdown().await;
    sync.closed().await;
}

#[tokio::test]
async fn an_agent_that_is_dropped_leaves_nothing_running() {
    let mut upstream = Upstream::start().await;
    let agent = Agent::start(upstream.settings(None)).await.unwrap();
    let mut sync = upstream.sync().await;
    drop(agent);
    sync.closed().await;
}

#[tokio::test]
async fn a_change_is_in_force_when_it_is_acknowledged_and_counters_live_on() {
    let mut upstream = Upstream::start().await;
    let mut settings = upstream.settings(None);
    settings.counters = Counters::Memory;
    let served = Served::start(settings).await;
    let mut sync = upstream.sync().await;
    sync.give_rules(1, &rules(5)).await;
    assert_eq!(served.admitted(&json!({ "subject": "s" }), 4).await, 4);
    sync.give_rules(2, &rules(6)).await;
    assert_eq!(served.admitted(&json!({ "subject": "s" }), 4).await, 2);
    sync.give_rules(3, &rules(3)).await;
    assert_eq!((limit(&served).await, served.admitted(&json!({ "subject": "s" }), 1).await), (3, 0));
    served.stop().await;
}

#[tokio::test]
async fn what_cannot_be_used_is_refused_with_reasons_and_the_last_good_stays() {
    let mut upstream = Upstream::start().await;
    let mut settings = upstream.settings(None);
    settings.counters = Counters::Memory;
    let served = Served::start(settings).await;
    let mut sync = upstream.sync().await;
    let kept = v1::Have::rules("default", 1, SetHash::of(&rules(5)));
    sync.give_rules(1, &rules(5)).await;
    let mut bad = rules(6);
    let rule = bad.iter_mut().find(|item| item.kind == "rule").unwrap();
    rule.body = String::from_utf8(rule.body.clone()).unwrap().replace("365d", "999d").into_bytes();
    let nack = sync.refused_rules(v1::Have::rules("default", 2, SetHash::of(&bad)), &bad).await;
    assert_eq!((nack.refused.unwrap().revision, nack.kept.as_ref(), nack.temporary), (2, Some(&kept), false));
    assert!(nack.errors.iter().any(|error| error.contains("window")), "{:?}", nack.errors);
    // Items that are not those that were announced.
    let nack = sync.refused_rules(v1::Have::rules("default", 3, SetHash::of(&rules(8))), &rules(7)).await;
    assert_eq!((nack.errors.len(), nack.kept.as_ref()), (1, Some(&kept)));
    // A domain that nobody asked for.
    let nack = sync.refused_rules(v1::Have::rules("other", 4, SetHash::of(&rules(7))), &rules(7)).await;
    assert_eq!((nack.errors.len(), nack.kept), (1, None));
    assert_eq!(limit(&served).await, 5);
    let warnings = served.agent.status().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("window")), "{warnings:?}");
    assert_eq!(sync.heartbeat().await.warnings, warnings);
    sync.give_rules(5, &rules(9)).await;
    assert_eq!((limit(&served).await, served.agent.status().warnings.len()), (9, 0));
    served.stop().await;
}

#[tokio::test]
async fn an_item_of_the_future_costs_that_item_not_the_set() {
    let mut upstream = Upstream::start().await;
    let mut settings = upstream.settings(None);
    settings.counters = Counters::Memory;
    let served = Served::start(settings).await;
    let mut sync = upstream.sync().await;
    let mut items = rules(5);
    items.push(Item { kind: "rule".into(), name: "new".into(), body: b"{}".to_vec(), requires: vec!["algorithm:quantum".into()] });
    sync.give_rules(1, &items).await;
    assert_eq!(limit(&served).await, 5);
    assert!(served.agent.status().warnings.iter().any(|warning| warning.contains("new")), "{:?}", served.agent.status());
    served.stop().await;
}

/// BB-35 (the agent's side): with no control plane to be reached, an agent starts at once from its disk, decides by its last good rules,
/// and says how old they are.
#[tokio::test]
async fn bb_35_an_agent_starts_from_disk_and_says_how_stale_it_is() {
    let state = tempfile::tempdir().unwrap();
    let mut upstream = Upstream::start().await;
    let settings = upstream.settings(Some(state.path()));
    let agent = Agent::start(settings.clone()).await.unwrap();
    let mut sync = upstream.sync().await;
    sync.say(FromServer::Secrets(secrets())).await;
    sync.snapshot(&v1::Have::ring(3, SetHash::of(&ring())), &ring()).await;
    assert!(matches!(sync.hear().await, FromAgent::Ack(_)));
    sync.give_rules(7, &rules(5)).await;
    agent.shutdown().await;
    let address = upstream.address;
    upstream.stop();

    let served = Served::start(settings).await;
    let status = served.agent.status();
    assert!(status.ready && !status.connected, "{status:?}");
    let domain = status.domains[0].rules.as_ref().unwrap();
    assert_eq!((domain.revision, domain.origin, status.ring.unwrap().revision), (7, Origin::Disk, 3));
    assert_eq!(status.shards.len(), 1);
    let body = served.get("/readyz").await.json();
    assert_eq!((&body["ready"], &body["connected"], &body["domains"][0]["rules"]["origin"]), (&json!(true), &json!(false), &json!("disk")));
    assert!(body["stale_seconds"].as_f64().is_some_and(|seconds| (0.0..60.0).contains(&seconds)), "{body}");
    assert_eq!(served.decide(&json!({ "subject": "s" })).await["revision"], 7);
    until_status(&served.agent, "why it is not connected", |status| status.last_error.is_some()).await;

    // It is back: the agent says what it has, so nothing needs to be sent.
    let mut upstream = Upstream::start_at(address).await;
    let mut sync = upstream.sync().await;
    let have = [v1::Have::ring(3, SetHash::of(&ring())), v1::Have::rules("default", 7, SetHash::of(&rules(5)))];
    assert_eq!((sync.hello.have.as_slice(), sync.hello.secrets_fingerprint.as_str()), (have.as_slice(), "f1"));
    let fingerprint = weir_core::key::HashSecret::new([9; 32]).fingerprint();
    assert_eq!(sync.hello.secret_fingerprint, fingerprint);
    for current in have {
        sync.say(FromServer::UpToDate(v1::UpToDate { current: Some(current) })).await;
    }
    let status = until_status(&served.agent, "connected", |status| status.connected).await;
    assert_eq!((status.stale_seconds, status.last_error), (Some(0.0), None));
    assert_eq!(sync.heartbeat().await.stale_seconds, 0);
    served.stop().await;
}

#[tokio::test]
async fn a_damaged_disk_costs_its_content_not_the_start() {
    let state = tempfile::tempdir().unwrap();
    for name in ["rules-default.state", "ring.state", "secrets.state", "confirmed.state"] {
        std::fs::write(state.path().join(name), "weir-state 1 0000\n{}").unwrap();
    }
    let mut upstream = Upstream::start().await;
    let agent = Agent::start(upstream.settings(Some(state.path()))).await.unwrap();
    assert!(!agent.status().ready);
    let mut sync = upstream.sync().await;
    assert!(sync.hello.have.is_empty() && sync.hello.secrets_fingerprint.is_empty());
    sync.give_rules(1, &rules(5)).await;
    assert!(agent.status().ready);
    agent.shutdown().await;
}

/// Rules that cannot be kept are in force all the same; the refusal is for the time being, and the same set is taken when it comes again.
#[tokio::test]
async fn a_disk_that_cannot_be_written_is_a_passing_reason() {
    let parent = tempfile::tempdir().unwrap();
    let state = parent.path().join("state");
    let mut upstream = Upstream::start().await;
    let mut settings = upstream.settings(Some(&state));
    settings.counters = Counters::Memory;
    let served = Served::start(settings).await;
    let mut sync = upstream.sync().await;
    std::fs::remove_dir(&state).unwrap();
    let target = v1::Have::rules("default", 1, SetHash::of(&rules(5)));
    let nack = sync.refused_rules(target.clone(), &rules(5)).await;
    assert_eq!((nack.temporary, nack.kept), (true, Some(target)));
    assert_eq!(limit(&served).await, 5);
    std::fs::create_dir(&state).unwrap();
    sync.give_rules(1, &rules(5)).await;
    served.stop().await;
}

#[tokio::test]
async fn a_stream_that_is_silent_drained_or_refused_is_opened_anew() {
    let mut upstream = Upstream::start().await;
    let mut settings = upstream.settings(None);
    if let RulesFrom::ControlPlane(control_plane) = &mut settings.rules {
        control_plane.silence = Duration::from_secs(1);
    }
    let agent = Agent::start(settings).await.unwrap();
    let mut silent = upstream.sync().await;
    silent.give_rules(1, &rules(5)).await;
    // Says nothing more: the agent gives it up.
    silent.closed().await;
    let status = until_status(&agent, "silence is noticed", |status| !status.connected).await;
    assert!(status.last_error.is_some_and(|error| error.contains("silent")));
    let mut drained = upstream.sync().await;
    assert_eq!(drained.hello.have.len(), 1);
    drained.say(FromServer::Drain(v1::Drain { reconnect_after_ms: 50 })).await;
    drained.closed().await;
    let mut refused = upstream.sync().await;
    refused.say(FromServer::Refuse(v1::Refuse { reason: "this name belongs to another token".into(), retry_after_ms: 100 })).await;
    refused.closed().await;
    until_status(&agent, "the reason", |status| status.last_error.as_deref() == Some("this name belongs to another token")).await;
    let last = upstream.sync().await;
    assert_eq!(last.hello.boot, refused.hello.boot);
    last.say(FromServer::Ping(v1::Ping::default())).await;
    until_status(&agent, "connected again", |status| status.connected && status.ready && status.last_error.is_none()).await;
    agent.shutdown().await;
}

#[tokio::test]
async fn bundled_rules_serve_until_the_control_plane_has_spoken() {
    let folder = tempfile::tempdir().unwrap();
    let bundled = folder.path().join("rules.yaml");
    let text = r#"{ domain: default, tiers: [{ name: free, default: true }], rules: [{ name: all, key: [subject], limits: { "*": { limit: 2, window: 1h } } }] }"#;
    std::fs::write(&bundled, text).unwrap();
    let mut upstream = Upstream::start().await;
    let mut settings = upstream.settings(None);
    settings.counters = Counters::Memory;
    if let RulesFrom::ControlPlane(control_plane) = &mut settings.rules {
        control_plane.bundled_rules = Some(bundled);
    }
    let served = Served::start(settings).await;
    assert_eq!(limit(&served).await, 2);
    let mut sync = upstream.sync().await;
    // The number of a file's reading is no revision that a control plane would know.
    assert!(sync.hello.have.is_empty());
    sync.give_rules(4, &rules(5)).await;
    assert_eq!(limit(&served).await, 5);
    served.stop().await;
}

#[tokio::test]
async fn plain_text_beyond_loopback_needs_to_be_allowed() {
    let upstream = Upstream::start().await;
    let with_url = |url: &str, allow: bool| {
        let mut settings = upstream.settings(None);
        if let RulesFrom::ControlPlane(control_plane) = &mut settings.rules {
            url.clone_into(&mut control_plane.url);
            control_plane.allow_plaintext = allow;
        }
        settings
    };
    for url in ["http://192.0.2.1:7071", "http://[2001:db8::1]:7071", "ftp://127.0.0.1:1", "127.0.0.1:7071", "http://"] {
        assert!(matches!(Agent::start(with_url(url, false)).await, Err(StartError::Uplink(_))), "{url}");
    }
    for (url, allow) in
        [("http://localhost:1", false), ("http://[::1]:1", false), ("http://127.0.0.1:1", false), ("http://192.0.2.1:1", true)]
    {
        let agent = Agent::start(with_url(url, allow)).await.unwrap();
        agent.shutdown_within(Duration::ZERO).await;
    }
}

#[tokio::test]
async fn tls_is_believed_only_with_a_known_authority() {
    let mut upstream = Upstream::start_tls().await;
    let with_authorities = |path: Option<std::path::PathBuf>| {
        let mut settings = upstream.settings(None);
        if let RulesFrom::ControlPlane(control_plane) = &mut settings.rules {
            control_plane.url = format!("https://localhost:{}", upstream.address.port());
            control_plane.ca_file = path;
        }
        settings
    };
    let (trusting, missing) = (with_authorities(Some(tls_path("certificate.pem"))), with_authorities(Some("/no/such/file".into())));
    // Another authority than the one that signed.
    let doubting = with_authorities(Some(tls_path("stranger.pem")));
    assert!(matches!(Agent::start(missing).await, Err(StartError::Uplink(_))));
    let agent = Agent::start(doubting).await.unwrap();
    let status = until_status(&agent, "the certificate is refused", |status| status.last_error.is_some()).await;
    assert!(!status.connected && !status.ready, "{status:?}");
    agent.shutdown_within(Duration::ZERO).await;
    let agent = Agent::start(trusting).await.unwrap();
    let mut sync = upstream.sync().await;
    sync.give_rules(1, &rules(5)).await;
    assert!(agent.status().ready);
    agent.shutdown().await;
}
