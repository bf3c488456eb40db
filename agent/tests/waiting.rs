//! BB-23 over HTTP: whoever waits the whole seconds that the headers say passes, and need not wait much less.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod served;

use std::time::{Duration, Instant};

use futures::future::join_all;
use http::{Method, StatusCode};
use served::{Answer, Served, settings};
use tokio::time::sleep;
use weir_agent::limiter::ShardConfig;
use weir_agent::settings::Counters;
use weir_testbed::{Flavor, Redis};

const COUNTING: [&str; 4] = ["token_bucket", "sliding_window", "sliding_log", "fixed_window"];
/// Clients of each rule, each with a phase of its own.
const CLIENTS: u32 = 20;

/// Under each algorithm one a second and three in two; one in flight for at most a second; and two rules for one request.
fn rules() -> String {
    let rule = |path: &str, name: &str, algorithm: &str, limit: u32, window: u32| {
        format!(
            "  - {{ name: {name}, match: {{ path: {path} }}, key: [ip], algorithm: {algorithm}, limits: {{ '*': {{ limit: {limit}, window: {window}s }} }} }}\n"
        )
    };
    let mut text = "domain: default\nrules:\n".to_owned();
    for algorithm in COUNTING {
        let name = algorithm.replace('_', "-");
        text += &rule(&format!("/{name}-one"), &format!("{name}-one"), algorithm, 1, 1);
        text += &rule(&format!("/{name}-three"), &format!("{name}-three"), algorithm, 3, 2);
    }
    text += &rule("/in-flight", "in-flight", "concurrency", 1, 1);
    text += &rule("/both", "both-wide", "sliding_window", 4, 2);
    text + &rule("/both", "both-narrow", "token_bucket", 2, 1)
}

fn paths() -> Vec<String> {
    let counting = COUNTING.map(|algorithm| algorithm.replace('_', "-"));
    let mut paths: Vec<String> = counting.iter().flat_map(|name| [format!("/{name}-one"), format!("/{name}-three")]).collect();
    paths.extend(["/in-flight".to_owned(), "/both".to_owned()]);
    paths
}

async fn ask(served: &Served, path: &str, client: u32) -> Answer {
    let address = format!("203.0.113.{client}");
    served.send(Method::GET, "/authz", &[("x-forwarded-uri", path), ("x-forwarded-for", &address)], "").await
}

/// The whole seconds that a refusal tells, the same in both headers.
fn told(answer: &Answer, what: &str) -> u64 {
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS, "{what}");
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=3).contains(&seconds), "{what}: {seconds} s");
    assert!(answer.header("ratelimit").unwrap().ends_with(&format!(";r=0;t={seconds}")), "{what}: {:?}", answer.headers);
    seconds
}

/// Uses up what there is, waits as told and passes. While it waits it is told no longer waits.
async fn trial(served: &Served, path: &str, client: u32) {
    let what = format!("{path} for {client}");
    sleep(Duration::from_millis(u64::from(client) * 1_000 / u64::from(CLIENTS))).await;
    let (refused, since) = loop {
        let since = Instant::now();
        let answer = ask(served, path, client).await;
        if answer.status != StatusCode::OK {
            break (answer, since);
        }
    };
    let seconds = told(&refused, &what);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut last = seconds;
    // What is told is less than a second too much.
    let certain = since + Duration::from_secs(seconds - 1);
    loop {
        sleep(Duration::from_millis(150)).await;
        if Instant::now() + Duration::from_millis(150) > certain {
            break;
        }
        let answer = ask(served, path, client).await;
        if Instant::now() < certain {
            let now = told(&answer, &what);
            assert!(now <= last, "{what}: {now} after {last}");
            last = now;
        }
    }
    tokio::time::sleep_until(end.into()).await;
    assert_eq!(ask(served, path, client).await.status, StatusCode::OK, "{what} after {seconds} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn exact_bb_23_whoever_waits_the_seconds_of_the_header_passes() {
    let redis = Redis::temporary(Flavor::available().unwrap()).await.unwrap();
    let mut settings = settings(&rules());
    settings.authz.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    settings.authz.client_ip_header = weir_core::client_ip::SourceHeader::XForwardedFor;
    settings.counters = Counters::Shards(vec![ShardConfig::new("a".parse().unwrap(), redis.url().parse().unwrap())]);
    let served = Served::start(settings).await;
    let paths = paths();
    join_all(paths.iter().flat_map(|path| (0..CLIENTS).map(|client| trial(&served, path, client)))).await;
    served.stop().await;
}
