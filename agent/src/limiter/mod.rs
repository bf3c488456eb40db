//! From limit keys to answers: the ring finds the shard, the breaker lets the call through, the batch carries it, Lua decides; and
//! without the shard, the rule's failure policy.
//!
//! [`Limiter::decide`] is the whole journey. Per shard: a `line` to its primary, or in a `cluster` one to each; per line: `batch` is what waits,
//! `session` the task that owns the connection, `call` one round trip, [`breaker`] when there is one at all. `settle` makes one answer of what came back, with `fallback` for what did not. What
//! was refused a moment ago `deny_cache` refuses again, without any of them. `operations` sends what is no decision; `inspection` looks after the
//! servers, and `about` keeps what it finds.

mod about;
pub mod address;
mod agents;
mod batch;
pub mod breaker;
mod call;
mod cluster;
mod connection;
mod deny_cache;
mod fallback;
mod inspection;
mod line;
pub mod memory;
mod memory_guard;
mod metrics;
mod operations;
pub mod resolver;
mod ring;
pub mod script;
mod seen;
mod session;
mod settings;
mod settle;
mod shard;
mod shards;
mod shared_leases;
mod slots;
pub mod store;
pub mod tls;
pub mod warning;
mod work;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use weir_core::clock::Clock;
use weir_core::counter::{CounterCall, CounterReply};
use weir_core::decision::Degraded;
use weir_core::failure::FailurePolicy;
use weir_core::key::CounterKey;
use weir_core::name::Name;

use self::about::Facts;
use self::breaker::BreakerState;
use self::deny_cache::DenyCache;
use self::fallback::Fallback;
use self::memory::MemoryStore;
pub use self::memory_guard::MemoryUse;
use self::metrics::{LimiterMetrics, LocalCounters};
pub use self::settings::{CountOn, LimiterSettings, MAX_WEIGHT, RingConfig, ShardConfig};
use self::settle::{Heard, Settlement};
use self::shards::Shards;
use self::warning::ShardWarning;

/// How long closing may take, however badly a shard behaves.
const CLOSING: Duration = Duration::from_secs(1);
/// Timers are coarse: the wait for a shard ends this much before the deadline, or by a share of the budget where that is less.
const RESERVE: Duration = Duration::from_micros(1_500);
/// The most of a budget that is kept in reserve, in tenths.
const RESERVE_TENTHS: u32 = 3;

/// One limit of a request, with what to do if its shard is away.
#[derive(Debug, Clone)]
pub struct LimitQuery {
    /// The counter and what to take from it.
    pub call: CounterCall,
    /// What happens without the shard.
    pub on_failure: FailurePolicy,
    /// Where this process counts the rule's callers together while their shard is short of memory and has no counter for them. `None` if no
    /// client can invent counters of the rule: those are created all the same.
    pub overflow: Option<CounterKey>,
}

/// What came of one limit.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitAnswer {
    /// What the counter said; for a degraded answer of mode `open` or `closed` only `allowed` has a meaning.
    pub reply: CounterReply,
    /// Set if the shard did not decide.
    pub degraded: Option<Degraded>,
    /// The shard that counted, or should have; `None` on the memory store alone.
    pub shard: Option<Name>,
}

/// How one shard is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardStatus {
    /// The shard.
    pub name: Name,
    /// Whether it is asked.
    pub breaker: BreakerState,
    /// What went wrong last, if anything did since the last recovery; holds no secrets.
    pub last_error: Option<String>,
    /// Calls on their way.
    pub in_flight: usize,
    /// Checks that wait to be sent.
    pub queued: usize,
    /// The nodes of a cluster; none for a single primary.
    pub nodes: Vec<NodeStatus>,
    /// The memory of its servers.
    pub memory: MemoryUse,
    /// What an operator should know about it, by code.
    pub warnings: Vec<ShardWarning>,
}

/// How one node of a cluster is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Its address.
    pub node: String,
    /// Whether it is asked.
    pub breaker: BreakerState,
    /// What went wrong last, if anything did since the last recovery.
    pub last_error: Option<String>,
}

