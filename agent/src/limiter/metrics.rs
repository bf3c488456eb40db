//! Metrics of the shards. Each shard holds its own handles, so that counting is one atomic operation.

use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use weir_core::decision::Cause;
use weir_core::name::Name;

use super::address::Host;
use super::breaker::BreakerState;
use super::memory::MemoryStore;
use super::warning::Code;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShardLabel {
    shard: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    shard: String,
    cause: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NodeLabels {
    shard: String,
    node: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WarningLabels {
    shard: String,
    code: &'static str,
}

type Counts = Family<ShardLabel, Counter>;
type Histograms = Family<ShardLabel, Histogram, fn() -> Histogram>;

/// The metrics of all shards.
#[derive(Debug, Clone)]
pub(super) struct LimiterMetrics {
    calls: Counts,
    checks: Counts,
    batch: Histograms,
    seconds: Histograms,
    errors: Family<ErrorLabels, Counter>,
    breaker: Family<ShardLabel, Gauge>,
    in_flight: Family<ShardLabel, Gauge>,
    queued: Family<ShardLabel, Gauge>,
    connections: Counts,
    reloads: Counts,
    refunds: Counts,
    lost_refunds: Counts,
    replaced: Counts,
    node_breaker: Family<NodeLabels, Gauge>,
    warnings: Family<WarningLabels, Gauge>,
    memory: Family<ShardLabel, Gauge>,
    guarded: Family<ShardLabel, Gauge>,
    /// Requests refused by the deny cache, without asking a shard.
    pub(super) denied_from_cache: Counter,
}

impl Default for LimiterMetrics {
    fn default() -> Self {
        Self {
            calls: Counts::default(),
            checks: Counts::default(),
            batch: Histograms::new_with_constructor(|| Histogram::new(exponential_buckets(1.0, 2.0, 7))),
            seconds: Histograms::new_with_constructor(|| Histogram::new(exponential_buckets(0.000_1, 2.0, 14))),
            errors: Family::default(),
            breaker: Family::default(),
            in_flight: Family::default(),
            queued: Family::default(),
            connections: Counts::default(),
            reloads: Counts::default(),
            refunds: Counts::default(),
            lost_refunds: Counts::default(),
            replaced: Counts::default(),
            node_breaker: Family::default(),
            warnings: Family::default(),
            memory: Family::default(),
            guarded: Family::default(),
            denied_from_cache: Counter::default(),
        }
    }
}

impl LimiterMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("weir_shard_calls", "Calls sent to the shard", self.calls.clone());
        registry.register("weir_shard_checks", "Checks sent to the shard", self.checks.clone());
        registry.register("weir_shard_batch_size", "Checks in one call", self.batch.clone());
        registry.register("weir_shard_call_seconds", "Time until the shard answered a call", self.seconds.clone());
        registry.register("weir_shard_errors", "Calls that the shard did not answer, by cause", self.errors.clone());
        registry.register("weir_shard_breaker", "State of the breaker: 0 closed, 1 half open, 2 open", self.breaker.clone());
        registry.register("weir_shard_calls_in_flight", "Calls on their way", self.in_flight.clone());
        registry.register("weir_shard_queued_checks", "Checks that wait to be sent", self.queued.clone());
        registry.register("weir_shard_connections", "Connections made to the shard", self.connections.clone());
        registry.register("weir_shard_script_reloads", "Times the shard had lost the script", self.reloads.clone());
        registry.register("weir_shard_refunds", "Counters to which units were given back", self.refunds.clone());
        registry.register("weir_shard_lost_refunds", "Refunds that did not reach the shard", self.lost_refunds.clone());
        registry.register("weir_shard_replaced_states", "Unreadable counters replaced by empty ones", self.replaced.clone());
        registry.register(
            "weir_shard_node_breaker",
            "State of the breaker of a node of a cluster: 0 closed, 1 half open, 2 open",
            self.node_breaker.clone(),
        );
        registry.register("weir_shard_warnings", "1 while something is amiss with the shard, by code", self.warnings.clone());
        registry.register("weir_shard_memory_bytes", "Memory that the shard's servers use", self.memory.clone());
        registry.register(
            "weir_shard_guarded",
            "1 while the shard's memory is so full that new counters are kept out",
            self.guarded.clone(),
        );
        let denied_from_cache = self.denied_from_cache.clone();
        registry.register("weir_denied_from_cache", "Requests refused without asking a shard, which had just refused", denied_from_cache);
    }

    /// The handles of one shard.
    pub(super) fn of(&self, shard: &Name) -> ShardMetrics {
        let label = ShardLabel { shard: shard.to_string() };
        let errors = Cause::ALL.map(|cause| {
            let labels = ErrorLabels { shard: shard.to_string(), cause: cause.as_str() };
            // Only these can come of a call.
            matches!(cause, Cause::Timeout | Cause::Error).then(|| self.errors.get_or_create_owned(&labels))
        });
        ShardMetrics {
            calls: self.calls.get_or_create_owned(&label),
            checks: self.checks.get_or_create_owned(&label),
            batch: self.batch.get_or_create_owned(&label),
            seconds: self.seconds.get_or_create_owned(&label),
            errors: Arc::new(errors),
            breaker: self.breaker.get_or_create_owned(&label),
            in_flight: self.in_flight.get_or_create_owned(&label),
            queued: self.queued.get_or_create_owned(&label),
            connections: self.connections.get_or_create_owned(&label),
            reloads: self.reloads.get_or_create_owned(&label),
            refunds: self.refunds.get_or_create_owned(&label),
            lost_refunds: self.lost_refunds.get_or_create_owned(&label),
            replaced: self.replaced.get_or_create_owned(&label),
            memory: self.memory.get_or_create_owned(&label),
            guarded: self.guarded.get_or_create_owned(&label),
            node_breaker: self.node_breaker.clone(),
            warnings: self.warnings.clone(),
            label,
        }
    }

    /// Drops the series of a shard that has left the ring.
    pub(super) fn forget(&self, shard: &Name) {
        let label = ShardLabel { shard: shard.to_string() };
        let counts = [&self.calls, &self.checks, &self.connections, &self.reloads, &self.refunds, &self.lost_refunds, &self.replaced];
        for family in counts {
            family.remove(&label);
        }
        for family in [&self.batch, &self.seconds] {
            family.remove(&label);
        }
        for family in [&self.breaker, &self.in_flight, &self.queued, &self.memory, &self.guarded] {
            family.remove(&label);
        }
        for code in Code::ALL {
            self.warnings.remove(&WarningLabels { shard: shard.to_string(), code: code.as_str() });
        }
        for cause in Cause::ALL {
            self.errors.remove(&ErrorLabels { shard: shard.to_string(), cause: cause.as_str() });
        }
    }
}

