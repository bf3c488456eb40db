//! What is found out about shards: warnings, memory, and whose secret they are counted with.

use std::sync::Arc;
use std::time::Duration;

use weir_agent::limiter::breaker::BreakerState;
use weir_agent::limiter::warning::Code;
use weir_agent::limiter::{Limiter, LimiterSettings};
use weir_core::clock::SystemClock;
use weir_core::decision::Cause;
use weir_core::key::HashSecret;
use weir_testbed::{Cluster, Flavor, Redis, RedisSettings, await_until};

use crate::support::*;

const DAY: Duration = Duration::from_secs(86_400);

/// A limiter that knows its secret's fingerprint and its longest window before it meets shards.
async fn meet(urls: &[&str], fingerprint: &str, window: Duration) -> Limiter {
    let limiter = Limiter::new(LimiterSettings::default(), Arc::new(SystemClock));
    limiter.set_secret_fingerprint(fingerprint.to_owned());
    limiter.set_longest_window(window);
    limiter.set_ring(ring(urls.iter().copied()));
    limiter.settled().await;
    limiter
}

fn codes(limiter: &Limiter) -> Vec<Code> {
    limiter.shards()[0].warnings.iter().map(|warning| warning.code).collect()
}

async fn start(flavor: Flavor, extra: &[(&str, &str)]) -> Redis {
    let extra = extra.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Redis::start(RedisSettings { flavor, extra, ..RedisSettings::default() }).await.expect("starts")
}

#[tokio::test]
async fn what_endangers_counters_is_told() {
    for flavor in Flavor::ALL {
        let careless = start(flavor, &[("maxmemory", "50mb"), ("maxmemory-policy", "volatile-lru")]).await;
        let limiter = meet(&[&careless.url()], "f1", DAY).await;
        assert_eq!(codes(&limiter), [Code::EvictsCounters, Code::NoPersistence], "{flavor:?}");
        let text = limiter.shards()[0].warnings.iter().map(ToString::to_string).collect::<String>();
        assert!(text.contains("volatile-lru") && text.contains("24 h") && text.contains("evicts_counters"), "{text}");
        assert_eq!(metric(&limiter, "weir_shard_warnings{shard=\"s0\",code=\"evicts_counters\"}"), 1.0);

        // Short windows need no persistence, and that is seen at once.
        limiter.set_longest_window(Duration::from_secs(3600));
        assert!(await_until(RECOVERY, async || codes(&limiter) == [Code::EvictsCounters]).await);

        let limitless = start(flavor, &[]).await;
        assert_eq!(codes(&meet(&[&limitless.url()], "f1", MINUTE).await), [Code::NoMemoryLimit]);
        let limited = format!("{}?memory_limit=50000000", limitless.url());
        assert_eq!(codes(&meet(&[&limited], "f1", MINUTE).await), []);
        let careful = start(flavor, &[("maxmemory", "50mb"), ("appendonly", "yes")]).await;
        assert_eq!(codes(&meet(&[&careful.url()], "f1", DAY).await), []);
        let snapshots = start(flavor, &[("maxmemory", "50mb"), ("save 60", "1")]).await;
        assert_eq!(codes(&meet(&[&snapshots.url()], "f1", DAY).await), []);
    }
}

/// An ACL user that may only count is no trouble, and what cannot be read is said.
#[tokio::test]
async fn a_server_that_says_nothing_of_itself_counts_all_the_same() {
    for flavor in Flavor::ALL {
        let server = start(flavor, &[("maxmemory", "50mb")]).await;
        let user = ["ACL", "SETUSER", "weir", "on", ">other", "~{*", "+evalsha", "+script|load", "+client", "+time", "+@read", "+@write"];
        server.ask(&user).await.expect("set");
        let url = format!("redis://weir:other@{}", server.addr().expect("TCP"));
        let limiter = meet(&[&url], "f1", DAY).await;
        assert_eq!(codes(&limiter), [Code::Unreadable]);
        assert_eq!(decide(&limiter, &[query(key("a", "r"), 10)]).await[0].degraded, None);
        server.ask(&["ACL", "SETUSER", "weir", "+info"]).await.expect("set");
        // Whether it saves anything is still unknown.
        assert_eq!(codes(&meet(&[&url], "f1", DAY).await), [Code::NoPersistence]);
    }
}

