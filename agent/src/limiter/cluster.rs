//! A shard that is a Redis Cluster: the map from slots to lines, kept true.
//!
//! The map comes from whichever node answers, any of them in turn. It is fetched anew when a call is redirected, when a line is in trouble, and
//! now and then.

mod fetch;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use weir_core::decision::Cause;

use super::about::About;
use super::address::Host;
use super::batch::{Refunds, Waiting, Way};
use super::breaker::{BreakerState, Failure};
use super::connection::{Dialer, Target};
use super::line::Line;
use super::session;
use super::settings::LimiterSettings;
use super::slots::{SLOTS, Stretch, slot_of};
use super::work::Operation;

/// How often the map is fetched while all is well, and while a line is not.
const CALM: Duration = Duration::from_secs(30);
const TROUBLED: Duration = Duration::from_millis(500);
/// The least time between two fetches, and how much longer it is by chance, so that agents do not ask together.
const PAUSE: Duration = Duration::from_millis(100);
const MORE_PAUSE: Duration = Duration::from_millis(200);
/// How often a request is handed from line to line before it counts as lost.
const MAX_HOPS: u8 = 4;
/// How long a request waits whose slot is on the move, before it is tried again.
const MOVING: Duration = Duration::from_millis(2);
/// A line to a node without slots that answers is kept this long: keys may be on their way there.
const GUEST: Duration = Duration::from_secs(10);
/// The most nodes that are connected to, whatever a map says.
const MAX_NODES: usize = 1_000;

/// A cluster.
#[derive(Debug)]
pub(super) struct Cluster {
    about: Arc<About>,
    settings: LimiterSettings,
    dialer: Dialer,
    seeds: Vec<Host>,
    map: ArcSwap<SlotMap>,
    nodes: Mutex<HashMap<Host, Node>>,
    /// Takes the requests for slots that nobody is known to own: until the first map is there they wait for it.
    pub(super) home: Arc<Line>,
    /// The map may be wrong.
    doubt: Arc<Notify>,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Node {
    line: Arc<Line>,
    /// When something was sent there because of a redirection.
    called: Instant,
}

/// The lines, and which of them leads to the owner of each slot.
#[derive(Debug)]
struct SlotMap {
    lines: Vec<Arc<Line>>,
    /// By slot; a line that is not there: nobody.
    owners: Vec<u16>,
}

/// What a node says instead of an answer; the call has counted nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Redirect {
    /// The slot is another node's.
    Moved(u16, Host),
    /// The key may be at the node that the slot is moving to.
    Ask(Host),
    /// Some of the keys are here and some there.
    TryAgain,
}

impl Cluster {
    /// A cluster with a task that keeps its map until `stop`.
    pub(super) fn start(about: Arc<About>, seeds: Vec<Host>, settings: &LimiterSettings, stop: CancellationToken) -> Arc<Self> {
        let doubt = Arc::new(Notify::new());
        let home = Arc::new(Line::new(about.clone(), None, doubt.clone(), stop.clone()));
        let cluster = Arc::new(Self {
            dialer: Dialer::new(&about.config, settings),
            about,
            settings: settings.clone(),
            seeds,
            map: ArcSwap::from_pointee(SlotMap { lines: Vec::new(), owners: vec![u16::MAX; usize::from(SLOTS)] }),
            nodes: Mutex::default(),
            home,
            doubt,
            stop,
        });
        tokio::spawn(cluster.clone().run());
        cluster
    }

    /// The line to the owner of a slot.
    pub(super) fn line(&self, slot: u16) -> Arc<Line> {
        let map = self.map.load();
        map.owner(slot).unwrap_or(&self.home).clone()
    }

    /// All lines to nodes that own slots, by address; the home line if there are none.
    pub(super) fn lines(&self) -> Vec<Arc<Line>> {
        let mut lines = self.map.load().lines.clone();
        lines.sort_by(|a, b| a.node.cmp(&b.node));
        if lines.is_empty() || !self.home.is_up() && !self.is_whole() {
            lines.push(self.home.clone());
        }
        lines
    }

