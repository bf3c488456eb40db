//! Operations and checks on one shard: neither keeps the other waiting, nor hides that the shard hangs.

use std::time::{Duration, Instant};

use weir_agent::limiter::breaker::BreakerState;
use weir_agent::limiter::store::Release;
use weir_agent::limiter::{LimitQuery, Limiter, LimiterSettings};
use weir_core::counter::{Action, CounterCall};
use weir_core::lease::LeaseId;
use weir_testbed::{Mode, Proxy, await_until};

use crate::support::*;

/// A lease that nobody has.
fn stray(number: u64) -> Release {
    Release { key: key(&format!("user-{number}"), "leases"), lease: LeaseId::new(u128::from(number).to_be_bytes()) }
}

async fn is_open(limiter: &Limiter) -> bool {
    await_until(Duration::from_secs(1), async || limiter.shards()[0].breaker != BreakerState::Closed).await
}

/// However many operations wait for a shard that hangs, its checks notice at once.
#[tokio::test(flavor = "multi_thread")]
async fn fault_operations_do_not_hide_that_a_shard_hangs() {
    let servers = redises(1).await;
    let limiter = limiter_with(LimiterSettings::default(), [servers[0].url().as_str()]).await;
    servers[0].pause().await;
    let question = query(key("user-1", "r"), 10);
    let operations = (0..64).map(|number| limiter.release(vec![stray(number)].leak(), Instant::now() + LONG));
    let operations = futures::future::join_all(operations);
    let checks = async {
        loop {
            timed(&limiter, &question).await;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        opened = is_open(&limiter) => assert!(opened),
        _ = operations => assert!(is_open(&limiter).await),
        () = checks => {}
    }
    servers[0].resume().await;
}

/// Nor do those who wait long for what they record.
#[tokio::test(flavor = "multi_thread")]
async fn fault_the_patient_do_not_hide_that_a_shard_hangs() {
    let servers = redises(1).await;
    let limiter = limiter_with(LimiterSettings::default(), [servers[0].url().as_str()]).await;
    servers[0].pause().await;
    let question = query(key("user-1", "r"), 10);
    let call = CounterCall { shadow: true, action: Action::Record, ..question.call.clone() };
    let record = LimitQuery { call, ..question.clone() };
    let rounds = async {
        loop {
            let patient = limiter.decide(std::slice::from_ref(&record), Instant::now() + LONG);
            tokio::select! {
                _ = futures::future::join(patient, timed(&limiter, &question)) => {}
                () = tokio::time::sleep(BUDGET) => {}
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        opened = is_open(&limiter) => assert!(opened),
        () = rounds => {}
    }
    servers[0].resume().await;
}

/// Hundreds of operations wait for a slow shard, and a check need not wait for them.
#[tokio::test(flavor = "multi_thread")]
async fn exact_operations_take_turns_with_checks() {
    let servers = redises(1).await;
    let proxy = Proxy::start(servers[0].addr().expect("TCP")).await.expect("a port");
    let limiter = limiter_with(patient(), [servers[0].url_through(proxy.addr()).as_str()]).await;
    proxy.set_mode(Mode::Delay(Duration::from_millis(100))).await;
    let start = Instant::now();
    let operations = (0..400).map(|number| limiter.release(vec![stray(number)].leak(), start + LONG));
    let operations = futures::future::join_all(operations);
    let question = query(key("user-1", "r"), 10);
    let check = async {
        tokio::task::yield_now().await;
        decide(&limiter, std::slice::from_ref(&question)).await;
        start.elapsed()
    };
    let (ended, took) = futures::join!(operations, check);
    assert!(ended.iter().all(|ended| *ended == [Ok(false)]));
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(start.elapsed() < Duration::from_secs(3), "they share calls: {:?}", start.elapsed());
}
