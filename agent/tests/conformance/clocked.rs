//! Stores at times that a test chooses.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use weir_agent::limiter::memory::MemoryStore;
use weir_agent::limiter::script;
use weir_agent::limiter::store::{Refund, Release};
use weir_core::algorithm::token_bucket::TokenBucket;
use weir_core::algorithm::{self, Counter};
use weir_core::clock::Clock;
use weir_core::counter::{CounterCall, CounterReply};
use weir_core::key::CounterKey;
use weir_testbed::{Cluster, Flavor, Redis, SLOTS, slot_of};

use crate::calls::START;
use crate::servers::connect;

const FAKE_CLOCK: &str = include_str!("fake_clock.lua");

/// A clock that stands still until it is set.
#[derive(Debug)]
pub(crate) struct ManualClock {
    started: Instant,
    elapsed: Mutex<Duration>,
    /// Seconds by which the wall clock has been set back.
    wall_back: Mutex<i64>,
}

impl ManualClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), elapsed: Mutex::new(Duration::ZERO), wall_back: Mutex::new(0) })
    }

    /// Sets the microseconds since [`START`].
    pub(crate) fn set(&self, us: u64) {
        *self.elapsed.lock() = Duration::from_micros(us);
    }

    /// Sets the wall clock back by so many seconds, or forward.
    pub(crate) fn set_wall_back(&self, seconds: i64) {
        *self.wall_back.lock() = seconds;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.started + *self.elapsed.lock()
    }

    fn wall(&self) -> Duration {
        let right = Duration::from_micros(START) + *self.elapsed.lock();
        Duration::from_secs(right.as_secs().saturating_add_signed(-*self.wall_back.lock()))
            + Duration::from_nanos(right.subsec_nanos().into())
    }
}

/// What a server holds of a counter.
#[derive(Debug)]
pub(crate) struct State {
    /// The fields of a hash, the bytes of a string, the members of a sorted set.
    pub(crate) size: u64,
    /// How long it will be there.
    pub(crate) ttl_ms: i64,
}

/// A store, and how it is told the time.
#[allow(clippy::large_enum_variant, reason = "there are five of them")]
pub(crate) enum Clocked {
    /// The models alone.
    Model(HashMap<CounterKey, Counter>),
    Memory(MemoryStore, Arc<ManualClock>),
    Server(Nodes),
}

/// A server, or the nodes of a cluster, with the script behind a clock.
pub(crate) struct Nodes {
    name: &'static str,
    connections: Vec<MultiplexedConnection>,
    sha: String,
    _processes: (Option<Redis>, Option<Cluster>),
}

impl Nodes {
    async fn of(name: &'static str, urls: Vec<String>, processes: (Option<Redis>, Option<Cluster>)) -> Self {
        let source = format!("{FAKE_CLOCK}{}", script::source());
        let (mut connections, mut sha) = (Vec::new(), String::new());
        for url in urls {
            let mut connection = connect(&url).await;
            sha = redis::cmd("SCRIPT").arg("LOAD").arg(&source).query_async(&mut connection).await.expect("the script compiles");
            connections.push(connection);
        }
        Self { name, connections, sha, _processes: processes }
    }

    /// The node that owns a key; the slots are spread evenly, in order.
    fn node(&mut self, key: &CounterKey) -> &mut MultiplexedConnection {
        let last = self.connections.len() - 1;
        let share = SLOTS / u16::try_from(last + 1).expect("a few nodes");
        let place = usize::from(slot_of(key.as_bytes()) / share).min(last);
        &mut self.connections[place]
    }

    /// Whether both may be in one call.
    fn fit(&self, a: &[CounterCall], b: &[CounterCall]) -> bool {
        let slot = |calls: &[CounterCall]| calls.first().map(|call| slot_of(call.key.as_bytes()));
        self.connections.len() == 1 || slot(a) == slot(b)
    }

    /// Sends what the agent would send, to the script with the clock in front.
    async fn run(&mut self, key: &CounterKey, command: &redis::Cmd, now: u64) -> Vec<u8> {
        let mut clocked = redis::Cmd::new();
        for (place, argument) in command.args_iter().enumerate() {
            match argument {
                redis::Arg::Simple(_) if place == 1 => clocked.arg(&self.sha),
                redis::Arg::Simple(bytes) => clocked.arg(bytes),
                _ => unreachable!("no cursors here"),
            };
        }
        clocked.arg(now).query_async(self.node(key)).await.expect("a reply")
    }