    /// Whether every slot has an owner.
    fn is_whole(&self) -> bool {
        let map = self.map.load();
        (0..SLOTS).all(|slot| map.owner(slot).is_some())
    }

    /// Whether the node behind `line` owns a slot, as far as is known.
    pub(super) fn owns(&self, line: &Line, slot: u16) -> bool {
        self.map.load().owner(slot).is_some_and(|owner| std::ptr::eq(Arc::as_ptr(owner), line))
    }

    /// Resolves once the map is there and all its lines have been tried, or there is none to be had.
    pub(super) async fn settled(&self) {
        self.home.settled().await;
        for line in self.lines() {
            line.settled().await;
        }
    }

    /// Resolves once all lines are closed, after `stop`.
    pub(super) async fn closed(&self) {
        let lines: Vec<_> = self.nodes.lock().values().map(|node| node.line.clone()).collect();
        for line in lines {
            line.closed().await;
        }
        self.home.closed().await;
    }

    /// The nodes that are connected to.
    pub(super) fn hosts(&self) -> Vec<Host> {
        self.nodes.lock().keys().cloned().collect()
    }

    /// The map may be wrong.
    pub(super) fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// Takes over requests that the node behind `line` did not serve.
    pub(super) fn redirect(self: &Arc<Self>, line: &Arc<Line>, to: &Redirect, batch: Vec<Waiting>) {
        let alone = batch.len() == 1;
        let target = match to {
            Redirect::Moved(slot, host) => self.moved(*slot, host),
            Redirect::Ask(host) => self.line_to(host),
            Redirect::TryAgain => line.clone(),
        };
        for mut waiting in batch {
            waiting.way.hops += 1;
            waiting.way.asking = matches!(to, Redirect::Ask(_)) || *to == Redirect::TryAgain && waiting.way.asking;
            // Requests for keys here and there can go one by one; one with several keys waits for them to be in one place.
            waiting.way.alone = *to == Redirect::TryAgain || waiting.way.alone;
            if waiting.way.hops > MAX_HOPS {
                let _ = waiting.answer.send(Err(Cause::Error));
            } else if *to == Redirect::TryAgain && alone {
                let target = target.clone();
                tokio::spawn(async move {
                    sleep(MOVING).await;
                    waiting.way.asking = false;
                    target.take_over(waiting);
                });
            } else {
                target.take_over(waiting);
            }
        }
    }

    /// Takes over refunds that the node behind `line` did not take. They are lost where their slot is on the move, and where the second
    /// node does not take them either.
    pub(super) fn redirect_refunds(self: &Arc<Self>, line: &Line, to: &Redirect, refunds: Refunds) {
        match to {
            Redirect::Moved(slot, host) if !refunds.moved => self.moved(*slot, host).refund(Refunds { moved: true, ..refunds }),
            _ => line.lost_refunds(refunds.refunds.len()),
        }
    }

    /// Takes over an operation that a node did not do. It has failed where its slot is on the move, and where the second node does not do
    /// it either.
    pub(super) fn redirect_operation(self: &Arc<Self>, to: &Redirect, operation: Operation) {
        match to {
            Redirect::Moved(slot, host) if !operation.moved => {
                self.moved(*slot, host).take_over_operation(Operation { moved: true, ..operation });
            }
            _ => operation.tell(Err(Cause::Error)),
        }
    }

    /// A node says that this slot is another's: the line there.
    fn moved(self: &Arc<Self>, slot: u16, host: &Host) -> Arc<Line> {
        self.doubt();
        let line = self.line_to(host);
        self.note_owner(slot, &line);
        line
    }

    /// The line to this node, which is made if there is none.
    fn line_to(self: &Arc<Self>, host: &Host) -> Arc<Line> {
        let mut nodes = self.nodes.lock();
        if !nodes.contains_key(host) && nodes.len() >= MAX_NODES {
            return self.home.clone();
        }
        let node = nodes.entry(host.clone()).or_insert_with(|| {
            let line = Line::new(self.about.clone(), Some(host.clone()), self.doubt.clone(), self.stop.child_token());
            let line = Arc::new(line);
            tokio::spawn(session::run(line.clone(), Target::Server(host.clone()), self.settings.clone(), Some(Arc::downgrade(self))));
            Node { line, called: Instant::now() }
        });
        node.called = Instant::now();
        node.line.clone()
    }

