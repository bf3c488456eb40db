//! One shard as the rest of the limiter sees it: ask it, give units back to it, see how it is doing. It has one line to its primary, or, as a
//! Redis Cluster, one to each.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use secrecy::ExposeSecret as _;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use weir_core::counter::CounterCall;
use weir_core::decision::Cause;
use weir_core::key::CounterKey;
use weir_core::name::Name;

use super::about::{About, Facts};
use super::address::{Login, Reach};
use super::batch::{Answer, Refunds, Way};
use super::breaker::BreakerState;
use super::cluster::Cluster;
use super::connection::Target;
use super::line::Line;
use super::metrics::ShardMetrics;
use super::session;
use super::settings::{LimiterSettings, ShardConfig};
use super::slots::slot_of;
use super::store::Refund;
use super::warning::Code;
use super::work::Work;
use super::{NodeStatus, ShardStatus};

/// One shard of the ring.
#[derive(Debug)]
pub(super) struct Shard {
    about: Arc<About>,
    lines: Lines,
    pub(super) stop: CancellationToken,
}

#[derive(Debug)]
enum Lines {
    One(Arc<Line>),
    Cluster(Arc<Cluster>),
}

impl Shard {
    /// A shard with tasks that keep its connections, until `stop`.
    pub(super) fn start(config: ShardConfig, settings: &LimiterSettings, metrics: ShardMetrics, facts: Arc<Facts>) -> Arc<Self> {
        let stop = CancellationToken::new();
        let about = Arc::new(About::new(config, metrics, facts));
        let one = |target| {
            let line = Arc::new(Line::new(about.clone(), None, Arc::new(Notify::new()), stop.clone()));
            tokio::spawn(session::run(line.clone(), target, settings.clone(), None));
            Lines::One(line)
        };
        let lines = match about.config.address.reach.clone() {
            Reach::Server(host) => one(Target::Server(host)),
            Reach::Socket(path) => one(Target::Socket(path)),
            Reach::Sentinel { sentinels, primary } => one(Target::Sentinel { sentinels, primary, first: AtomicUsize::new(0) }),
            Reach::Cluster(seeds) => Lines::Cluster(Cluster::start(about.clone(), seeds, settings, stop.clone())),
        };
        Arc::new(Self { about, lines, stop })
    }

    pub(super) fn name(&self) -> &Name {
        &self.about.config.name
    }

    /// The ring has no place for it any more: it stops, and the metrics of its name are another's.
    pub(super) fn retire(&self) {
        match &self.lines {
            Lines::One(_) => self.about.retire(&[]),
            Lines::Cluster(cluster) => self.about.retire(&cluster.hosts()),
        }
        self.stop.cancel();
    }

    /// What the counters of one call must share: their slot on a cluster, nothing elsewhere.
    pub(super) fn slot(&self, key: &CounterKey) -> Option<u16> {
        matches!(self.lines, Lines::Cluster(_)).then(|| slot_of(key.tag()))
    }

    fn line(&self, slot: Option<u16>) -> Arc<Line> {
        match (&self.lines, slot) {
            (Lines::One(line), _) => line.clone(),
            (Lines::Cluster(cluster), Some(slot)) => cluster.line(slot),
            (Lines::Cluster(cluster), None) => cluster.home.clone(),
        }
    }

    /// Sends the limits of one request, all of this slot, to the shard with the next call, unless `deadline` comes first.
    ///
    /// # Errors
    /// Why the shard is not asked.
    pub(super) fn ask(&self, calls: Vec<CounterCall>, slot: Option<u16>, deadline: Instant) -> Result<oneshot::Receiver<Answer>, Cause> {
        match &self.lines {
            Lines::One(line) => line.ask(calls, deadline, Way::default()),
            Lines::Cluster(_) => self.line(slot).ask(calls, deadline, slot.map(Way::to_slot).unwrap_or_default()),
        }
    }

    /// Gives units back with the next call, at most once. All are of one slot, as those of a call are.
    pub(super) fn refund(&self, refunds: Vec<Refund>) {
        if let Some(first) = refunds.first() {
            self.line(self.slot(&first.key)).refund(Refunds { refunds, moved: false });
        }
    }

    /// How long what counts this slot has been away.
    pub(super) fn away_for(&self, slot: Option<u16>, now: Instant) -> Duration {
        self.line(slot).away_for(now)
    }

    /// Does something besides checks to counters of this slot, unless `deadline` comes first.
    ///
    /// # Errors
    /// Why the shard is not asked.
    pub(super) fn operate(
        &self,
        work: Work,
        slot: Option<u16>,
        deadline: Instant,
    ) -> Result<oneshot::Receiver<Result<Vec<u64>, Cause>>, Cause> {
        self.line(slot).operate(work, deadline)
    }

    /// Whether calls may create counters that a client can have invented, where those of this slot are.
    pub(super) fn creates_counters(&self, slot: Option<u16>) -> bool {
        match &self.lines {
            Lines::One(line) => !line.is_full(),
            Lines::Cluster(_) => !self.line(slot).is_full(),
        }
    }

    /// Resolves once the shard has been reached or has failed.
    pub(super) async fn settled(&self) {
        match &self.lines {
            Lines::One(line) => line.settled().await,
            Lines::Cluster(cluster) => cluster.settled().await,
        }
    }

    /// Resolves once the shard is no longer used, after `stop`.
    pub(super) async fn closed(&self) {
        match &self.lines {
            Lines::One(line) => line.closed().await,
            Lines::Cluster(cluster) => cluster.closed().await,
        }
    }

    pub(super) fn status(&self) -> ShardStatus {
        let lines = match &self.lines {
            Lines::One(line) => vec![line.clone()],
            Lines::Cluster(cluster) => cluster.lines(),
        };
        let (in_flight, queued) = lines.iter().map(|line| line.load()).fold((0, 0), |sum, load| (sum.0 + load.0, sum.1 + load.1));
        let nodes = lines.iter().filter_map(|line| {
            let node = line.node.as_ref()?.to_string();
            Some(NodeStatus { node, breaker: line.breaker(), last_error: line.last_error() })
        });
        let nodes: Vec<NodeStatus> = nodes.collect();
        let error = |line: &Arc<Line>| {
            let (error, node) = (line.last_error()?, line.node_text());
            Some(if error.starts_with(&node) { error } else { format!("{node}: {error}") })
        };
        let warnings = self.about.warnings();
        let foreign = warnings.iter().find(|warning| warning.code == Code::ForeignHashSecret);
        ShardStatus {
            name: self.name().clone(),
            breaker: if foreign.is_some() { BreakerState::Open } else { self.about.worst() },
            last_error: foreign.map(|warning| warning.text.clone()).or_else(|| lines.iter().find_map(error)),
            in_flight,
            queued,
            nodes,
            memory: self.about.whole_memory(),
            warnings,
        }
    }

    /// Whether a shard of this configuration would be reached in the same way.
    pub(super) fn is_reached_as(&self, config: &ShardConfig) -> bool {
        let own = &self.about.config;
        own.name == config.name
            && own.address == config.address
            && own.memory_limit == config.memory_limit
            && is_same(&own.login, &config.login)
            && is_same(&own.sentinel_login, &config.sentinel_login)
    }
}

fn is_same(one: &Login, other: &Login) -> bool {
    let password = |login: &Login| login.password.as_ref().map(|password| password.expose_secret().to_owned());
    one.username == other.username && password(one) == password(other)
}
