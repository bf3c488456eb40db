//! What trouble leaves behind: nothing is counted twice, nothing passes twice, and nobody flaps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_agent::limiter::{LimitQuery, LimiterSettings, RingConfig};
use weir_core::counter::CounterCall;
use weir_core::failure::FailureMode;
use weir_core::limit::Algorithm;
use weir_testbed::{Flavor, Mode, Proxy, Sentineled, await_until};

use super::bed::{Bed, Effect, Run};
use super::troubles::Names;
use crate::support::*;

/// A consume that timed out may have counted, and is never sent again: each of these counted once or not at all.
#[tokio::test(flavor = "multi_thread")]
async fn fault_what_timed_out_is_never_sent_again() {
    let bed = Bed::new().await;
    bed.proxy.set_mode(Mode::Delay(BUDGET * 2)).await;
    let questions: Vec<LimitQuery> = (0..40)
        .map(|n| key(&format!("once-{n}"), "r"))
        .filter(|key| bed.limiter.shard_of(key).is_some_and(|shard| shard == "s0"))
        .map(|key| query(key, 100))
        .collect();
    for question in &questions {
        assert!(in_time(&bed.limiter, question).await.degraded.is_some());
    }
    bed.proxy.set_mode(Mode::Forward).await;
    bed.recovers().await;
    let mut left = Vec::new();
    for question in &questions {
        left.push(remaining(&bed.limiter, question).await);
    }
    assert!(left.iter().all(|left| [99, 100].contains(left)), "{left:?}");
    assert!(left.contains(&99), "some had counted: {left:?}");
}

/// Loss and recovery let pass at most one further capacity: what the shard knew when it went, and what was counted here meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn fault_recovery_gives_no_second_burst() {
    const LIMIT: u64 = 20;
    let bed = Bed::new().await;
    let call = CounterCall::check(key_on(&bed.limiter, "s0", "burst"), bound(Algorithm::TokenBucket, LIMIT, MINUTE * 600), 1);
    let question = LimitQuery { call, on_failure: policy(FailureMode::Local), overflow: None };
    let mut passed = 0;
    let mut ask = async |times: u32, expect_degraded: bool| {
        for _ in 0..times {
            let answer = in_time(&bed.limiter, &question).await;
            passed += u64::from(answer.reply.allowed);
            // What the shard had refused a moment before is refused again without it.
            assert!(!expect_degraded || answer.degraded.is_some() || !answer.reply.allowed, "{answer:?}");
        }
        passed
    };
    assert_eq!(ask(15, false).await, 15);
    for round in 0..3 {
        bed.proxy.set_mode(Mode::Refuse).await;
        ask(40, true).await;
        bed.proxy.set_mode(Mode::Forward).await;
        bed.recovers().await;
        let passed = ask(40, false).await;
        assert!(passed <= 2 * LIMIT, "{passed} in round {round}");
    }
    let passed = ask(1, false).await;
    assert!(passed >= LIMIT, "{passed}");
}

/// BB-19: a shard that is there for a second and away for the next moves nobody: the others' keys stay with them and are counted, and the shard
/// is not called for more often than its breaker's pauses allow.
#[tokio::test(flavor = "multi_thread")]
async fn fault_bb_19_a_flapping_shard() {
    let run = Run::of(Duration::from_secs(6));
    let _ = flapping(run).await || flapping(run.again()).await;
}