    fn note_owner(&self, slot: u16, line: &Arc<Line>) {
        if self.owns(line, slot) || line.node.is_none() {
            return;
        }
        self.map.rcu(|map| {
            let mut lines = map.lines.clone();
            let index = lines.iter().position(|known| Arc::ptr_eq(known, line)).unwrap_or_else(|| {
                lines.push(line.clone());
                lines.len() - 1
            });
            let mut owners = map.owners.clone();
            if let Some(owner) = owners.get_mut(usize::from(slot)) {
                *owner = u16::try_from(index).unwrap_or(u16::MAX);
            }
            SlotMap { lines, owners }
        });
    }

    /// Keeps the map true.
    async fn run(self: Arc<Self>) {
        self.stop.run_until_cancelled(self.keep()).await;
        self.home.close();
    }

    async fn keep(self: &Arc<Self>) {
        let mut asked = None;
        loop {
            let begun = Instant::now();
            match self.fetch(&mut asked).await {
                Ok(stretches) => self.take(&stretches),
                // With a map all goes on as it is.
                Err(error) if self.is_whole() => tracing::debug!(shard = %self.about.config.name, %error, "no new map of the cluster"),
                Err(error) => self.home.failed(Failure::Connection, begun, error.to_string()),
            }
            let trouble = self.lines().iter().any(|line| line.breaker() != BreakerState::Closed);
            let _ = timeout(if trouble { TROUBLED } else { CALM }, self.doubt.notified()).await;
            sleep(PAUSE + MORE_PAUSE.mul_f64(rand::random())).await;
        }
    }

    /// Goes by this map from now on. Lines that it does not name are closed, unless all is well there and something was sent there lately.
    fn take(self: &Arc<Self>, stretches: &[Stretch]) {
        let mut map = SlotMap { lines: Vec::new(), owners: vec![u16::MAX; usize::from(SLOTS)] };
        for (first, last, host) in stretches {
            let line = self.line_to(host);
            if line.node.is_none() {
                continue;
            }
            let index = map.lines.iter().position(|known| Arc::ptr_eq(known, &line)).unwrap_or_else(|| {
                map.lines.push(line);
                map.lines.len() - 1
            });
            map.owners[usize::from(*first)..=usize::from(*last)].fill(u16::try_from(index).unwrap_or(u16::MAX));
        }
        let map = Arc::new(map);
        self.map.store(map.clone());
        self.nodes.lock().retain(|_, node| {
            let is_guest = node.called.elapsed() < GUEST && node.line.breaker() == BreakerState::Closed;
            let stays = is_guest || map.lines.iter().any(|line| Arc::ptr_eq(line, &node.line));
            if !stays {
                node.line.stop.cancel();
            }
            stays
        });
        if self.is_whole() {
            self.home.succeeded();
        } else {
            self.home.failed(Failure::Connection, Instant::now(), "some slots of the cluster have no owner".to_owned());
        }
        self.leave_home();
    }

    /// What waited for a map goes to the lines that it names.
    fn leave_home(&self) {
        for waiting in self.home.queue.take_all() {
            if let Some(slot) = waiting.way.slot {
                self.line(slot).take_over(waiting);
            }
        }
        let (operations, refunds) = self.home.queue.take_others();
        for operation in operations {
            if let Some(slot) = operation.work.slot() {
                self.line(slot).take_over_operation(operation);
            }
        }
        for (refund, moved) in refunds {
            self.line(slot_of(refund.key.tag())).refund(Refunds { refunds: vec![refund], moved });
        }
    }
}

impl SlotMap {
    fn owner(&self, slot: u16) -> Option<&Arc<Line>> {
        self.lines.get(usize::from(*self.owners.get(usize::from(slot))?))
    }
}

impl Way {
    /// To the owner of this slot.
    pub(super) fn to_slot(slot: u16) -> Self {
        Self { slot: Some(slot), ..Self::default() }
    }
}

#[cfg(test)]
mod tests;
