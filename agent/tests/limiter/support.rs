//! Limiters, shards and questions for the tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weir_agent::limiter::address;
use weir_agent::limiter::{LimitAnswer, LimitQuery, Limiter, LimiterSettings, RingConfig, ShardConfig};
use weir_core::clock::SystemClock;
use weir_core::counter::CounterCall;
use weir_core::failure::{FailureMode, FailurePolicy};
use weir_core::key::{CounterKey, HashSecret, Tag, counter_key};
use weir_core::lease::LeaseId;
use weir_core::limit::{Algorithm, Bound};
use weir_core::subject::Subject;
use weir_testbed::{Flavor, Redis};

/// The budget of checks while something is broken, and how late an answer may be on a busy machine.
pub(crate) const BUDGET: Duration = Duration::from_millis(50);
pub(crate) const MARGIN: Duration = Duration::from_millis(100);
/// The budget of checks that must not be degraded by a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(20);
/// How long a broken shard may take to be in normal service again.
pub(crate) const RECOVERY: Duration = Duration::from_secs(5);

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

pub(crate) async fn redis() -> Redis {
    Redis::temporary(Flavor::available().expect("a server")).await.expect("starts")
}

pub(crate) async fn redises(count: usize) -> Vec<Redis> {
    let mut servers = Vec::new();
    for _ in 0..count {
        servers.push(redis().await);
    }
    servers
}

/// Shards `s0`, `s1`, ... at these addresses.
pub(crate) fn ring<'a>(urls: impl IntoIterator<Item = &'a str>) -> RingConfig {
    let shard = |(index, url): (usize, &str)| {
        ShardConfig::given(format!("s{index}").parse().expect("a name"), address::read(url).expect("an address"))
    };
    RingConfig { version: 1, shards: urls.into_iter().enumerate().map(shard).collect() }
}

/// A limiter that has tried all its shards once.
pub(crate) async fn limiter_with<'a>(settings: LimiterSettings, urls: impl IntoIterator<Item = &'a str>) -> Arc<Limiter> {
    let limiter = Arc::new(Limiter::new(settings, Arc::new(SystemClock)));
    limiter.set_ring(ring(urls));
    limiter.settled().await;
    limiter
}

/// Settings under which a busy machine degrades nothing.
pub(crate) fn patient() -> LimiterSettings {
    LimiterSettings { connect_timeout: LONG, call_timeout: LONG, probe_timeout: LONG, ..LimiterSettings::default() }
}

pub(crate) async fn limiter(servers: &[Redis]) -> Arc<Limiter> {
    let urls: Vec<String> = servers.iter().map(Redis::url).collect();
    limiter_with(patient(), urls.iter().map(String::as_str)).await
}

pub(crate) fn key(subject: &str, rule: &str) -> CounterKey {
    let secret = HashSecret::built_in();
    counter_key(&secret, Tag::of_subject(&secret, "default", &Subject::parse(subject).expect("a subject")), rule, &[])
}

/// A key that this shard owns.
pub(crate) fn key_on(limiter: &Limiter, shard: &str, rule: &str) -> CounterKey {
    let mut keys = (0..).map(|n| key(&format!("user-{n}"), rule));
    keys.find(|key| limiter.shard_of(key).is_some_and(|owner| owner == shard)).expect("endless")
}

pub(crate) fn bound(algorithm: Algorithm, limit: u64, window: Duration) -> Bound {
    Bound { algorithm, limit, capacity: limit, window_us: u64::try_from(window.as_micros()).expect("fits"), calendar: None }
}

/// Another lease for each call; for algorithms without leases the same call.
pub(crate) fn leased(query: &LimitQuery) -> LimitQuery {
    static LEASES: AtomicU64 = AtomicU64::new(1);
    let lease = LeaseId::new(u128::from(LEASES.fetch_add(1, Ordering::Relaxed)).to_be_bytes());
    let lease = Some(lease).filter(|_| query.call.bound.algorithm == Algorithm::Concurrency);
    LimitQuery { call: CounterCall { lease, ..query.call.clone() }, ..query.clone() }
}

