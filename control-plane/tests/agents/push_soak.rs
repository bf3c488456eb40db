//! Long runs, with `make soak`: many agents, and agents that come and go.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream;
use tonic::transport::Channel;
use weir_proto::v1;
use weir_proto::v1::server_message::Message as ToAgent;
use weir_testbed::await_until;

use super::bed::{Bed, PATIENCE, rules};
use super::wire::{Sync, channel, hello};

const AGENTS: usize = 1_000;
/// Connections that they share, as sidecars of one host would not, but this machine has to.
const CONNECTIONS: usize = 10;

async fn channels(bed: &Bed) -> Vec<Channel> {
    stream::iter(0..CONNECTIONS).then(async |_| channel(bed.control_plane.grpc_addr()).await).collect().await
}

async fn open(bed: &Bed, channels: &[Channel], have: &[v1::Have]) -> Vec<Sync> {
    let open = async |i: usize| {
        let hello = v1::Hello { have: have.to_vec(), ..hello(&format!("gw-{i}")) };
        Sync::over(channels[i % CONNECTIONS].clone(), &bed.agent_token, hello).await.unwrap()
    };
    stream::iter(0..AGENTS).map(open).buffer_unordered(50).collect().await
}

async fn current(bed: &Bed, revision: u64) -> usize {
    let body = bed.admin.get(&format!("/v1/revisions/{revision}")).await.body;
    body["agents"]["current"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: make soak"]
async fn soak_a_thousand_agents_take_a_change_and_reconnect_without_a_payload() {
    let bed = Bed::new().await;
    let channels = channels(&bed).await;
    let mut agents = open(&bed, &channels, &[]).await;
    let mut have = Vec::new();
    for agent in &mut agents {
        let (ring, rules) = (agent.snapshot("").await, agent.snapshot("default").await);
        agent.ack(&rules.have).await;
        have = vec![ring.have, rules.have];
    }
    assert!(await_until(PATIENCE, async || current(&bed, have[1].revision).await == AGENTS).await);

    let published = Instant::now();
    let revision = bed.apply(&rules(7)).await;
    let mut times: Vec<Duration> = stream::iter(&mut agents)
        .map(async |agent| {
            let rules = agent.snapshot("default").await;
            agent.ack(&rules.have).await;
            published.elapsed()
        })
        .buffer_unordered(AGENTS)
        .collect()
        .await;
    times.sort();
    let p99 = times[AGENTS * 99 / 100];
    assert!(p99 < Duration::from_secs(1), "{p99:?}");
    assert!(await_until(PATIENCE, async || current(&bed, revision).await == AGENTS).await);

    drop(agents);
    let mut one = Sync::over(channels[0].clone(), &bed.agent_token, hello("one-more")).await.unwrap();
    let newest = vec![one.snapshot("").await.have, one.snapshot("default").await.have];
    for agent in &mut open(&bed, &channels, &newest).await {
        for _ in 0..2 {
            let message = agent.next_but_ping().await;
            assert!(matches!(message, Some(ToAgent::UpToDate(_) | ToAgent::Secrets(_))), "{message:?}");
        }
    }
}

/// BB-40: five hundred agents with new names, half of which vanish without a word.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: make soak"]
async fn soak_bb_40_agents_that_come_and_go_leave_nothing() {
    let bed = Bed::with(|settings| settings.agents_kept = Duration::from_secs(60)).await;
    for i in 0..500 {
        let mut agent = Sync::open(bed.control_plane.grpc_addr(), &bed.agent_token, hello(&format!("gone-{i}"))).await.unwrap();
        let rules = agent.snapshot("default").await;
        agent.ack(&rules.have).await;
    }
    let mut one = Sync::open(bed.control_plane.grpc_addr(), &bed.agent_token, hello("stays")).await.unwrap();
    while one.ping().await.live_agents.get("default") != Some(&1) {}
    let gone = await_until(Duration::from_secs(120), async || {
        one.send(v1::agent_message::Message::Heartbeat(v1::Heartbeat::default())).await;
        bed.number("SELECT count(*) FROM agents").await == 1
    });
    assert!(gone.await, "{} rows are left", bed.number("SELECT count(*) FROM agents").await);
    assert_eq!(bed.number("SELECT count(DISTINCT agent) FROM agent_sets").await, 1);
}
