//! The agent's metrics in Prometheus' text format. No label depends on clients: rules, tiers, shards and causes are the operator's.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::agent::AgentStatus;

/// Upper bounds of the duration of a check, in seconds: from what the deny cache takes to far beyond any budget.
const DURATION_BUCKETS: [f64; 12] = [0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DomainLabel {
    domain: String,
}

/// What came of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OperationOutcome {
    /// It did something: units were recorded or came back, a counter was cleared, a lease ended; a peek was answered.
    Done,
    /// There was nothing to do.
    Nothing,
    /// A shard did not answer.
    Degraded,
    /// The question was bad.
    Bad,
}

impl OperationOutcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Nothing => "nothing",
            Self::Degraded => "degraded",
            Self::Bad => "bad",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
    outcome: &'static str,
}

/// The agent's own metrics, and the registry that all parts add theirs to.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    /// How long checks took, in seconds.
    pub decision_duration: Histogram,
    operations: Family<OperationLabels, Counter>,
    revision: Family<DomainLabel, Gauge<u64, AtomicU64>>,
    connected: Gauge<i64, AtomicI64>,
    ready: Gauge<i64, AtomicI64>,
    stale_seconds: Gauge<f64, AtomicU64>,
    dropped: Counter,
    spool_bytes: Gauge<u64, AtomicU64>,
}

impl Metrics {
    /// The agent's metrics, and what `others` add.
    #[must_use]
    pub fn new(others: impl FnOnce(&mut Registry)) -> Arc<Self> {
        let mut registry = Registry::default();
        let metrics = Self {
            registry: Mutex::default(),
            decision_duration: Histogram::new(DURATION_BUCKETS),
            operations: Family::default(),
            revision: Family::default(),
            connected: Gauge::default(),
            ready: Gauge::default(),
            stale_seconds: Gauge::default(),
            dropped: Counter::default(),
            spool_bytes: Gauge::default(),
        };
        let duration = metrics.decision_duration.clone();
        registry.register("weir_decision_duration_seconds", "How long checks took", duration);
        let operations =
            "Peeks, records, refunds, resets and releases, by outcome: done, nothing (to do), degraded (a shard did not answer), bad";
        registry.register("weir_operations", operations, metrics.operations.clone());
        registry.register("weir_rules_revision", "Revision of the rules in force", metrics.revision.clone());
        registry.register("weir_control_plane_connected", "1 while a stream to the control plane is open", metrics.connected.clone());
        registry.register("weir_ready", "1 while every domain has rules and the agent does not drain", metrics.ready.clone());
        registry.register("weir_rules_stale_seconds", "Time since a control plane confirmed the rules", metrics.stale_seconds.clone());
        registry.register("weir_events_dropped", "Requests whose counts were lost since the start", metrics.dropped.clone());
        registry.register("weir_events_spool_bytes", "Bytes of event batches that wait for the control plane", metrics.spool_bytes.clone());
        registry.register("weir_build", "The running build", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        others(&mut registry);
        *metrics.registry.lock() = registry;
        Arc::new(metrics)
    }

    /// Counts an operation that is no check.
    pub fn operated(&self, operation: &'static str, outcome: OperationOutcome) {
        self.operations.get_or_create(&OperationLabels { operation, outcome: outcome.as_str() }).inc();
    }

    /// All metrics as text, the gauges as `status` has them.
    #[must_use]
    pub fn text(&self, status: &AgentStatus) -> String {
        for domain in &status.domains {
            let revision = domain.rules.as_ref().map_or(0, |rules| rules.revision);
            self.revision.get_or_create(&DomainLabel { domain: domain.domain.to_string() }).set(revision);
        }
        self.connected.set(i64::from(status.connected));
        self.ready.set(i64::from(status.ready));
        self.stale_seconds.set(status.stale_seconds.unwrap_or_default());
        self.dropped.inner().store(status.dropped_events, Ordering::Relaxed);
        self.spool_bytes.set(status.spool_bytes as u64);
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &self.registry.lock()) {
            tracing::warn!(%error, "cannot write metrics");
        }
        text
    }
}
