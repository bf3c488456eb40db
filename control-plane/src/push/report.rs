//! What an agent has said of itself on its stream, as it is shown: bounded and printable.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_core::item::SetHash;
use weir_proto::v1;

use super::published::SetName;
use crate::ingest::text;

const MAX_WARNINGS: usize = 32;
const MAX_SHARDS: usize = 256;
const MAX_NODES: usize = 64;
const MAX_ERRORS: usize = 50;
const MAX_TEXT: usize = 500;

/// The state of one shard as an agent sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ShardReport {
    /// The shard.
    pub shard: String,
    /// `closed` (calls flow), `open` (calls stopped) or `half_open` (probing).
    pub breaker: String,
    /// The last error, empty if there was none.
    pub last_error: String,
    /// What is amiss with it.
    #[serde(default)]
    pub warnings: Vec<WarningReport>,
    /// Bytes of memory that its servers use; 0: not known.
    #[serde(default)]
    pub memory_bytes: i64,
    /// Bytes that they may use; 0: nothing limits them, or it is not known.
    #[serde(default)]
    pub memory_limit_bytes: i64,
    /// Whether its memory is so full that new counters are kept out.
    #[serde(default)]
    pub guarded: bool,
    /// The nodes of a Redis Cluster; none for a single primary.
    #[serde(default)]
    pub nodes: Vec<NodeReport>,
}

/// Something amiss with a shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = ShardReportWarning)]
pub struct WarningReport {
    /// A stable name: `foreign_hash_secret`, `evicts_counters`, `no_memory_limit`, `no_persistence`, `old_server` or `unreadable`.
    pub code: String,
    /// In words, with what to do about it.
    pub text: String,
}

/// The state of a node of a cluster as an agent sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NodeReport {
    /// Its address.
    pub node: String,
    /// As of the shard.
    pub breaker: String,
    /// The last error, empty if there was none.
    pub last_error: String,
}

/// What was refused, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The revision.
    pub revision: u64,
    /// Its content.
    pub hash: SetHash,
    /// One line for each mistake.
    pub errors: Vec<String>,
    /// For a passing reason.
    pub temporary: bool,
}

/// What an agent has of one set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetReport {
    /// What it runs.
    pub runs: Option<(u64, SetHash)>,
    /// What it refused last, until it runs something newer.
    pub refused: Option<Refusal>,
}

/// All that is known of an agent from its stream.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// What went wrong last.
    pub last_error: String,
    /// Problems to show.
    pub warnings: Vec<String>,
    /// How it sees its shards.
    pub shards: Vec<ShardReport>,
    /// Decisions per second of late.
    pub decisions_per_second: f64,
    /// Age of its rules while it had no control plane.
    pub stale_seconds: i64,
    /// Events it lost.
    pub dropped_events: i64,
    /// Its sets.
    pub sets: BTreeMap<SetName, SetReport>,
}

impl Report {
    /// Takes in a heartbeat.
    pub fn heartbeat(&mut self, heartbeat: &v1::Heartbeat) {
        self.warnings = lines(&heartbeat.warnings, MAX_WARNINGS);
        self.shards = heartbeat.shards.iter().take(MAX_SHARDS).map(ShardReport::read).collect();
        let rate = heartbeat.decisions_per_second;
        self.decisions_per_second = if rate.is_finite() && rate >= 0.0 { rate } else { 0.0 };
        self.stale_seconds = number(heartbeat.stale_seconds);
        self.dropped_events = number(heartbeat.dropped_events);
    }

    /// The agent runs this revision.
    pub fn runs(&mut self, set: &str, revision: u64, hash: SetHash) {
        if let Some(report) = self.sets.get_mut(set) {
            report.runs = Some((revision, hash));
            report.refused.take_if(|refused| refused.revision <= revision);
        }
    }

    /// An earlier stream of the agent refused this revision; it counts as long as the agent runs nothing newer and said nothing else.
    pub fn still_refuses(&mut self, set: &str, refusal: Refusal) {
        if let Some(report) = self.sets.get_mut(set)
            && report.refused.is_none()
            && report.runs.is_none_or(|(revision, _)| revision < refusal.revision)
        {
            report.refused = Some(refusal);
        }
    }

