//! Promise 8: what is stored goes by itself.

use std::time::Duration;

use weir_agent::limiter::LimitQuery;
use weir_core::limit::Algorithm;
use weir_testbed::{Redis, await_until};

use super::{agents, of};
use crate::support::*;

/// BB-08: a flood of invented subjects, under every algorithm and from all agents: no key is ever without a TTL, and all go by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn promise_8_nothing_grows_without_an_end() {
    let servers = [redis().await];
    let tasks: Vec<_> = agents(&servers)
        .await
        .into_iter()
        .enumerate()
        .map(|(agent, limiter)| {
            tokio::spawn(async move {
                for round in 0..60 {
                    let queries: Vec<LimitQuery> = (0..25)
                        .map(|n| {
                            let algorithm = Algorithm::ALL[n % 5];
                            let counter = key(&format!("invented-{agent}-{}", round * 20 + n), algorithm.as_str());
                            leased(&of(counter, bound(algorithm, 2, Duration::from_secs(1)), 1))
                        })
                        .collect();
                    let requests = queries.iter().map(|query| decide(&limiter, std::slice::from_ref(query)));
                    futures::future::join_all(requests).await;
                }
            })
        })
        .collect();
    let mut most = 0;
    while !tasks.iter().all(tokio::task::JoinHandle::is_finished) {
        most = most.max(assert_all_expire(&servers[0]).await);
    }
    assert!(most > 100, "the flood was seen: {most} keys");
    for task in tasks {
        task.await.expect("no task panics");
    }
    let gone = async || assert_all_expire(&servers[0]).await <= 1;
    assert!(await_until(Duration::from_secs(15), gone).await, "keys are left");
}

/// BB-08: agents that die in the middle of what they do, their calls on the way: no key is left without a TTL.
#[tokio::test(flavor = "multi_thread")]
async fn promise_8_agents_that_die_leave_nothing_that_stays() {
    let servers = [redis().await];
    for round in 0..5 {
        let mut tasks = tokio::task::JoinSet::new();
        for (agent, limiter) in agents(&servers).await.into_iter().enumerate() {
            tasks.spawn(async move {
                for turn in 0.. {
                    let queries: Vec<LimitQuery> = (0..50)
                        .map(|n| {
                            let algorithm = Algorithm::ALL[n % 5];
                            let counter = key(&format!("user-{round}-{agent}-{turn}-{n}"), algorithm.as_str());
                            leased(&of(counter, bound(algorithm, 2, Duration::from_secs(1)), 1))
                        })
                        .collect();
                    futures::future::join_all(queries.iter().map(|query| decide(&limiter, std::slice::from_ref(query)))).await;
                }
            });
        }
        // Whatever they are at then; the tasks own the limiters.
        let busy = async || assert_all_expire(&servers[0]).await > 300;
        assert!(await_until(RECOVERY, busy).await, "they do nothing");
        tasks.shutdown().await;
        assert_all_expire(&servers[0]).await;
    }
    let gone = async || assert_all_expire(&servers[0]).await <= 1;
    assert!(await_until(Duration::from_secs(15), gone).await, "keys are left");
}

/// Every key has a TTL; returns how many there are. The probe's key is among them.
async fn assert_all_expire(server: &Redis) -> usize {
    let client = redis::Client::open(server.url()).expect("an address");
    let mut connection = client.get_multiplexed_async_connection().await.expect("connects");
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("{*").query_async(&mut connection).await.expect("answers");
    if keys.is_empty() {
        return 0;
    }
    let mut pipe = redis::pipe();
    for key in &keys {
        pipe.cmd("PTTL").arg(key);
    }
    let ttls: Vec<i64> = pipe.query_async(&mut connection).await.expect("answers");
    assert!(ttls.iter().all(|ttl| *ttl != -1), "a key without a TTL");
    keys.len()
}