/// Decides requests on the shards of the ring (or in this process).
pub struct Limiter {
    settings: LimiterSettings,
    shards: ArcSwap<Shards>,
    /// One ring change at a time.
    changing: Mutex<()>,
    memory: Arc<MemoryStore>,
    fallback: Fallback,
    denied: DenyCache,
    facts: Arc<Facts>,
    metrics: LimiterMetrics,
}

impl Limiter {
    /// A limiter without shards.
    #[must_use]
    pub fn new(settings: LimiterSettings, clock: Arc<dyn Clock>) -> Self {
        let memory = Arc::new(MemoryStore::new(settings.memory_counters, clock.clone()));
        Self {
            shards: ArcSwap::from_pointee(Shards::none(Instant::now())),
            changing: Mutex::new(()),
            fallback: Fallback::new(memory.clone(), settings.agents, clock),
            memory,
            denied: DenyCache::new(),
            facts: Arc::default(),
            metrics: LimiterMetrics::default(),
            settings,
        }
    }

    /// Takes this ring from now on; to be called within a tokio runtime, which runs the connections. Shards that are reached as before
    /// keep their connections, and those that left have a moment to answer what is on its way. False for a ring of a lower version than that in
    /// use, which is not taken.
    pub fn set_ring(&self, ring: RingConfig) -> bool {
        let _changing = self.changing.lock();
        let old = self.shards.load_full();
        if ring.version < old.version {
            return false;
        }
        let new = old.replaced_by(ring, &self.settings, &self.metrics, &self.facts);
        self.shards.store(Arc::new(new));
        let new = self.shards.load();
        for shard in old.without(&new) {
            shard.retire();
            if !new.has(shard.name()) {
                self.metrics.forget(shard.name());
            }
        }
        true
    }

    /// The version of the ring in use.
    #[must_use]
    pub fn ring_version(&self) -> u64 {
        self.shards.load().version
    }

    /// How many agents share each limit now. A lower count is believed only after a while.
    pub fn set_live_agents(&self, agents: u32) {
        self.fallback.set_live_agents(agents);
    }

    /// The fingerprint of the secret that keys are hashed with from now on; to be told before the first ring. A shard that bears the mark of
    /// another secret is not asked, unless it is one that this limiter was told of before: whoever knew the old secret marks the shard anew.
    pub fn set_secret_fingerprint(&self, fingerprint: String) {
        self.facts.set_fingerprint(fingerprint);
    }

    /// The longest window of the rules in force: whether shards that save nothing are good enough for it.
    pub fn set_longest_window(&self, window: Duration) {
        self.facts.set_longest_window(window);
    }