    /// Decides a batch at `now`, with the calendar windows of another time; each request at most once.
    async fn check(&mut self, now: u64, guess: u64, requests: &[&[CounterCall]]) -> Vec<Option<Vec<CounterReply>>> {
        let mut replies = Vec::with_capacity(requests.len());
        let batches: Vec<Vec<&[CounterCall]>> = requests.chunk_by(|a, b| self.fit(a, b)).map(<[_]>::to_vec).collect();
        for batch in batches {
            match batch.iter().flat_map(|calls| calls.first()).next() {
                Some(first) => {
                    let reply = self.run(&first.key, &script::encode(&batch, guess), now).await;
                    replies.extend(script::decode(&batch, &reply).expect("a readable reply").replies);
                }
                None => replies.extend(batch.iter().map(|_| Some(Vec::new()))),
            }
        }
        replies
    }
}

impl Clocked {
    pub(crate) fn model() -> Self {
        Self::Model(HashMap::new())
    }

    pub(crate) fn memory() -> Self {
        let clock = ManualClock::new();
        Self::Memory(MemoryStore::new(1_000_000, clock.clone()), clock)
    }

    pub(crate) async fn server(flavor: Flavor) -> Self {
        let process = Redis::temporary(flavor).await.expect("a server");
        let name = if flavor == Flavor::Redis { "redis" } else { "valkey" };
        Self::Server(Nodes::of(name, vec![process.url()], (Some(process), None)).await)
    }

    /// A Redis Cluster of three primaries.
    pub(crate) async fn cluster() -> Self {
        let cluster = Cluster::start(Flavor::Redis, 3).await.expect("a cluster");
        let urls = cluster.nodes().iter().map(Redis::url).collect();
        Self::Server(Nodes::of("cluster", urls, (None, Some(cluster))).await)
    }

    /// As [`each`](Self::each), and a cluster, which takes some seconds to start.
    pub(crate) async fn everywhere() -> Vec<Self> {
        let mut stores = vec![Self::cluster().await];
        stores.extend(Self::each().await);
        stores
    }

    /// Every store whose clock can be set; those that are not monotonic first.
    pub(crate) async fn each() -> [Self; 4] {
        [Self::model(), Self::server(Flavor::Redis).await, Self::server(Flavor::Valkey).await, Self::memory()]
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Model(_) => "model",
            Self::Memory(..) => "memory",
            Self::Server(nodes) => nodes.name,
        }
    }

    /// Whether time can go backwards on it, as on a server whose clock is set.
    pub(crate) const fn can_step_back(&self) -> bool {
        !matches!(self, Self::Memory(..))
    }

    /// Decides one request with one limit, `us` after the start.
    pub(crate) async fn check(&mut self, us: u64, call: impl Borrow<CounterCall>) -> CounterReply {
        self.check_batch(us, &[std::slice::from_ref(call.borrow())]).await[0][0]
    }

    /// Decides a batch, `us` after the start.
    pub(crate) async fn check_batch(&mut self, us: u64, requests: &[&[CounterCall]]) -> Vec<Vec<CounterReply>> {
        match self {
            Self::Model(counters) => requests.iter().map(|calls| decide(counters, calls, START + us)).collect(),
            Self::Memory(store, clock) => {
                clock.set(us);
                store.check_now(requests)
            }
            Self::Server(nodes) => {
                let replies = nodes.check(START + us, START + us, requests).await;
                replies.into_iter().map(|replies| replies.expect("edges around its time")).collect()
            }
        }
    }

    /// The same, if this is a server, with the calendar windows of another time than the server's; `None` for requests that it does not take
    /// with those.
    pub(crate) async fn check_guessing(
        &mut self,
        us: u64,
        guess_us: u64,
        requests: &[&[CounterCall]],
    ) -> Option<Vec<Option<Vec<CounterReply>>>> {
        let Self::Server(nodes) = self else { return None };
        Some(nodes.check(START + us, START + guess_us, requests).await)
    }

    /// What is held of a counter `us` after the start, if this is a server.
    pub(crate) async fn state(&mut self, us: u64, key: &CounterKey) -> Option<State> {
        let Self::Server(nodes) = self else { return None };
        let connection = nodes.node(key);
        let kind: String = redis::cmd("TYPE").arg(key.as_bytes()).query_async(connection).await.expect("a type");
        let size = match kind.as_str() {
            "hash" => redis::cmd("HLEN"),
            "string" => redis::cmd("STRLEN"),
            "zset" => redis::cmd("ZCARD"),
            _ => return None,
        };
        let size = size.to_owned().arg(key.as_bytes()).query_async(connection).await.expect("a size");
        let deadline: Option<i64> = redis::cmd("HGET")
            .arg(format!("{}deadlines", &key.as_str()[..18]))
            .arg(key.as_bytes())
            .query_async(connection)
            .await
            .expect("a deadline");
        let now_ms = i64::try_from((START + us) / 1_000).expect("fits");
        // What is over goes with the next call.
        Some(State { size, ttl_ms: deadline.expect("a TTL") - now_ms }).filter(|state| state.ttl_ms > 0)
    }

    /// Gives units back, `us` after the start.
    pub(crate) async fn refund(&mut self, us: u64, refunds: &[Refund]) -> Vec<u64> {
        match self {
            Self::Model(counters) => refunds.iter().map(|refund| give_back(counters, refund, START + us)).collect(),
            Self::Memory(store, clock) => {
                clock.set(us);
                store.refund_now(refunds)
            }
            Self::Server(nodes) => {
                let reply = nodes.run(&refunds[0].key, &script::encode_refunds(refunds), START + us).await;
                script::decode_refunds(refunds, &reply).expect("a readable reply")
            }
        }
    }
}

