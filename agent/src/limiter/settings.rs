//! What the limiter is told: where to count, how long to wait, and the shards of the ring.

use std::time::Duration;

use secrecy::SecretString;
use weir_core::name::Name;

use super::address::ShardAddress;

/// Where units are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CountOn {
    /// In this process: one agent alone.
    Memory,
    /// On the shards of the ring; without a ring each rule's failure policy answers.
    #[default]
    Ring,
}

/// How the limiter works. The defaults fit Redis on the same network.
#[derive(Debug, Clone)]
pub struct LimiterSettings {
    /// Where units are counted.
    pub count_on: CountOn,
    /// Calls in flight per shard, 1 to 64 (default 8). More calls carry fewer checks each; fewer leave the shard idle while replies travel and
    /// the agent works on them. Under full load on one machine a shard does an eighth more with 8 than with 4.
    pub in_flight: usize,
    /// How long a connection may take to be ready, TLS and authentication included (default 500 ms).
    pub connect_timeout: Duration,
    /// How long one call may take, however long the budgets of its checks are (default 2 s).
    pub call_timeout: Duration,
    /// How long a probe of a shard may take (default 100 ms).
    pub probe_timeout: Duration,
    /// Agents that share a limit, until the control plane tells (default 1).
    pub agents: u32,
    /// The most counters held in this process (default 500,000), whether counted here or while a shard is away.
    pub memory_counters: usize,
}

impl Default for LimiterSettings {
    fn default() -> Self {
        Self {
            count_on: CountOn::Ring,
            in_flight: 8,
            connect_timeout: Duration::from_millis(500),
            call_timeout: Duration::from_secs(2),
            probe_timeout: Duration::from_millis(100),
            agents: 1,
            memory_counters: 500_000,
        }
    }
}

/// The shards at one version.
#[derive(Debug, Clone, Default)]
pub struct RingConfig {
    /// Only ever grows; 0 for a ring from settings.
    pub version: u64,
    /// The shards, in any order: placement depends on names and weights only.
    pub shards: Vec<ShardConfig>,
}

/// One Redis or Valkey primary.
#[derive(Debug, Clone)]
pub struct ShardConfig {
    /// The name: what the ring places, so a shard that keeps it keeps its counters when it moves to another address.
    pub name: Name,
    /// Where it listens.
    pub address: ShardAddress,
    /// Its share of the counters, relative to the other shards; 1 to [`MAX_WEIGHT`].
    pub weight: u32,
    /// The ACL user, if any.
    pub username: Option<String>,
    /// The password, if any.
    pub password: Option<SecretString>,
}

/// The largest weight of a shard.
pub const MAX_WEIGHT: u32 = weir_core::shard::MAX_WEIGHT;
