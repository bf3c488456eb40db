//! What this replica does for agents, in numbers.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The numbers of push and ingest.
#[derive(Debug, Default)]
pub struct AgentMetrics {
    /// Open streams.
    pub streams: Gauge,
    /// Streams refused, after their token was found good.
    pub refused_streams: Counter,
    /// Snapshots sent whole.
    pub snapshots: Counter,
    /// Revisions that agents took.
    pub acks: Counter,
    /// Revisions that agents refused.
    pub nacks: Counter,
    /// Event batches stored.
    pub batches: Counter,
    /// Event batches that had been stored before, and batches refused for good.
    pub unwanted_batches: Counter,
    /// Rows of stored batches that broke a bound and were left out.
    pub refused_rows: Counter,
}

impl AgentMetrics {
    /// Makes the numbers known to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("weir_agent_streams", "Agents' streams open on this replica", self.streams.clone());
        registry.register("weir_agent_streams_refused", "Agents' streams refused at their first message", self.refused_streams.clone());
        registry.register("weir_snapshots_sent", "Sets sent whole to an agent", self.snapshots.clone());
        registry.register("weir_revisions_acked", "Revisions that an agent took", self.acks.clone());
        registry.register("weir_revisions_refused", "Revisions that an agent refused", self.nacks.clone());
        registry.register("weir_event_batches_stored", "Batches of events stored", self.batches.clone());
        registry.register(
            "weir_event_batches_unwanted",
            "Batches of events stored before, or refused for good",
            self.unwanted_batches.clone(),
        );
        registry.register("weir_event_rows_refused", "Rows of events that broke a bound", self.refused_rows.clone());
    }
}