impl Clocked {
    /// Clears counters, `us` after the start; returns whether there was one.
    pub(crate) async fn reset(&mut self, us: u64, keys: &[CounterKey]) -> Vec<bool> {
        match self {
            Self::Model(counters) => {
                keys.iter().map(|key| counters.remove(key).is_some_and(|counter| !counter.is_expired(START + us))).collect()
            }
            Self::Memory(store, clock) => {
                clock.set(us);
                store.reset_now(keys)
            }
            Self::Server(nodes) => {
                let reply = nodes.run(&keys[0], &script::encode_resets(keys), START + us).await;
                script::decode_done(keys.len(), &reply).expect("a readable reply")
            }
        }
    }

    /// Puts something unreadable under a key, without a TTL; the memory store holds nothing that others could write.
    pub(crate) async fn spoil(&mut self, key: &CounterKey, garbage: &[u8]) {
        match self {
            Self::Model(counters) => {
                // Of no time that there will be: every algorithm finds that unreadable.
                let state = algorithm::State::TokenBucket(TokenBucket { used: 1.0, step: (1 << 48) - 1 });
                counters.insert(*key, Counter { state, expires_ms: None });
            }
            Self::Memory(..) => {}
            Self::Server(nodes) => {
                let connection = nodes.node(key);
                let deadlines = format!("{}deadlines", &key.as_str()[..18]);
                let mut pipe = redis::pipe();
                pipe.cmd("HDEL").arg(deadlines).arg(key.as_bytes()).ignore();
                pipe.cmd("SET").arg(key.as_bytes()).arg(garbage).ignore();
                pipe.query_async::<()>(connection).await.expect("stored");
            }
        }
    }

    /// Ends leases, `us` after the start; returns whether each was there.
    pub(crate) async fn release(&mut self, us: u64, releases: &[Release]) -> Vec<bool> {
        match self {
            Self::Model(counters) => releases.iter().map(|release| end(counters, release, START + us)).collect(),
            Self::Memory(store, clock) => {
                clock.set(us);
                store.release_now(releases)
            }
            Self::Server(nodes) => {
                let ended: Vec<Refund> = releases.iter().map(|release| Refund::from(*release)).collect();
                let reply = nodes.run(&releases[0].key, &script::encode_refunds(&ended), START + us).await;
                script::decode_refunds(&ended, &reply).expect("a readable reply").into_iter().map(|ended| ended > 0).collect()
            }
        }
    }
}

fn decide(counters: &mut HashMap<CounterKey, Counter>, calls: &[CounterCall], now: u64) -> Vec<CounterReply> {
    let mut found: Vec<Option<Counter>> = calls.iter().map(|call| counters.remove(&call.key)).collect();
    let replies = algorithm::decide(calls, &mut found, now);
    counters.extend(calls.iter().zip(found).filter_map(|(call, counter)| Some((call.key, counter?))));
    replies
}

fn give_back(counters: &mut HashMap<CounterKey, Counter>, refund: &Refund, now: u64) -> u64 {
    let mut counter = counters.remove(&refund.key);
    let given = algorithm::give_back(&mut counter, &refund.bound, refund.units, refund.time_us, refund.lease.as_ref(), now);
    counters.extend(counter.map(|counter| (refund.key, counter)));
    given
}

fn end(counters: &mut HashMap<CounterKey, Counter>, release: &Release, now: u64) -> bool {
    let mut counter = counters.remove(&release.key);
    let ended = algorithm::release(&mut counter, &release.lease, now);
    counters.extend(counter.map(|counter| (release.key, counter)));
    ended
}