/// Above 85 % of the memory there is no room for new counters; below 75 % there is again.
#[tokio::test]
async fn fault_a_full_shard_takes_no_new_counters() {
    for flavor in Flavor::ALL {
        let server = start(flavor, &[]).await;
        let limiter = meet(&[&format!("{}?memory_limit=24000000", server.url())], "f1", MINUTE).await;
        let guarded = || limiter.shards()[0].memory.guarded;
        assert!(!guarded());
        let ballast = "x".repeat(1 << 20);
        for n in 0..20 {
            server.ask(&["SET", &format!("ballast-{n}"), &ballast]).await.expect("stored");
        }
        assert!(await_until(RECOVERY, async || guarded()).await, "{:?}", limiter.shards());
        assert_eq!(metric(&limiter, "weir_shard_guarded{shard=\"s0\"}"), 1.0);
        assert!(metric(&limiter, "weir_shard_memory_bytes{shard=\"s0\"}") > f64::from(20 << 20));
        server.ask(&["FLUSHALL"]).await.expect("gone");
        assert!(await_until(RECOVERY, async || !guarded()).await, "{:?}", limiter.shards());
    }
}

/// The first agent marks the shard with its secret; one with another secret keeps away from it and says why.
#[tokio::test]
async fn fault_a_foreign_secret_is_told_and_not_counted_with() {
    for flavor in Flavor::ALL {
        let server = start(flavor, &[("maxmemory", "50mb")]).await;
        let url = server.url();
        let first = meet(&[&url], "aaaa", MINUTE).await;
        let question = query(key("a", "r"), 10);
        assert_eq!(in_time(&first, &question).await.degraded, None);
        let life: u64 = server.ask(&["TTL", "{weir:hash-secret}"]).await.expect("answers").text().parse().expect("a number");
        assert!((29 * 86_400..=30 * 86_400).contains(&life), "{life}");

        let stranger = meet(&[&url], "bbbb", MINUTE).await;
        assert_eq!(in_time(&stranger, &question).await.degraded.map(|degraded| degraded.cause), Some(Cause::BreakerOpen));
        let status = stranger.shards().remove(0);
        assert_eq!((status.breaker, codes(&stranger)), (BreakerState::Open, vec![Code::ForeignHashSecret]));
        assert!(status.last_error.is_some_and(|error| error.contains("another hash secret") && error.contains("aaaa")));
        assert_eq!(in_time(&first, &question).await.degraded, None);

        // Rotation: whoever knew the old secret marks the shard anew, and then it is the others that are strangers, until they have the new one.
        first.set_secret_fingerprint("cccc".to_owned());
        let marked = async || server.ask(&["GET", "{weir:hash-secret}"]).await.is_ok_and(|mark| mark.text() == "cccc");
        assert!(await_until(RECOVERY, marked).await);
        assert_eq!(in_time(&first, &question).await.degraded, None);
        stranger.set_secret_fingerprint("cccc".to_owned());
        assert!(await_until(RECOVERY, async || in_time(&stranger, &question).await.degraded.is_none()).await, "{:?}", stranger.shards());
        assert_eq!((codes(&stranger), stranger.shards()[0].last_error.clone()), (vec![], None));
    }
}

