//! What the limiter is told: where to count, how long to wait, and the shards of the ring.

use std::sync::Arc;
use std::time::Duration;

use weir_core::name::Name;

use super::address::{Given, Login, ShardAddress};
use super::resolver::{Resolver, SystemResolver};
use super::tls::TlsFiles;

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
    /// Calls in flight per shard, 1 to 64 (default 6). More calls carry fewer checks each; fewer leave the shard idle while replies travel and
    /// the agent works on them. Under full load on one machine a shard does a twelfth more with 6 than with 4; of 8 full calls, which
    /// take it 4 ms, the last would be late.
    pub in_flight: usize,
    /// How long a connection may take to be ready, TLS and authentication included (default 500 ms).
    pub connect_timeout: Duration,
    /// How long one call may take, however long the budgets of its checks are (default 2 s).
    pub call_timeout: Duration,
    /// How long a probe of a shard may take (default 100 ms).
    pub probe_timeout: Duration,
    /// Agents that share a limit, until the control plane tells (default 1).
    pub agents: u32,
    /// The most counters held in this process (default 500,000), whether counted here or while a shard is away. Eight entries of a log,
    /// slots of a sliding window or leases in flight are as much as one counter.
    pub memory_counters: usize,
    /// The files for shards that are reached over TLS.
    pub tls: TlsFiles,
    /// Finds the addresses of shards (default: as the system does).
    pub resolver: Arc<dyn Resolver>,
}

impl Default for LimiterSettings {
    fn default() -> Self {
        Self {
            count_on: CountOn::Ring,
            in_flight: 6,
            connect_timeout: Duration::from_millis(500),
            call_timeout: Duration::from_secs(2),
            probe_timeout: Duration::from_millis(100),
            agents: 1,
            memory_counters: 500_000,
            tls: TlsFiles::default(),
            resolver: Arc::new(SystemResolver::default()),
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

/// One Redis or Valkey primary, or one Redis Cluster.
#[derive(Debug, Clone)]
pub struct ShardConfig {
    /// The name: what the ring places, so a shard that keeps it keeps its counters when it moves to another address.
    pub name: Name,
    /// Where it is.
    pub address: ShardAddress,
    /// Its share of the counters, relative to the other shards; 1 to [`MAX_WEIGHT`].
    pub weight: u32,
    /// What opens it.
    pub login: Login,
    /// What opens the sentinels that know it.
    pub sentinel_login: Login,
    /// Bytes of memory that it may fill, if it has no limit of its own (`maxmemory`).
    pub memory_limit: Option<u64>,
}

impl ShardConfig {
    /// The shard called `name` at `address`, which needs no login.
    #[must_use]
    pub fn new(name: Name, address: ShardAddress) -> Self {
        Self { name, address, weight: 1, login: Login::default(), sentinel_login: Login::default(), memory_limit: None }
    }

    /// The shard called `name`, as a command line has it.
    #[must_use]
    pub fn given(name: Name, given: Given) -> Self {
        let Given { address, login, sentinel_login, weight, memory_limit } = given;
        Self { name, address, weight, login, sentinel_login, memory_limit }
    }
}

/// The largest weight of a shard.
pub const MAX_WEIGHT: u32 = weir_core::shard::MAX_WEIGHT;
