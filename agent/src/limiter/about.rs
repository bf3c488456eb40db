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
    /// The shard has left the ring, or another has its name now: the metrics of that name are no longer its own.
    retired: AtomicBool,
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
        Self {
            config,
            metrics,
            facts,
            open,
            half_open,
            foreign: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            found: Mutex::default(),
        }
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
        // Retiring takes the same lock.
        let _found = self.found.lock();
        if self.retired.load(Ordering::Acquire) {
            return;
        }
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
        if self.retired.load(Ordering::Acquire) {
            return;
        }
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

    /// The shard, with these nodes, is no longer in the ring: what its metrics say of its state is taken back, and is another's to say from now
    /// on.
    pub(super) fn retire(&self, nodes: &[Host]) {
        let found = self.found.lock();
        if !self.retired.swap(true, Ordering::AcqRel) {
            found.codes().into_iter().for_each(|code| self.metrics.warning(code, false));
            nodes.iter().for_each(|node| self.metrics.node_breaker(node, None));
        }
    }

    /// The warning of another hash secret, if it was found on this line.
    pub(super) fn foreign_warning(&self, node: Option<&Host>) -> Option<ShardWarning> {
        let node = node.map(ToString::to_string).unwrap_or_default();
        let found = self.found.lock();
        found.warnings.get(&node)?.iter().find(|warning| warning.code == Code::ForeignHashSecret).cloned()
    }

    /// All that was found, each code once, with everything that was said of it.
    pub(super) fn warnings(&self) -> Vec<ShardWarning> {
        let found = self.found.lock();
        let mut all: Vec<ShardWarning> = found.warnings.values().flatten().cloned().collect();
        all.sort_by(|a, b| (a.code, &a.text).cmp(&(b.code, &b.text)));
        all.dedup();
        all.into_iter().fold(Vec::new(), |mut all: Vec<ShardWarning>, warning| {
            match all.last_mut().filter(|last| last.code == warning.code) {
                Some(last) => last.text = format!("{}; {}", last.text, warning.text),
                None => all.push(warning),
            }
            all
        })
    }

    fn settle(&self, found: &mut Found, before: &[Code]) {
        let after = found.codes();
        let retired = self.retired.load(Ordering::Acquire);
        for code in before.iter().filter(|code| !retired && !after.contains(code)) {
            self.metrics.warning(*code, false);
        }
        for code in after.iter().filter(|_| !retired) {
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

    #[test]
    fn of_one_code_everything_is_said_once() {
        let about = nowhere("redis://127.0.0.1:1");
        let warning = |code, text: &str| ShardWarning { code, text: text.to_owned() };
        let (info, mark) = (warning(Code::Unreadable, "no INFO"), warning(Code::Unreadable, "no mark"));
        about.set_warnings(Some(&Host { name: "a".to_owned(), port: 1 }), vec![info.clone(), mark.clone()]);
        about.set_warnings(Some(&Host { name: "b".to_owned(), port: 1 }), vec![info, warning(Code::OldServer, "old")]);
        let said = about.warnings();
        assert_eq!(said.len(), 2);
        assert!(said.contains(&warning(Code::Unreadable, "no INFO; no mark")), "{said:?}");
    }

    /// The metrics of a name are those of the shard that has it now.
    #[test]
    fn a_shard_that_was_replaced_says_nothing_more() {
        let name: weir_core::name::Name = "s".parse().unwrap();
        let mut registry = prometheus_client::registry::Registry::default();
        let metrics = LimiterMetrics::default();
        metrics.register(&mut registry);
        let config = || ShardConfig::given(name.clone(), address::read("redis://127.0.0.1:1").unwrap());
        let shard = || About::new(config(), metrics.of(&name), Arc::default());
        let old_server = || vec![ShardWarning { code: Code::OldServer, text: "old".to_owned() }];
        let (old, new) = (shard(), shard());
        old.breaker_changed(None, None, Some(BreakerState::Closed));
        old.set_warnings(None, old_server());
        new.breaker_changed(None, None, Some(BreakerState::Closed));
        old.retire(&[]);
        let text = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        assert!(!text().contains("old_server"), "{}", text());
        new.set_warnings(None, old_server());
        old.breaker_changed(None, Some(BreakerState::Closed), Some(BreakerState::Open));
        old.set_memory(None, MemoryUse { used: 7, ..MemoryUse::default() });
        old.forget_line(None);
        assert!(text().contains("old_server\"} 1"), "{}", text());
        assert!(text().contains("breaker{shard=\"s\"} 0") && !text().contains("memory_bytes{shard=\"s\"} 7"), "{}", text());
    }
}
