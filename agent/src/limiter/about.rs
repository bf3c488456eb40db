//! What is known of a shard beside its connections, the same for all of its lines: its configuration, its metrics, and what the inspection
//! found.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::address::Host;
use super::breaker::BreakerState;
use super::memory_guard::MemoryUse;
use super::metrics::ShardMetrics;
use super::settings::ShardConfig;
use super::warning::{Code, ShardWarning};

/// What the agent knows that shards are inspected for; one for all shards.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The longest window of the rules in force, in seconds.
    longest_window: AtomicU64,
    fingerprints: watch::Sender<Fingerprints>,
}

/// The fingerprints of the secret that counter keys are hashed with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fingerprints {
    /// Of the one in use; `None`: not known yet, and shards are not asked for theirs.
    pub(super) own: Option<String>,
    /// Of those that this agent used before, the newest last: a shard marked with one of them may be marked anew.
    pub(super) former: Vec<String>,
}

/// How many former fingerprints are remembered.
const MAX_FORMER: usize = 8;

impl Facts {
    pub(super) fn set_longest_window(&self, window: Duration) {
        self.longest_window.store(window.as_secs(), Ordering::Relaxed);
    }

    pub(super) fn longest_window(&self) -> Duration {
        Duration::from_secs(self.longest_window.load(Ordering::Relaxed))
    }

    /// Another secret is in use from now on.
    pub(super) fn set_fingerprint(&self, fingerprint: String) {
        self.fingerprints.send_if_modified(|known| {
            if known.own.as_ref() == Some(&fingerprint) {
                return false;
            }
            known.former.retain(|former| *former != fingerprint);
            known.former.extend(known.own.replace(fingerprint));
            let surplus = known.former.len().saturating_sub(MAX_FORMER);
            known.former.drain(..surplus);
            true
        });
    }

    pub(super) fn fingerprints(&self) -> watch::Receiver<Fingerprints> {
        self.fingerprints.subscribe()
    }
}

/// One shard, apart from how it is reached.
#[derive(Debug)]
pub(super) struct About {
    pub(super) config: ShardConfig,
    pub(super) metrics: ShardMetrics,
    pub(super) facts: Arc<Facts>,
    /// Lines whose breaker is open, and those that are half open.
    open: AtomicI64,
    half_open: AtomicI64,
    /// The shard is counted on with another hash secret: nothing is asked.
    foreign: AtomicBool,
    found: Mutex<Found>,
}

/// What the inspection of each line found, by node (empty: the only one).
#[derive(Debug, Default)]
struct Found {
    warnings: BTreeMap<String, Vec<ShardWarning>>,
    memory: BTreeMap<String, MemoryUse>,
    /// Since when the shard has been counted on with another hash secret.
    foreign_since: Option<Instant>,
}

impl About {
    pub(super) fn new(config: ShardConfig, metrics: ShardMetrics, facts: Arc<Facts>) -> Self {
        let (open, half_open) = (AtomicI64::new(0), AtomicI64::new(0));
        Self { config, metrics, facts, open, half_open, foreign: AtomicBool::new(false), found: Mutex::default() }
    }

    /// The breaker of a line has changed, has come (no `before`) or has gone (no `after`). The shard's is the worst of its lines'.
    pub(super) fn breaker_changed(&self, node: Option<&Host>, before: Option<BreakerState>, after: Option<BreakerState>) {
        let count = |state: Option<BreakerState>, by: i64| match state {
            Some(BreakerState::Open) => self.open.fetch_add(by, Ordering::Relaxed),
            Some(BreakerState::HalfOpen) => self.half_open.fetch_add(by, Ordering::Relaxed),
            Some(BreakerState::Closed) | None => 0,
        };
        count(before, -1);
        count(after, 1);
        self.metrics.breaker(self.worst());
        if let Some(node) = node {
            self.metrics.node_breaker(node, after);
        }
    }

    /// The worst state of the lines' breakers.
    pub(super) fn worst(&self) -> BreakerState {
        match (self.open.load(Ordering::Relaxed), self.half_open.load(Ordering::Relaxed)) {
            (1.., _) => BreakerState::Open,
            (_, 1..) => BreakerState::HalfOpen,
            _ => BreakerState::Closed,
        }
    }

    /// Whether the shard is counted on with another hash secret.
    pub(super) fn is_foreign(&self) -> bool {
        self.foreign.load(Ordering::Acquire)
    }

