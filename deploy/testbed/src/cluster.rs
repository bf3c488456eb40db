use std::collections::BTreeSet;
use std::time::Duration;

use crate::error::Error;
use crate::redis::{Flavor, Redis};
use crate::resp::Reply;
use crate::wait::await_until;

/// How many hash slots a cluster has.
pub const SLOTS: u16 = 16_384;
/// How long the nodes may take to agree.
const PATIENCE: Duration = Duration::from_secs(30);
/// After how many milliseconds nodes believe that another is gone.
const NODE_TIMEOUT: &str = "1000";
/// Keys that move in one step.
const STEP: &str = "100";

/// A Redis Cluster of primaries without replicas, each a private server, stopped when dropped.
#[derive(Debug)]
pub struct Cluster {
    flavor: Flavor,
    nodes: Vec<Redis>,
}

impl Cluster {
    /// Starts a cluster of this many primaries, each with an equal share of the slots, and waits until all of them serve.
    ///
    /// # Errors
    /// A server does not start, or the nodes do not agree.
    pub async fn start(flavor: Flavor, primaries: u16) -> Result<Self, Error> {
        let mut cluster = Self { flavor, nodes: Vec::new() };
        for index in 0..primaries {
            let node = start_node(flavor).await?;
            node.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]).await?;
            let (first, next) = (SLOTS / primaries * index, if index + 1 == primaries { SLOTS } else { SLOTS / primaries * (index + 1) });
            let slots: Vec<String> = (first..next).map(|slot| slot.to_string()).collect();
            let words: Vec<&str> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
            node.ask(&words).await?;
            cluster.join(node).await?;
        }
        cluster.settled().await?;
        Ok(cluster)
    }

    /// Adds a primary that owns no slots yet, and waits until all nodes know it.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn add_node(&mut self) -> Result<(), Error> {
        let node = start_node(self.flavor).await?;
        self.join(node).await?;
        self.settled().await
    }

    async fn join(&mut self, node: Redis) -> Result<(), Error> {
        if let Some(first) = self.nodes.first() {
            node.ask(&["CLUSTER", "MEET", "127.0.0.1", &first.addr()?.port().to_string()]).await?;
        }
        self.nodes.push(node);
        Ok(())
    }

    /// The nodes, in the order in which they were started.
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// The addresses of all nodes, `127.0.0.1:port`, separated by commas.
    ///
    /// # Errors
    /// None: every node listens on TCP.
    pub fn addrs(&self) -> Result<String, Error> {
        let addrs = self.nodes.iter().map(|node| Ok(node.addr()?.to_string())).collect::<Result<Vec<_>, Error>>()?;
        Ok(addrs.join(","))
    }

    /// Which node owns a slot, by its own word.
    ///
    /// # Errors
    /// A node does not answer, or none owns the slot.
    pub async fn owner(&self, slot: u16) -> Result<usize, Error> {
        for (index, node) in self.nodes.iter().enumerate() {
            let id = node.ask(&["CLUSTER", "MYID"]).await?;
            let nodes = node.ask(&["CLUSTER", "NODES"]).await?;
            let own = nodes.text().lines().find(|line| line.starts_with(id.text())).unwrap_or_default();
            if own.split(' ').skip(8).any(|range| holds(range, slot)) {
                return Ok(index);
            }
        }
        Err(self.disagreement(format!("nobody owns slot {slot}")))
    }

    /// Begins to move a slot to the node of this index: from now on its owner answers `ASK` for keys that it does not have.
    ///
    /// # Errors
    /// A node refuses.
    pub async fn begin_move(&self, slot: u16, to: usize) -> Result<(), Error> {
        let from = self.owner(slot).await?;
        let (source, target) = (self.id(from).await?, self.id(to).await?);
        let slot = slot.to_string();
        self.nodes[to].ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", source.text()]).await?;
        self.nodes[from].ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", target.text()]).await?;
        Ok(())
    }

    /// Moves the keys of a slot that is being moved, and gives the slot to its new owner.
    ///
    /// # Errors
    /// A node refuses.
    pub async fn finish_move(&self, slot: u16, to: usize) -> Result<(), Error> {
        let from = self.owner(slot).await?;
        let (target, port) = (self.id(to).await?, self.nodes[to].addr()?.port().to_string());
        let slot = slot.to_string();
        loop {
            let keys = self.nodes[from].ask(&["CLUSTER", "GETKEYSINSLOT", &slot, STEP]).await?;
            if keys.list().is_empty() {
                break;
            }
            let keys = keys.list().iter().map(Reply::text);
            let words: Vec<&str> = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"].into_iter().chain(keys).collect();
            self.nodes[from].ask(&words).await?;
        }
        // The new owner first, so that the slot is never nobody's.
        for node in [to, from].into_iter().chain((0..self.nodes.len()).filter(|node| ![to, from].contains(node))) {
            self.nodes[node].ask(&["CLUSTER", "SETSLOT", &slot, "NODE", target.text()]).await?;
        }
        Ok(())
    }

    /// Waits until every node knows every other and serves, and all say the same of who owns which slots since when. A slot that is moved before
    /// that can be lost: a node that has not heard of the last move takes it back.
    ///
    /// # Errors
    /// They do not agree.
    pub async fn settled(&self) -> Result<(), Error> {
        let agreed = await_until(PATIENCE, async || {
            for node in &self.nodes {
                let Ok(info) = node.ask(&["CLUSTER", "INFO"]).await else { return false };
                if !info.text().contains("cluster_state:ok")
                    || !info.text().contains(&format!("cluster_known_nodes:{}\r", self.nodes.len()))
                {
                    return false;
                }
            }
            let mut views = Vec::new();
            for node in &self.nodes {
                let Ok(told) = node.ask(&["CLUSTER", "NODES"]).await else { return false };
                views.push(view(told.text()));
            }
            views.windows(2).all(|two| two[0] == two[1])
        });
        if agreed.await { Ok(()) } else { Err(self.disagreement("the nodes do not agree".into())) }
    }

    async fn id(&self, node: usize) -> Result<Reply, Error> {
        self.nodes[node].ask(&["CLUSTER", "MYID"]).await
    }

    fn disagreement(&self, reason: String) -> Error {
        Error::Failed { program: format!("cluster of {} nodes", self.nodes.len()), reason, log: String::new() }
    }
}

async fn start_node(flavor: Flavor) -> Result<Redis, Error> {
    let extra = [("cluster-enabled", "yes"), ("cluster-config-file", "nodes.conf"), ("cluster-node-timeout", NODE_TIMEOUT)];
    Redis::start_node(flavor, extra.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()).await
}

/// What a node says of all: identity, configuration epoch and slots of each, without those that it is moving.
fn view(nodes: &str) -> BTreeSet<String> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let slots = words.iter().skip(8).filter(|slots| !slots.starts_with('['));
        words.first().into_iter().chain(words.get(6)).chain(slots).copied().collect::<Vec<_>>().join(" ")
    };
    nodes.lines().map(line).collect()
}

/// Whether `range` (`5` or `5-9`, not one that is on its way: `[5->-...]`) holds the slot.
fn holds(range: &str, slot: u16) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    matches!((first.parse::<u16>(), last.parse::<u16>()), (Ok(first), Ok(last)) if (first..=last).contains(&slot))
}

/// The slot of a key, by the rule of Redis Cluster: of what is between the first braces, if anything is.
pub fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|b| *b == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        rest.iter().position(|b| *b == b'}').filter(|length| *length > 0).map(|length| &rest[..length])
    });
    tag.unwrap_or(key).iter().fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 })
    }) % SLOTS
}