    /// The agent refused this revision.
    pub fn refused(&mut self, set: &str, refusal: Refusal) {
        if let Some(report) = self.sets.get_mut(set) {
            self.last_error = match refusal.errors.first() {
                Some(first) => format!("revision {}: {first}", refusal.revision),
                None => format!("revision {} was refused", refusal.revision),
            };
            report.refused = Some(refusal);
        }
    }
}

impl ShardReport {
    fn read(health: &v1::ShardHealth) -> Self {
        Self {
            shard: text::printable(&health.shard, 64),
            breaker: text::printable(&health.breaker, 16),
            last_error: text::printable(&health.last_error, MAX_TEXT),
            warnings: health.warnings.iter().take(MAX_WARNINGS).map(WarningReport::read).collect(),
            memory_bytes: number(health.memory_bytes),
            memory_limit_bytes: number(health.memory_limit_bytes),
            guarded: health.guarded,
            nodes: health.nodes.iter().take(MAX_NODES).map(NodeReport::read).collect(),
        }
    }
}

impl WarningReport {
    fn read(warning: &v1::ShardWarning) -> Self {
        Self { code: text::printable(&warning.code, 64), text: text::printable(&warning.text, MAX_TEXT) }
    }
}

impl NodeReport {
    fn read(node: &v1::NodeHealth) -> Self {
        Self {
            node: text::printable(&node.node, 300),
            breaker: text::printable(&node.breaker, 16),
            last_error: text::printable(&node.last_error, MAX_TEXT),
        }
    }
}

fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The errors of a Nack, bounded.
#[must_use]
pub fn errors(nack: &v1::Nack) -> Vec<String> {
    lines(&nack.errors, MAX_ERRORS)
}

fn lines(texts: &[String], most: usize) -> Vec<String> {
    texts.iter().take(most).map(|line| text::printable(line, MAX_TEXT)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_bounded_and_printable() {
        let mut report = Report::default();
        let warning = v1::ShardWarning { code: "c".repeat(900), text: "\0 y".repeat(900) };
        let shard = v1::ShardHealth {
            shard: "a\0".into(),
            breaker: "closed".into(),
            last_error: "x".repeat(9_000),
            warnings: vec![warning; 100],
            memory_bytes: u64::MAX,
            nodes: vec![v1::NodeHealth { node: "n".repeat(9_000), ..Default::default() }; 900],
            ..Default::default()
        };
        report.heartbeat(&v1::Heartbeat {
            warnings: vec!["\0 y".repeat(900); 100],
            shards: vec![shard; 1_000],
            decisions_per_second: f64::NAN,
            stale_seconds: u64::MAX,
            dropped_events: 7,
        });
        assert_eq!((report.warnings.len(), report.shards.len()), (MAX_WARNINGS, MAX_SHARDS));
        let shard = &report.shards[0];
        assert_eq!((shard.warnings.len(), shard.nodes.len(), shard.memory_bytes), (MAX_WARNINGS, MAX_NODES, i64::MAX));
        assert!(shard.warnings[0].code.len() <= 64 && shard.nodes[0].node.len() <= 300 && !shard.warnings[0].text.contains('\0'));
        assert!(report.warnings.iter().all(|w| w.len() <= MAX_TEXT && !w.contains('\0')));
        assert_eq!((report.decisions_per_second, report.stale_seconds, report.dropped_events), (0.0, i64::MAX, 7));
    }

    #[test]
    fn a_refusal_stays_until_something_newer_runs() {
        let hash = SetHash([1; 32]);
        let mut report = Report { sets: [("default".into(), SetReport::default())].into(), ..Report::default() };
        report.refused("default", Refusal { revision: 5, hash, errors: vec!["bad".into()], temporary: false });
        report.runs("default", 4, hash);
        assert!(report.sets["default"].refused.is_some());
        assert_eq!(report.last_error, "revision 5: bad");
        report.runs("default", 6, hash);
        assert_eq!(report.sets["default"], SetReport { runs: Some((6, hash)), refused: None });
    }
}