    /// How long the shard has been counted on with another hash secret.
    pub(super) fn foreign_for(&self, now: Instant) -> Duration {
        if !self.is_foreign() {
            return Duration::ZERO;
        }
        self.found.lock().foreign_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Notes what an inspection found on a line, and says what is new.
    pub(super) fn set_warnings(&self, node: Option<&Host>, warnings: Vec<ShardWarning>) {
        let mut found = self.found.lock();
        let before = found.codes();
        for warning in warnings.iter().filter(|warning| !before.contains(&warning.code)) {
            tracing::warn!(shard = %self.config.name, code = warning.code.as_str(), "{}", warning.text);
        }
        found.warnings.insert(node.map(ToString::to_string).unwrap_or_default(), warnings);
        self.settle(&mut found, &before);
    }

    /// Notes the memory of a line's server.
    pub(super) fn set_memory(&self, node: Option<&Host>, memory: MemoryUse) {
        let mut found = self.found.lock();
        found.memory.insert(node.map(ToString::to_string).unwrap_or_default(), memory);
        self.metrics.memory(found.memory.values().map(|memory| memory.used).sum(), found.memory.values().any(|memory| memory.guarded));
    }

    /// What was known of the memory of a line's server.
    pub(super) fn memory(&self, node: Option<&Host>) -> MemoryUse {
        let node = node.map(ToString::to_string).unwrap_or_default();
        self.found.lock().memory.get(&node).copied().unwrap_or_default()
    }

    /// The memory of all its servers; limits only if all have one.
    pub(super) fn whole_memory(&self) -> MemoryUse {
        let found = self.found.lock();
        found
            .memory
            .values()
            .fold(None, |sum: Option<MemoryUse>, memory| Some(sum.map_or(*memory, |sum| sum.and(*memory))))
            .unwrap_or_default()
    }

    /// A line has gone, and with it what was found there.
    pub(super) fn forget_line(&self, node: Option<&Host>) {
        let mut found = self.found.lock();
        let (before, node) = (found.codes(), node.map(ToString::to_string).unwrap_or_default());
        found.warnings.remove(&node);
        found.memory.remove(&node);
        self.settle(&mut found, &before);
    }

    /// All that was found, each code once.
    pub(super) fn warnings(&self) -> Vec<ShardWarning> {
        let found = self.found.lock();
        let mut all: Vec<ShardWarning> = found.warnings.values().flatten().cloned().collect();
        all.sort_by_key(|warning| warning.code);
        all.dedup_by_key(|warning| warning.code);
        all
    }

    fn settle(&self, found: &mut Found, before: &[Code]) {
        let after = found.codes();
        for code in before.iter().filter(|code| !after.contains(code)) {
            self.metrics.warning(*code, false);
        }
        for code in &after {
            self.metrics.warning(*code, true);
        }
        let is_foreign = after.contains(&Code::ForeignHashSecret);
        found.foreign_since = is_foreign.then(|| found.foreign_since.unwrap_or_else(Instant::now));
        self.foreign.store(is_foreign, Ordering::Release);
    }
}

impl Found {
    fn codes(&self) -> Vec<Code> {
        self.warnings.values().flatten().map(|warning| warning.code).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::address;
    use super::super::metrics::LimiterMetrics;
    use super::*;

    /// A shard where nothing is.
    pub(crate) fn nowhere(url: &str) -> About {
        let name: weir_core::name::Name = "s".parse().unwrap();
        let metrics = LimiterMetrics::default().of(&name);
        About::new(ShardConfig::given(name, address::read(url).unwrap()), metrics, Arc::default())
    }

    #[test]
    fn a_shard_with_another_secret_is_away() {
        let (about, hour) = (nowhere("redis://127.0.0.1:1"), Duration::from_secs(3600));
        let foreign = ShardWarning { code: Code::ForeignHashSecret, text: String::new() };
        assert_eq!(about.foreign_for(Instant::now()), Duration::ZERO);
        about.set_warnings(None, vec![foreign.clone()]);
        let begun = Instant::now();
        about.set_warnings(None, vec![foreign]);
        assert!(about.foreign_for(begun + hour) >= hour, "since it was found first");
        about.set_warnings(None, Vec::new());
        assert_eq!(about.foreign_for(begun + hour), Duration::ZERO);
    }
}
