//! How the agent is doing.

use std::sync::atomic::Ordering;

use weir_core::name::Name;

use super::Parts;
use crate::limiter::ShardStatus;
use crate::rules::store::{DomainState, InForce};

/// How an agent is doing.
#[derive(Debug, Clone)]
pub struct AgentStatus {
    /// Its name.
    pub name: Name,
    /// Random per start.
    pub boot: String,
    /// Whether every domain has rules and the agent does not drain.
    pub ready: bool,
    /// Whether it is about to stop.
    pub draining: bool,
    /// Whether a stream to the control plane is open.
    pub connected: bool,
    /// Why not, if something went wrong.
    pub last_error: Option<String>,
    /// Time since a control plane confirmed the rules: 0 while connected; `None` without a control plane, or if none was ever heard.
    pub stale_seconds: Option<f64>,
    /// The domains and what of them is in force.
    pub domains: Vec<DomainState>,
    /// The ring that the control plane sent.
    pub ring: Option<InForce>,
    /// How each shard is doing.
    pub shards: Vec<ShardStatus>,
    /// What an operator should look at, one line each.
    pub warnings: Vec<String>,
    /// Decisions since the start.
    pub decisions: u64,
    /// Requests whose counts were lost since the start.
    pub dropped_events: u64,
    /// Bytes of event batches that wait for the control plane.
    pub spool_bytes: usize,
}

pub(super) fn status(parts: &Parts) -> AgentStatus {
    let draining = parts.draining.load(Ordering::Relaxed);
    AgentStatus {
        name: parts.settings.name.clone(),
        boot: parts.boot.clone(),
        ready: parts.store.ready() && !draining,
        draining,
        connected: parts.store.connected(),
        last_error: parts.store.last_error(),
        stale_seconds: parts.store.stale().map(|stale| stale.as_secs_f64()),
        domains: parts.store.domains(),
        ring: parts.store.ring(),
        shards: parts.limiter.shards(),
        warnings: parts.store.warnings(),
        decisions: parts.recorder.recorded(),
        dropped_events: parts.recorder.dropped(),
        spool_bytes: parts.spool.as_ref().map_or(0, |spool| spool.waiting().1),
    }
}
