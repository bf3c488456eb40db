//! The ways to a shard: sockets, passwords, ACL users.

use std::sync::Arc;

use weir_agent::limiter::Limiter;
use weir_agent::limiter::breaker::BreakerState;
use weir_core::clock::SystemClock;
use weir_testbed::{Flavor, Redis, RedisSettings};

use crate::support::*;

/// A limiter whose one shard is at `url`, which may hold credentials.
async fn reach(url: &str) -> Limiter {
    let limiter = Limiter::new(patient(), Arc::new(SystemClock));
    limiter.set_ring(ring([url]));
    limiter.settled().await;
    limiter
}

async fn counts(limiter: &Limiter, user: &str) {
    let question = query(key(user, "r"), 10);
    assert_eq!(decide(limiter, std::slice::from_ref(&question)).await[0].reply.remaining, 9, "{:?}", limiter.shards());
}

async fn start(settings: RedisSettings) -> Redis {
    Redis::start(settings).await.expect("starts")
}

#[tokio::test]
async fn exact_over_a_unix_socket() {
    let flavor = Flavor::available().expect("a server");
    let server = start(RedisSettings { flavor, unix: true, ..RedisSettings::default() }).await;
    counts(&reach(&server.url()).await, "a").await;
}

#[tokio::test]
async fn exact_with_a_password_and_as_an_acl_user() {
    let flavor = Flavor::available().expect("a server");
    let server = start(RedisSettings { flavor, password: Some("s3cret".into()), ..RedisSettings::default() }).await;
    counts(&reach(&server.url()).await, "a").await;
    // What an agent needs, and no more.
    let allowed = ["+evalsha", "+script|load", "+client", "+time", "+@read", "+@write"];
    let user = [&["ACL", "SETUSER", "weir", "on", ">other", "~*"][..], &allowed[..]].concat();
    command(&server, &user).await;
    let url = format!("redis://weir:other@{}", server.addr().expect("TCP"));
    counts(&reach(&url).await, "b").await;
}

#[tokio::test]
async fn fault_a_wrong_password_is_told_without_the_password() {
    let flavor = Flavor::available().expect("a server");
    let server = start(RedisSettings { flavor, password: Some("s3cret".into()), ..RedisSettings::default() }).await;
    let limiter = reach(&format!("redis://:wr0ng@{}", server.addr().expect("TCP"))).await;
    let answer = in_time(&limiter, &query(key("a", "r"), 10)).await;
    assert!(answer.degraded.is_some());
    let status = limiter.shards().remove(0);
    assert_ne!(status.breaker, BreakerState::Closed);
    let error = status.last_error.expect("told");
    assert!(!error.contains("wr0ng") && !format!("{limiter:?}").contains("wr0ng"), "{error}");
}