async fn flapping(run: Run) -> bool {
    let bed = Bed::new().await;
    let keys: Vec<_> = (0..2_000).map(|n| key(&format!("user-{n}"), "r")).collect();
    let owners = || keys.iter().map(|key| bed.limiter.shard_of(key)).collect::<Vec<_>>();
    let (before, connections) = (owners(), bed.proxy.accepted());
    let flapping = async {
        for _ in 0..3 {
            bed.proxy.set_mode(Mode::Refuse).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            bed.proxy.set_mode(Mode::Forward).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let ((), valid) = futures::join!(flapping, bed.endures(run, Effect::Some));
    assert_eq!(owners(), before);
    assert!(bed.proxy.accepted() - connections <= 8, "{} connections", bed.proxy.accepted() - connections);
    bed.recovers().await;
    valid
}

/// A name that leads elsewhere while the old server lives on: the connection follows it, and nothing is degraded on the way.
#[tokio::test(flavor = "multi_thread")]
async fn fault_a_living_connection_follows_its_name() {
    let run = Run::of(RECOVERY);
    let _ = followed(run).await || followed(run.again()).await;
}

async fn followed(run: Run) -> bool {
    let (servers, second) = (redises(3).await, redis().await);
    let proxy = Proxy::start(servers[0].addr().expect("TCP")).await.expect("a port");
    let names = Arc::new(Names(Mutex::new(proxy.addr())));
    let settings = LimiterSettings { resolver: names.clone(), ..LimiterSettings::default() };
    let bed = Bed::of(settings, servers, proxy, "redis://shard.test:6379".to_owned()).await;
    *names.0.lock() = second.addr().expect("TCP");
    let valid = bed.endures(run, Effect::Some).await;
    assert_eq!(bed.proxy.open(), 0, "nobody is left at the old address: {:?}", bed.limiter.shards());
    assert_ne!(second.ask(&["DBSIZE"]).await.expect("answers").text(), "0");
    assert_eq!(metric(&bed.limiter, "weir_shard_errors_total{shard=\"s0\",cause=\"error\"}"), 0.0);
    assert_eq!(metric(&bed.limiter, "weir_shard_connections_total{shard=\"s0\"}"), 2.0);
    valid
}

/// A name whose server gives out its addresses in turn, as load balancers' do: where one has no use, the connection that there is stays, and
/// nobody waits for another.
#[tokio::test(flavor = "multi_thread")]
async fn fault_a_name_with_a_dead_address_keeps_its_connection() {
    let (server, gone) = (redis().await, redis().await);
    let (alive, dead) = (server.addr().expect("TCP"), gone.addr().expect("TCP"));
    drop(gone);
    let names = Arc::new(Names(Mutex::new(alive)));
    let settings = LimiterSettings { resolver: names.clone(), ..LimiterSettings::default() };
    let limiter = limiter_with(settings, ["redis://shard.test:6379"]).await;
    let question = query(key("user:a", "r"), 1_000_000);
    *names.0.lock() = dead;
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        assert_eq!(in_time(&limiter, &question).await.degraded, None, "{:?}", limiter.shards());
    }
    assert_eq!(metric(&limiter, "weir_shard_connections_total{shard=\"s0\"}"), 1.0);
}

/// BB-15: sentinels move the primary though it is well; counts go on at the new one.
#[tokio::test(flavor = "multi_thread")]
async fn fault_bb_15_an_ordered_failover() {
    let watched = Sentineled::start(Flavor::available().expect("a server"), 3, None).await.expect("starts");
    let address = format!("redis+sentinel://{}/{}", watched.addrs().expect("TCP"), watched.name());
    let limiter = limiter_with(LimiterSettings::default(), [address.as_str()]).await;
    let question = query(key("user:a", "r"), 1_000);
    assert_eq!(in_time(&limiter, &question).await.degraded, None);
    watched.fail_over().await.expect("fails over");
    let counted = async || {
        let answer = in_time(&limiter, &question).await;
        let there = watched.servers()[1].ask(&["INFO", "commandstats"]).await.expect("answers");
        answer.degraded.is_none() && there.text().contains("cmdstat_evalsha")
    };
    assert!(await_until(RECOVERY, counted).await, "{:?}", limiter.shards());
}

/// BB-17: five rounds in which one shard loses its script, one restarts empty and one fails over: no check is refused because of it.
#[tokio::test(flavor = "multi_thread")]
async fn fault_bb_17_five_rounds_of_flush_restart_and_failover() {
    let watched = Sentineled::start(Flavor::available().expect("a server"), 1, None).await.expect("starts");
    let servers = redises(2).await;
    let sentinel = format!("redis+sentinel://{}/{}", watched.addrs().expect("TCP"), watched.name());
    let limiter = limiter_with(LimiterSettings::default(), [servers[0].url().as_str(), &servers[1].url(), &sentinel]).await;
    let questions = ["s0", "s1", "s2"].map(|shard| query(key_on(&limiter, shard, "rounds"), 1_000_000));
    let count = |name: &str, shard: usize| metric(&limiter, &format!("weir_shard_{name}_total{{shard=\"s{shard}\"}}"));
    let reloads = [0, 1, 2].map(|shard| count("script_reloads", shard));
    for round in 0..5 {
        let trouble = async {
            servers[0].ask(&["SCRIPT", "FLUSH"]).await.expect("flushes");
            servers[1].restart().await.expect("starts again");
            watched.fail_over().await.expect("fails over");
        };
        let load = async {
            let end = Instant::now() + Duration::from_millis(1_500);
            while Instant::now() < end {
                for (shard, question) in questions.iter().enumerate() {
                    let answer = in_time(&limiter, question).await;
                    // A lost script is the business of the call that finds out, and of nobody else; a server that starts again is away for a moment.
                    let counted = answer.degraded.is_none() && answer.reply.allowed;
                    assert!(counted || shard > 0 && answer.degraded.is_some(), "round {round}, shard {shard}: {answer:?}");
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        futures::join!(trouble, load);
        let counted = async || {
            let answers = futures::future::join_all(questions.iter().map(|question| in_time(&limiter, question))).await;
            answers.iter().all(|answer| answer.degraded.is_none())
        };
        assert!(await_until(RECOVERY, counted).await, "round {round}: {:?}", limiter.shards());
    }
    let again = [0, 1, 2].map(|shard| count("script_reloads", shard) - reloads[shard]);
    assert_eq!(again, [5.0, 0.0, 0.0], "one reload per flush; whoever connects anew brings the script along");
}

/// A counter whose shard is another one by now admits at most one further capacity; the others go on as they were. Both agents go by the newer
/// ring as soon as they have it.
#[tokio::test(flavor = "multi_thread")]
async fn exact_a_moved_counter_admits_one_further_capacity() {
    const LIMIT: usize = 5;
    let servers = redises(3).await;
    let urls: Vec<String> = servers.iter().map(weir_testbed::Redis::url).collect();
    let agents = [limiter(&servers[..2]).await, limiter(&servers[..2]).await];
    let questions: Vec<LimitQuery> = (0..60).map(|n| query(key(&format!("user-{n}"), "r"), LIMIT as u64)).collect();
    let exhaust = async |question: &LimitQuery| {
        let mut passed = 0;
        for turn in 0..2 * LIMIT {
            let answer = decide(&agents[turn % 2], std::slice::from_ref(question)).await.remove(0);
            assert_eq!(answer.degraded, None);
            passed += usize::from(answer.reply.allowed);
        }
        passed
    };
    let owners = |agent: usize| questions.iter().map(|question| agents[agent].shard_of(&question.call.key)).collect::<Vec<_>>();
    let before = owners(0);
    for question in &questions {
        assert_eq!(exhaust(question).await, LIMIT);
    }
    for agent in &agents {
        agent.set_ring(RingConfig { version: 2, ..ring(urls.iter().map(String::as_str)) });
        agent.settled().await;
        assert_eq!(agent.ring_version(), 2);
    }
    let after = owners(0);
    assert_eq!(after, owners(1));
    let mut moved = 0;
    for (question, (before, after)) in questions.iter().zip(before.iter().zip(&after)) {
        moved += usize::from(before != after);
        assert_eq!(exhaust(question).await, if before == after { 0 } else { LIMIT });
    }
    assert!((10..=32).contains(&moved), "about a third: {moved}");
}
