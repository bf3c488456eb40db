//! From limit keys to answers: the ring finds the shard, the breaker lets the call through, the batch carries it, Lua decides; and
//! without the shard, the rule's failure policy.

pub mod address;
pub mod breaker;
pub mod memory;
pub mod script;
pub mod settings;
pub mod store;

use std::sync::Arc;
use std::time::Instant;

use prometheus_client::registry::Registry;
use weir_core::clock::Clock;
use weir_core::counter::{CounterCall, CounterReply};
use weir_core::decision::Degraded;
use weir_core::failure::FailurePolicy;
use weir_core::name::Name;

use self::breaker::BreakerState;
pub use self::settings::{CountOn, LimiterSettings, RingConfig, ShardConfig};

/// One limit of a request, with what to do if its shard is away.
#[derive(Debug, Clone)]
pub struct LimitQuery {
    /// The counter and what to take from it.
    pub call: CounterCall,
    /// What happens without the shard.
    pub on_failure: FailurePolicy,
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
}

/// Decides requests on the shards of the ring (or in this process).
#[derive(Debug)]
pub struct Limiter {}

impl Limiter {
    /// A limiter without shards; needs a running tokio runtime once it gets some.
    #[must_use]
    pub fn new(_settings: LimiterSettings, _clock: Arc<dyn Clock>) -> Self {
        todo!()
    }

    /// Takes this ring from now on. Shards that stay as they are keep their connections.
    pub fn set_ring(&self, _ring: RingConfig) {
        todo!()
    }

    /// The version of the ring in use.
    #[must_use]
    pub fn ring_version(&self) -> u64 {
        todo!()
    }

    /// How many agents share each limit now. A lower count is believed only after a while.
    pub fn set_live_agents(&self, _agents: u32) {
        todo!()
    }

    /// Adds the limiter's metrics to `registry`.
    pub fn register(&self, _registry: &mut Registry) {
        todo!()
    }

    /// Waits until every shard of the ring has been reached or has failed once, so that first checks need not wait for connections.
    pub async fn settled(&self) {
        todo!()
    }

    /// How each shard is doing, in the order of their names.
    #[must_use]
    pub fn shards(&self) -> Vec<ShardStatus> {
        todo!()
    }

    /// Closes all connections. Checks after this are degraded.
    pub async fn shutdown(&self) {
        todo!()
    }

    /// Decides all limits of one request: all or nothing for those that can refuse. One answer per query, in order, by `deadline` at
    /// the latest.
    pub async fn decide(&self, _queries: &[LimitQuery], _deadline: Instant) -> Vec<LimitAnswer> {
        todo!()
    }
}
