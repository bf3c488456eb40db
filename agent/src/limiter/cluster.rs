//! A shard that is a Redis Cluster: the map from slots to lines, kept true.
//!
//! The map comes from whichever node answers, any of them in turn. It is fetched anew when a call is redirected, when a line is in trouble, and
//! now and then.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rand::seq::SliceRandom as _;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use weir_core::decision::Cause;

use super::about::About;
use super::address::Host;
use super::batch::{Operation, Refunds, Waiting, Way};
use super::breaker::{BreakerState, Failure};
use super::connection::{DialError, Dialer, Link, Target};
use super::line::Line;
use super::session;
use super::settings::LimiterSettings;
use super::slots::{self, SLOTS, Stretch, slot_of};

/// How often the map is fetched while all is well, and while a line is not.
const CALM: Duration = Duration::from_secs(30);
const TROUBLED: Duration = Duration::from_millis(500);
/// The least time between two fetches, and how much longer it is by chance, so that agents do not ask together.
const PAUSE: Duration = Duration::from_millis(100);
const MORE_PAUSE: Duration = Duration::from_millis(200);
/// How long one node is asked over the same connection before it is another's turn.
const TURN: Duration = Duration::from_secs(5);
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

/// A node that gave its map, and the connection to ask it again.
#[derive(Debug)]
struct Asked {
    host: Host,
    link: Link,
    since: Instant,
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

    /// Asks whoever was asked last, for its turn; then the nodes in any order, then the seeds, until one has a map.
    async fn fetch(&self, asked: &mut Option<Asked>) -> Result<Vec<Stretch>, DialError> {
        if let Some(mut last) = asked.take().filter(|last| last.since.elapsed() < TURN)
            && let Ok(stretches) = self.ask(&mut last).await
            && !stretches.is_empty()
        {
            *asked = Some(last);
            return Ok(stretches);
        }
        let up = |line: &Arc<Line>| line.is_up().then(|| line.node.clone()).flatten();
        let mut hosts: Vec<Host> = self.map.load().lines.iter().filter_map(up).collect();
        hosts.shuffle(&mut rand::rng());
        hosts.extend(self.seeds.iter().cloned());
        let mut failed = DialError::NoMap;
        for host in hosts {
            let asking = async {
                let link = self.dialer.dial(&Target::Server(host.clone())).await?;
                let mut asked = Asked { host: host.clone(), link, since: Instant::now() };
                Ok((self.ask(&mut asked).await?, asked))
            };
            match asking.await {
                Ok((stretches, answered)) if !stretches.is_empty() => {
                    *asked = Some(answered);
                    return Ok(stretches);
                }
                Ok(_) => {}
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn ask(&self, asked: &mut Asked) -> Result<Vec<Stretch>, DialError> {
        let mut question = redis::cmd("CLUSTER");
        question.arg("SLOTS");
        let asking = question.query_async(&mut asked.link.connection);
        let answer = timeout(self.settings.connect_timeout, asking).await.map_err(|_| DialError::Timeout)?.map_err(DialError::Redis)?;
        Ok(slots::read(&answer, &asked.host))
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
mod tests {
    use tokio::sync::oneshot;
    use weir_core::key::{CounterKey, HashSecret, Tag, counter_key};

    use super::super::about::tests::nowhere;
    use super::super::batch::{Asker, Work};
    use super::super::store::{Refund, Release};
    use super::*;

    fn cluster() -> Arc<Cluster> {
        let about = Arc::new(nowhere("redis+cluster://127.0.0.1:1"));
        Cluster::start(about, Vec::new(), &LimiterSettings::default(), CancellationToken::new())
    }

    fn host(port: u16) -> Host {
        Host { name: "127.0.0.1".to_owned(), port }
    }

    fn key() -> CounterKey {
        counter_key(&HashSecret::built_in(), Tag::of_rule(&HashSecret::built_in(), "d", "r", &[]), "r", &[])
    }

    fn operation() -> (Operation, oneshot::Receiver<Result<Vec<u64>, Cause>>) {
        let (answer, receiver) = oneshot::channel();
        let asker = Asker { counters: 1, deadline: Instant::now() + CALM, answer };
        (Operation::new(Work::Resets(vec![key()]), asker), receiver)
    }

    fn refunds() -> Refunds {
        let release = Release { key: key(), lease: weir_core::lease::LeaseId::new([1; 16]) };
        Refunds { refunds: vec![Refund::from(release)], moved: false }
    }

    #[tokio::test]
    async fn operations_and_refunds_follow_one_redirection() {
        let (cluster, slot) = (cluster(), slot_of(key().tag()));
        let (operation, mut answer) = operation();
        let to = Redirect::Moved(slot, host(2));
        cluster.redirect_operation(&to, operation);
        cluster.redirect_refunds(&cluster.home, &to, refunds());
        let line = cluster.line(slot);
        assert_eq!(line.node, Some(host(2)), "the owner is noted");
        let (operation, refunds) = (line.queue.take_operation(Instant::now(), true).unwrap(), line.queue.take_refunds(true));
        assert!(operation.moved && refunds.moved && answer.try_recv().is_err());
        let back = Redirect::Moved(slot, host(1));
        cluster.redirect_operation(&back, operation);
        cluster.redirect_refunds(&line, &back, refunds);
        assert_eq!((answer.try_recv(), cluster.about.metrics.lost_refunds.get()), (Ok(Err(Cause::Error)), 1));
        cluster.stop.cancel();
    }

    #[tokio::test]
    async fn what_waited_for_a_map_goes_where_it_says() {
        let (cluster, slot) = (cluster(), slot_of(key().tag()));
        let (operation, _answer) = operation();
        cluster.line(slot).take_over_operation(operation);
        cluster.line(slot).refund(refunds());
        cluster.take(&[(0, SLOTS - 1, host(2))]);
        let queue = &cluster.line(slot).queue;
        assert!(queue.take_operation(Instant::now(), true).is_some() && queue.take_refunds(true).refunds.len() == 1);
        cluster.stop.cancel();
    }

    /// A dead primary whose slots another has taken over says nothing about the shard.
    #[tokio::test]
    async fn a_line_in_trouble_goes_with_its_slots() {
        let cluster = cluster();
        cluster.take(&[(0, SLOTS - 1, host(2))]);
        let dead = cluster.line(0);
        dead.failed(Failure::Connection, Instant::now(), "gone".to_owned());
        assert_eq!(cluster.about.worst(), BreakerState::Open);
        cluster.take(&[(0, SLOTS - 1, host(3))]);
        timeout(CALM, dead.closed()).await.unwrap();
        cluster.line(0).stop.cancel();
        timeout(CALM, cluster.line(0).closed()).await.unwrap();
        assert_eq!(cluster.about.worst(), BreakerState::Closed);
        cluster.stop.cancel();
    }
}
