//! A shard that is a Redis Cluster.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weir_agent::limiter::breaker::BreakerState;
use weir_agent::limiter::{LimitQuery, Limiter, LimiterSettings};
use weir_core::decision::Cause;
use weir_core::key::CounterKey;
use weir_testbed::{Cluster, Flavor, await_until, slot_of};

use crate::support::*;

async fn start(primaries: u16) -> Cluster {
    Cluster::start(Flavor::available().expect("a server"), primaries).await.expect("starts")
}

fn url(cluster: &Cluster) -> String {
    format!("redis+cluster://{}", cluster.addrs().expect("TCP"))
}

async fn limiter_on(cluster: &Cluster, settings: LimiterSettings) -> Arc<Limiter> {
    limiter_with(settings, [url(cluster).as_str()]).await
}

fn slot(key: &CounterKey) -> u16 {
    slot_of(key.as_bytes())
}

/// Keys of different subjects in this slot.
fn keys_in(wanted: u16, rule: &str) -> impl Iterator<Item = CounterKey> {
    (0..).map(move |n| key(&format!("user-{n}"), rule)).filter(move |key| slot(key) == wanted)
}

/// BB-16: each client is limited exactly, whatever braces are in its id, and requests of several windows never cross slots.
#[tokio::test(flavor = "multi_thread")]
async fn exact_bb_16_odd_ids_on_a_cluster() {
    let cluster = start(3).await;
    let limiter = limiter_on(&cluster, patient()).await;
    let odd = ["{", "}", "{}", "{a}b", "a{b}{c}", "{{a}}", "}{"];
    let ids: Vec<String> =
        (0..1_000).map(|n| if n % 10 == 0 { format!("{}{n}", odd[n / 10 % odd.len()]) } else { format!("client-{n}") }).collect();
    let limiter = &limiter;
    let clients = ids.iter().map(|id| async move {
        let queries = ["minute", "hour"].map(|rule| query(key(&format!("user:{id}"), rule), 3));
        let mut allowed = 0;
        for _ in 0..5 {
            let answers = decide(limiter, &queries).await;
            assert!(answers.iter().all(|answer| answer.degraded.is_none()), "{id}: {answers:?}");
            assert!(answers.iter().all(|answer| answer.reply.remaining <= 3));
            allowed += usize::from(is_admitted(&queries, &answers));
        }
        allowed
    });
    let allowed = futures::future::join_all(clients).await;
    assert!(allowed.iter().all(|allowed| *allowed == 3), "{allowed:?}");
    let mut nodes = HashMap::new();
    for (index, node) in cluster.nodes().iter().enumerate() {
        nodes.insert(index, node.ask(&["DBSIZE"]).await.expect("answers").text().parse::<u64>().expect("a number"));
    }
    assert!(nodes.values().all(|keys| *keys > 300), "every node counts: {nodes:?}");
}

/// Limits of one request in different slots: all or nothing, with a refund, as over several shards.
#[tokio::test(flavor = "multi_thread")]
async fn exact_limits_in_different_slots_are_all_or_nothing() {
    let cluster = start(3).await;
    let limiter = limiter_on(&cluster, patient()).await;
    let subject = key("user:a", "r");
    let other = (0..).map(|n| key(&format!("user:{n}"), "global")).find(|key| slot(key) != slot(&subject)).expect("endless");
    let queries = [query(subject, 10), query(other, 2)];
    let mut admitted = 0;
    for _ in 0..5 {
        let answers = decide(&limiter, &queries).await;
        assert!(answers.iter().all(|answer| answer.degraded.is_none()), "{answers:?}");
        admitted += usize::from(is_admitted(&queries, &answers));
    }
    assert_eq!(admitted, 2);
    let back = await_until(RECOVERY, async || remaining(&limiter, &queries[0]).await == 8);
    assert!(back.await, "what the refused requests took came back");
}