/// The handles of one shard.
#[derive(Debug, Clone)]
pub(super) struct ShardMetrics {
    pub(super) calls: Counter,
    pub(super) checks: Counter,
    pub(super) batch: Histogram,
    pub(super) seconds: Histogram,
    errors: Arc<[Option<Counter>; Cause::ALL.len()]>,
    breaker: Gauge,
    pub(super) in_flight: Gauge,
    pub(super) queued: Gauge,
    pub(super) connections: Counter,
    pub(super) reloads: Counter,
    pub(super) refunds: Counter,
    pub(super) lost_refunds: Counter,
    pub(super) replaced: Counter,
    memory: Gauge,
    guarded: Gauge,
    node_breaker: Family<NodeLabels, Gauge>,
    warnings: Family<WarningLabels, Gauge>,
    label: ShardLabel,
}

impl ShardMetrics {
    pub(super) fn failed(&self, cause: Cause) {
        if let Some(counter) = &self.errors[cause as usize] {
            counter.inc();
        }
    }

    pub(super) fn breaker(&self, state: BreakerState) {
        self.breaker.set(number(state));
    }

    /// The breaker of a node of a cluster; `None`: the node has gone.
    pub(super) fn node_breaker(&self, node: &Host, state: Option<BreakerState>) {
        let labels = NodeLabels { shard: self.label.shard.clone(), node: node.to_string() };
        match state {
            Some(state) => _ = self.node_breaker.get_or_create(&labels).set(number(state)),
            None => _ = self.node_breaker.remove(&labels),
        }
    }

    /// Something is amiss, or is not any more.
    pub(super) fn warning(&self, code: Code, is_there: bool) {
        let labels = WarningLabels { shard: self.label.shard.clone(), code: code.as_str() };
        if is_there {
            self.warnings.get_or_create(&labels).set(1);
        } else {
            self.warnings.remove(&labels);
        }
    }

    pub(super) fn memory(&self, used: u64, guarded: bool) {
        self.memory.set(i64::try_from(used).unwrap_or(i64::MAX));
        self.guarded.set(i64::from(guarded));
    }
}

fn number(state: BreakerState) -> i64 {
    match state {
        BreakerState::Closed => 0,
        BreakerState::HalfOpen => 1,
        BreakerState::Open => 2,
    }
}

/// What is counted in this process, for metrics.
#[derive(Debug)]
pub(super) struct LocalCounters(pub(super) Arc<MemoryStore>);

impl Collector for LocalCounters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let held = ConstGauge::new(i64::try_from(self.0.len()).unwrap_or(i64::MAX));
        held.encode(encoder.encode_descriptor("weir_local_counters", "Counters held in this process", None, held.metric_type())?)?;
        let gone = ConstCounter::new(self.0.evictions());
        let help = "Counters of this process that gave way to others before they were over";
        gone.encode(encoder.encode_descriptor("weir_local_evictions", help, None, gone.metric_type())?)
    }
}