pub(crate) fn policy(mode: FailureMode) -> FailurePolicy {
    FailurePolicy { mode, ..FailurePolicy::default() }
}

/// One unit of a sliding window, `closed` without its shard.
pub(crate) fn query(key: CounterKey, limit: u64) -> LimitQuery {
    let call = CounterCall::check(key, bound(Algorithm::SlidingWindow, limit, MINUTE), 1);
    LimitQuery { call, on_failure: policy(FailureMode::Closed), overflow: None }
}

/// The same without taking anything.
pub(crate) fn peek(query: &LimitQuery) -> LimitQuery {
    LimitQuery { call: CounterCall { cost: 0, ..query.call.clone() }, ..query.clone() }
}

/// Asks the shards, whatever they refused a moment ago: a request that the deny cache refuses for one of its limits asks about no other and takes
/// nothing, so it is asked again.
pub(crate) async fn decide(limiter: &Limiter, queries: &[LimitQuery]) -> Vec<LimitAnswer> {
    let end = Instant::now() + LONG;
    loop {
        for query in queries {
            limiter.forget_denials(&query.call.key);
        }
        let answers = limiter.decide(queries, end).await;
        if let Some(answers) = answers.into_iter().collect() {
            return answers;
        }
        assert!(Instant::now() < end, "refused by the deny cache again and again");
    }
}

pub(crate) async fn remaining(limiter: &Limiter, query: &LimitQuery) -> u64 {
    let answer = decide(limiter, &[peek(query)]).await.remove(0);
    assert_eq!(answer.degraded, None);
    answer.reply.remaining
}

/// Asks with the short budget; says how long that took.
pub(crate) async fn timed(limiter: &Limiter, query: &LimitQuery) -> (LimitAnswer, Duration) {
    let start = Instant::now();
    let answer = limiter.decide(std::slice::from_ref(query), start + BUDGET).await.remove(0);
    (answer.expect("the only limit"), start.elapsed())
}

/// Asks with the short budget, and asserts that the answer is there in time.
pub(crate) async fn in_time(limiter: &Limiter, query: &LimitQuery) -> LimitAnswer {
    let (answer, took) = timed(limiter, query).await;
    assert!(took <= BUDGET + MARGIN, "answered after {took:?}: {answer:?}");
    answer
}

pub(crate) fn is_admitted(queries: &[LimitQuery], answers: &[LimitAnswer]) -> bool {
    assert_eq!(queries.len(), answers.len());
    queries.iter().zip(answers).all(|(query, answer)| query.call.shadow || answer.reply.allowed)
}

/// Runs a command on a server.
pub(crate) async fn command(redis: &Redis, words: &[&str]) -> redis::Value {
    let client = redis::Client::open(redis.url()).expect("an address");
    let mut connection = client.get_multiplexed_async_connection().await.expect("connects");
    let (name, arguments) = words.split_first().expect("a command");
    redis::cmd(name).arg(arguments).query_async(&mut connection).await.expect("answers")
}

/// How often a server has done this command.
pub(crate) async fn calls_of(server: &Redis, command: &str) -> u64 {
    let info = server.ask(&["INFO", "commandstats"]).await.expect("answers");
    let stat = format!("cmdstat_{command}:calls=");
    info.text().lines().find_map(|line| line.strip_prefix(&stat)?.split(',').next()?.parse().ok()).unwrap_or_default()
}

/// The value of one series in the limiter's metrics, such as `weir_shard_script_reloads_total{shard="s0"}`.
pub(crate) fn metric(limiter: &Limiter, series: &str) -> f64 {
    let mut registry = prometheus_client::registry::Registry::default();
    limiter.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodes");
    let line = text.lines().find_map(|line| line.strip_prefix(series)).unwrap_or_else(|| panic!("no {series} in\n{text}"));
    line.trim().parse().expect("a number")
}

/// This process's memory, in bytes.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("there");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}