/// A shard that can be read and not written to is still a stranger's; it does not become ours while its memory is full.
#[tokio::test]
async fn fault_a_foreign_secret_is_not_forgotten_where_nothing_can_be_written() {
    for flavor in Flavor::ALL {
        let server = start(flavor, &[]).await;
        let url = server.url();
        let first = meet(&[&url], "aaaa", MINUTE).await;
        let stranger = meet(&[&url], "bbbb", MINUTE).await;
        let question = query(key("a", "r"), 10);
        // Full: the line is down, and is tried again. Not full any more: the shard is looked at every second, since it is foreign.
        for maxmemory in ["1", "0"] {
            server.ask(&["CONFIG", "SET", "maxmemory", maxmemory]).await.expect("set");
            let count = async || match maxmemory {
                "1" => metric(&stranger, "weir_shard_connections_total{shard=\"s0\"}") as u64,
                _ => calls_of(&server, "set").await,
            };
            let before = count().await;
            let still_foreign = async || {
                assert_eq!(codes(&stranger).first(), Some(&Code::ForeignHashSecret));
                assert_eq!(in_time(&stranger, &question).await.degraded.map(|degraded| degraded.cause), Some(Cause::BreakerOpen));
                count().await >= before + 2
            };
            assert!(await_until(LONG, still_foreign).await, "maxmemory {maxmemory}: {:?}", stranger.shards());
        }
        // Or it marks the shard again.
        first.shutdown().await;
        server.ask(&["DEL", "{weir:hash-secret}"]).await.expect("gone");
        assert!(await_until(RECOVERY, async || in_time(&stranger, &question).await.degraded.is_none()).await, "{:?}", stranger.shards());
    }
}

/// Agents that had no secret yet do not lock out those that have one.
#[tokio::test]
async fn the_mark_of_the_built_in_secret_gives_way() {
    let server = redis().await;
    let built_in = HashSecret::built_in().fingerprint();
    let _without = meet(&[&server.url()], &built_in, MINUTE).await;
    assert_eq!(server.ask(&["GET", "{weir:hash-secret}"]).await.expect("answers").text(), built_in);
    let with = meet(&[&server.url()], "aaaa", MINUTE).await;
    assert_eq!(server.ask(&["GET", "{weir:hash-secret}"]).await.expect("answers").text(), "aaaa");
    assert!(!codes(&with).contains(&Code::ForeignHashSecret));
    // Not the other way round.
    assert!(codes(&meet(&[&server.url()], &built_in, MINUTE).await).contains(&Code::ForeignHashSecret));
}

/// The address of one node of a cluster given as that of a primary.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_taken_for_a_primary_says_how_to_name_it() {
    let cluster = Cluster::start(Flavor::available().expect("a server"), 3).await.expect("starts");
    let first = cluster.addrs().expect("TCP").split(',').next().expect("a node").to_owned();
    let limiter = meet(&[&format!("redis://{first}")], "aaaa", MINUTE).await;
    for n in 0..20 {
        let answer = in_time(&limiter, &query(key(&format!("user-{n}"), "r"), 10)).await;
        assert!(answer.degraded.is_none() || limiter.shards()[0].last_error.is_some());
    }
    let error = limiter.shards()[0].last_error.clone().expect("most slots are of other nodes");
    assert!(error.contains("redis+cluster://"), "{error}");
}

/// On a cluster the mark is on one node, and speaks for all.
#[tokio::test(flavor = "multi_thread")]
async fn fault_a_foreign_secret_on_a_cluster() {
    let cluster = Cluster::start(Flavor::available().expect("a server"), 3).await.expect("starts");
    let url = format!("redis+cluster://{}", cluster.addrs().expect("TCP"));
    let first = meet(&[&url], "aaaa", MINUTE).await;
    let stranger = meet(&[&url], "bbbb", MINUTE).await;
    for n in 0..20 {
        let question = query(key(&format!("user-{n}"), "r"), 10);
        assert_eq!(in_time(&first, &question).await.degraded, None);
        assert!(in_time(&stranger, &question).await.degraded.is_some());
    }
    assert!(codes(&stranger).contains(&Code::ForeignHashSecret));
}
