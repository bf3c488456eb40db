//! BB-17: servers that lose the script.

use std::sync::Arc;

use weir_agent::limiter::{LimitQuery, Limiter, LimiterSettings};
use weir_testbed::{Redis, await_until};

use crate::support::*;

/// Asks for many subjects at once; none may be degraded or refused.
async fn all_pass(limiter: &Arc<Limiter>, round: usize) {
    let queries: Vec<LimitQuery> = (0..300).map(|n| query(key(&format!("user-{n}"), &format!("round-{round}")), 1)).collect();
    let checks = queries.iter().map(|query| decide(limiter, std::slice::from_ref(query)));
    for answer in futures::future::join_all(checks).await {
        assert_eq!((answer[0].degraded, answer[0].reply.allowed), (None, true));
    }
}

/// A flush costs one reload, and no check.
#[tokio::test(flavor = "multi_thread")]
async fn exact_bb_17_a_flushed_script_is_loaded_once() {
    let servers = redises(3).await;
    let limiter = limiter(&servers).await;
    for round in 0..5 {
        command(&servers[0], &["SCRIPT", "FLUSH", "SYNC"]).await;
        all_pass(&limiter, round).await;
        let reloads = |shard: &str| metric(&limiter, &format!("weir_shard_script_reloads_total{{shard=\"{shard}\"}}"));
        assert_eq!((reloads("s0"), reloads("s1"), reloads("s2")), ((round + 1) as f64, 0.0, 0.0));
    }
}

/// Flushes while checks flow.
#[tokio::test(flavor = "multi_thread")]
async fn exact_bb_17_flushes_in_the_middle() {
    let servers = redises(1).await;
    let limiter = limiter(&servers).await;
    let flushes = async {
        for _ in 0..20 {
            command(&servers[0], &["SCRIPT", "FLUSH", "SYNC"]).await;
        }
    };
    let checks = async {
        for round in 0..10 {
            all_pass(&limiter, round).await;
        }
    };
    futures::join!(flushes, checks);
    assert!(metric(&limiter, "weir_shard_script_reloads_total{shard=\"s0\"}") > 0.0, "no flush was noticed");
}

/// A server that comes back empty is asked again as soon as it is there.
#[tokio::test(flavor = "multi_thread")]
async fn fault_bb_17_a_restarted_server_is_used_again() {
    let servers = redises(2).await;
    let urls: Vec<String> = servers.iter().map(Redis::url).collect();
    let limiter = limiter_with(LimiterSettings::default(), urls.iter().map(String::as_str)).await;
    let question = query(key_on(&limiter, "s0", "r"), 1_000);
    for _ in 0..3 {
        servers[0].restart().await.expect("starts again");
        let back = await_until(RECOVERY, async || in_time(&limiter, &question).await.degraded.is_none()).await;
        assert!(back, "{:?}", limiter.shards());
        assert!(remaining(&limiter, &question).await >= 990, "only what was lost with the server is lost");
    }
}
