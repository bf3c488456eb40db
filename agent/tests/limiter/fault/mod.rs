//! One shard of three breaks: answers stay within the budget, the other shards notice nothing, and service is normal soon after.

mod bed;
mod local;
mod real;
mod recovery;
mod troubles;

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_agent::limiter::LimitQuery;
use weir_core::decision::Cause;
use weir_testbed::{Mode, await_until};

use self::bed::Bed;
use crate::support::*;

/// The default budget holds while a shard hangs: half of the answers are there within it even on a busy machine.
#[tokio::test(flavor = "multi_thread")]
async fn fault_bb_11_stalled_at_the_default_budget() {
    let bed = Bed::new().await;
    bed.servers[0].pause().await;
    let mut took = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        let answer = bed.limiter.decide(&bed.questions[..1], start + Duration::from_millis(5)).await.remove(0).expect("the only limit");
        took.push(start.elapsed());
        assert!(answer.degraded.is_some() && !answer.reply.allowed, "{answer:?}");
    }
    took.sort_unstable();
    assert!(took[100] <= Duration::from_millis(5), "{took:?}");
    bed.servers[0].resume().await;
    bed.recovers().await;
}

/// Connections that are cut and can be made again cost a few decisions their exactness, and nothing more.
#[tokio::test(flavor = "multi_thread")]
async fn fault_cut_connections() {
    let bed = Bed::new().await;
    bed.proxy.cut().await;
    bed.recovers().await;
}

/// Replies that come too late are never taken for those of later checks.
#[tokio::test(flavor = "multi_thread")]
async fn fault_late_replies_do_not_leak() {
    let bed = Bed::new().await;
    bed.proxy.set_mode(Mode::Delay(BUDGET + Duration::from_millis(20))).await;
    for n in 0..20 {
        let late = query(key_on(&bed.limiter, "s0", &format!("late-{n}")), 1000 + n);
        assert!(in_time(&bed.limiter, &late).await.degraded.is_some());
    }
    bed.proxy.set_mode(Mode::Forward).await;
    bed.recovers().await;
    for n in 0..50 {
        let own = query(key_on(&bed.limiter, "s0", &format!("own-{n}")), 10 + n);
        assert_eq!(decide(&bed.limiter, std::slice::from_ref(&own)).await[0].reply.remaining, 9 + n);
    }
}

/// A server that refuses every command with one error.
pub(crate) async fn refusing(error: &str) -> std::net::SocketAddr {
    answering(format!("-{error}\r\n")).await
}

/// A server that answers every command with the same.
pub(crate) async fn answering(reply: String) -> std::net::SocketAddr {
    let reply: Arc<str> = reply.into();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, reply.clone()));
        }
    });
    address
}

async fn answer(stream: tokio::net::TcpStream, reply: Arc<str>) -> std::io::Result<()> {
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::io::BufStream::new(stream);
    let mut line = String::new();
    // A command is `*parts`, then for each part `$bytes` and the bytes.
    while stream.read_line(&mut line).await? > 0 {
        for _ in 0..line[1..].trim_end().parse().unwrap_or(0) {
            line.clear();
            stream.read_line(&mut line).await?;
            let mut part = vec![0; line[1..].trim_end().parse::<usize>().unwrap_or(0) + 2];
            stream.read_exact(&mut part).await?;
        }
        line.clear();
        stream.write_all(reply.as_bytes()).await?;
        stream.flush().await?;
    }
    Ok(())
}

/// More checks than may wait are decided at once without the shard.
#[tokio::test(flavor = "multi_thread")]
async fn fault_overload_is_bounded() {
    let servers = redises(1).await;
    let limiter = limiter(&servers).await;
    servers[0].pause().await;
    let queries: Vec<LimitQuery> = (0..2500).map(|n| query(key(&format!("user-{n}"), "r"), 10)).collect();
    let deadline = Instant::now() + Duration::from_millis(500);
    let checks = queries.iter().map(|query| limiter.decide(std::slice::from_ref(query), deadline));
    let answers = futures::future::join_all(checks).await;
    let causes: Vec<Cause> = answers.iter().filter_map(|a| a[0].as_ref()?.degraded.map(|d| d.cause)).collect();
    assert_eq!(causes.len(), queries.len());
    let overload = causes.iter().filter(|cause| **cause == Cause::Overload).count();
    assert!((2500 - 1024 - 6 * 128..=2500 - 1024).contains(&overload), "{overload}");
    servers[0].resume().await;
}

/// Nothing on its way to a shard outlives it: connections and tasks are gone with the limiter.
#[tokio::test(flavor = "multi_thread")]
async fn fault_a_dropped_limiter_closes_its_connections() {
    let bed = Bed::new().await;
    assert_eq!(bed.proxy.open(), 1);
    drop(bed.limiter);
    assert!(await_until(RECOVERY, async || bed.proxy.open() == 0).await);
}