    /// Adds the limiter's metrics to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
        registry.register_collector(Box::new(LocalCounters(self.memory.clone())));
    }

    /// Waits until every shard of the ring has been reached or has failed once, so that first checks need not wait for connections.
    pub async fn settled(&self) {
        for shard in &self.shards.load_full().list {
            shard.settled().await;
        }
    }

    /// How each shard is doing, in the order of their names.
    #[must_use]
    pub fn shards(&self) -> Vec<ShardStatus> {
        self.shards.load().list.iter().map(|shard| shard.status()).collect()
    }

    /// The shard that counts `key`.
    #[must_use]
    pub fn shard_of(&self, key: &CounterKey) -> Option<Name> {
        self.shards.load().owner(key).map(|shard| shard.name().clone())
    }

    /// Forgets that a shard refused `key`, because its counter or its limit was changed on purpose: the next check asks the shard. Other agents
    /// see the change within a quarter of a second.
    pub fn forget_denials(&self, key: &CounterKey) {
        self.denied.forget(key);
    }

    /// Closes all connections, once what is on its way has had a moment to arrive: within a second. Checks after this are degraded.
    pub async fn shutdown(&self) {
        let shards = self.shards.load_full();
        for shard in &shards.list {
            shard.stop.cancel();
        }
        let closed = async {
            for shard in &shards.list {
                shard.closed().await;
            }
        };
        if tokio::time::timeout(CLOSING, closed).await.is_err() {
            tracing::warn!("not all connections to shards are closed in time");
        }
    }

    /// Decides all limits of one request: all or nothing for those that can refuse. One answer per query, in order, by `deadline` at
    /// the latest; `None` where a limit was not asked, because another is known to refuse: then nothing is consumed anywhere.
    ///
    /// All shards are asked at once, each with one call that may carry other requests too. Dropping the future takes back what has not
    /// been sent.
    pub async fn decide(&self, queries: &[LimitQuery], deadline: Instant) -> Vec<Option<LimitAnswer>> {
        if self.settings.count_on == CountOn::Memory {
            return self.decide_in_memory(queries);
        }
        let now = Instant::now();
        let known: Vec<Option<LimitAnswer>> = queries.iter().map(|query| self.denied.find(&query.call, now)).collect();
        if queries.iter().zip(&known).any(|(query, denial)| denial.is_some() && !query.call.shadow) {
            self.metrics.denied_from_cache.inc();
            return known;
        }
        self.ask(queries, known, now, deadline).await
    }

    /// Asks the shards for all but what is known.
    async fn ask(
        &self,
        queries: &[LimitQuery],
        known: Vec<Option<LimitAnswer>>,
        now: Instant,
        deadline: Instant,
    ) -> Vec<Option<LimitAnswer>> {
        let members = |member: &usize| known[*member].is_none();
        let asked = self.shards.load().ask(queries, (0..queries.len()).filter(members), wait_until(now, deadline));
        let mut heard = Vec::with_capacity(asked.len().max(1));
        for question in asked {
            heard.push(question.hear().await);
        }
        if heard.is_empty() {
            heard.push(Heard::nowhere((0..queries.len()).filter(members).collect(), self.shards.load().since, now));
        }
        for group in &heard {
            group.note_denials(queries, &self.denied, now);
        }
        Settlement::of(queries, known, &heard, &self.fallback)
    }

    fn decide_in_memory(&self, queries: &[LimitQuery]) -> Vec<Option<LimitAnswer>> {
        let calls: Vec<CounterCall> = queries.iter().map(|query| query.call.clone()).collect();
        let replies = self.memory.check_now(&[&calls]).pop().unwrap_or_default();
        replies.into_iter().map(|reply| Some(LimitAnswer { reply, degraded: None, shard: None })).collect()
    }
}

impl Drop for Limiter {
    fn drop(&mut self) {
        for shard in &self.shards.load().list {
            shard.stop.cancel();
        }
    }
}

impl std::fmt::Debug for Limiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limiter").field("settings", &self.settings).field("shards", &self.shards()).finish_non_exhaustive()
    }
}

/// When a check stops waiting for its shards, so that it can still answer by its deadline.
fn wait_until(now: Instant, deadline: Instant) -> Instant {
    let budget = deadline.saturating_duration_since(now);
    deadline.checked_sub(RESERVE.min(budget * RESERVE_TENTHS / 10)).unwrap_or(deadline)
}

#[cfg(test)]
mod tests {
    use weir_core::clock::SystemClock;

    use super::*;

    #[test]
    fn a_reserve_is_kept_of_the_budget() {
        let now = Instant::now();
        let waits = |budget: u64| wait_until(now, now + Duration::from_micros(budget)).duration_since(now).as_micros();
        assert_eq!([waits(5_000), waits(50_000), waits(1_000), waits(0)], [3_500, 48_500, 700, 0]);
    }

    #[test]
    fn closing_waits_for_nobody_for_ever() {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let limiter = Limiter::new(LimiterSettings::default(), Arc::new(SystemClock));
        let shard = ShardConfig::given("s".parse().unwrap(), address::read("redis://127.0.0.1:1").unwrap());
        let gone = runtime();
        gone.block_on(async { limiter.set_ring(RingConfig { version: 1, shards: vec![shard] }) });
        // The task that would close the shard's connection ends without doing so.
        drop(gone);
        runtime().block_on(async { tokio::time::timeout(CLOSING * 5, limiter.shutdown()).await.unwrap() });
    }
}