/// One node in trouble: its slots are answered in time without it, the others' never notice, and all is well soon after.
#[tokio::test(flavor = "multi_thread")]
async fn fault_a_node_of_a_cluster_stalls_alone() {
    let cluster = start(3).await;
    // The others must not take the cluster for broken: that takes the stalled node's slots from all.
    for node in cluster.nodes() {
        node.ask(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]).await.expect("set");
    }
    let limiter = limiter_on(&cluster, LimiterSettings::default()).await;
    let mut questions = Vec::new();
    for node in 0..3 {
        let mut found = None;
        for n in 0.. {
            let key = key(&format!("user-{n}"), "r");
            if cluster.owner(slot(&key)).await.expect("somebody's") == node {
                found = Some(query(key, 1_000_000));
                break;
            }
        }
        questions.push(found.expect("endless"));
    }
    cluster.nodes()[0].pause().await;
    let (mut late, mut after) = (0, 0);
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        let (broken, took) = timed(&limiter, &questions[0]).await;
        assert!(broken.degraded.is_some(), "{broken:?}");
        late += usize::from(took > BUDGET + MARGIN);
        for healthy in &questions[1..] {
            assert_eq!(decide(&limiter, std::slice::from_ref(healthy)).await[0].degraded, None);
        }
        after += usize::from(broken.degraded.map(|degraded| degraded.cause) == Some(Cause::BreakerOpen));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(late <= 3 && after > 100, "{late} late, {after} without a call");
    let status = limiter.shards().remove(0);
    assert_eq!(status.nodes.iter().filter(|node| node.breaker == BreakerState::Closed).count(), 2, "{status:?}");
    assert!(status.last_error.is_some());
    cluster.nodes()[0].resume().await;
    let normal = async || timed(&limiter, &questions[0]).await.0.degraded.is_none() && limiter.shards()[0].breaker == BreakerState::Closed;
    assert!(await_until(RECOVERY, normal).await, "{:?}", limiter.shards());
}

/// MOVED and ASK: while slots move under load, to a node that is new as well, every counter admits exactly its limit, and nothing is degraded.
#[tokio::test(flavor = "multi_thread")]
async fn exact_resharding_under_load() {
    const LIMIT: u64 = 400;
    const CLIENTS: u16 = 12;
    let mut cluster = start(3).await;
    let limiter = limiter_on(&cluster, patient()).await;
    cluster.add_node().await.expect("joins");
    let slots: Vec<u16> = (0..CLIENTS).map(|n| 1_000 + n * 1_000).collect();
    let questions: Vec<LimitQuery> =
        slots.iter().flat_map(|slot| keys_in(*slot, "r").take(2).collect::<Vec<_>>()).map(|key| query(key, LIMIT)).collect();
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let load: Vec<_> = questions
        .iter()
        .cloned()
        .map(|question| {
            let (limiter, stop, asked) = (limiter.clone(), stop.clone(), asked.clone());
            tokio::spawn(async move {
                let mut admitted = 0;
                let mut last = None;
                while !stop.load(Ordering::Relaxed) || last != Some(false) {
                    let answer = decide(&limiter, std::slice::from_ref(&question)).await.remove(0);
                    assert_eq!(answer.degraded, None);
                    admitted += u64::from(answer.reply.allowed);
                    last = Some(answer.reply.allowed);
                    asked.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                admitted
            })
        })
        .collect();
    for slot in &slots {
        cluster.begin_move(*slot, 3).await.expect("begins");
        tokio::time::sleep(Duration::from_millis(40)).await;
        cluster.finish_move(*slot, 3).await.expect("ends");
    }
    stop.store(true, Ordering::Relaxed);
    for (question, load) in questions.iter().zip(load) {
        assert_eq!(load.await.expect("no panic"), LIMIT, "{:?}", question.call.key);
    }
    assert!(asked.load(Ordering::Relaxed) > LIMIT * 24);
    for slot in &slots {
        assert_eq!(cluster.owner(*slot).await.expect("somebody's"), 3);
    }
    let reloads = metric(&limiter, "weir_shard_connections_total{shard=\"s0\"}");
    assert_eq!(reloads, 4.0, "one connection per node, and each has the script from the beginning");
}

/// CLUSTERDOWN: a cluster with a hole refuses all keys; it is back as soon as the hole is closed.
#[tokio::test(flavor = "multi_thread")]
async fn fault_a_cluster_that_is_down() {
    let cluster = start(3).await;
    let limiter = limiter_on(&cluster, LimiterSettings::default()).await;
    let question = query(keys_in(3, "r").next().expect("endless"), 1_000_000);
    assert_eq!(in_time(&limiter, &question).await.degraded, None);
    cluster.nodes()[2].kill().await;
    let down = await_until(RECOVERY, async || in_time(&limiter, &question).await.degraded.is_some()).await;
    assert!(down, "the other nodes refuse");
    let told = || limiter.shards()[0].last_error.clone().unwrap_or_default();
    assert!(await_until(RECOVERY, async || !told().is_empty()).await);
    cluster.nodes()[2].restart().await.expect("starts again");
    cluster.settled().await.expect("whole again");
    assert!(await_until(RECOVERY, async || in_time(&limiter, &question).await.degraded.is_none()).await, "{:?}", limiter.shards());
}
