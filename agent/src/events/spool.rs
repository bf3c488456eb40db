//! Batches that wait for the control plane to acknowledge them, in bounded memory.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_proto::v1;

/// What every batch takes beside its rows.
const BATCH_OVERHEAD: usize = 256;
/// What every row takes beside its texts.
const ROW_OVERHEAD: usize = 128;

/// Unacknowledged batches, oldest first. When they take more than the limit, the oldest are dropped and counted: the newest say most
/// about what is going on.
#[derive(Debug)]
pub struct Spool {
    agent: String,
    boot: String,
    limit: usize,
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    batches: VecDeque<Entry>,
    bytes: usize,
    last_sequence: u64,
    /// Lost since the last batch that was made.
    unreported: u64,
    dropped: u64,
}

#[derive(Debug)]
struct Entry {
    batch: v1::EventBatch,
    bytes: usize,
}

impl Spool {
    /// An empty spool of at most `limit` bytes for this start (`boot`) of `agent`.
    #[must_use]
    pub fn new(agent: impl Into<String>, boot: impl Into<String>, limit: usize) -> Self {
        Self { agent: agent.into(), boot: boot.into(), limit, waiting: Mutex::default(), changed: Notify::new() }
    }

    /// Adds a batch, which gets the next sequence number and tells of what was lost since the one before it.
    pub fn push(&self, mut batch: v1::EventBatch) {
        {
            let mut waiting = self.waiting.lock();
            waiting.last_sequence += 1;
            batch.agent.clone_from(&self.agent);
            batch.boot.clone_from(&self.boot);
            batch.sequence = waiting.last_sequence;
            batch.dropped = std::mem::take(&mut waiting.unreported);
            let bytes = size(&batch);
            waiting.bytes += bytes;
            waiting.batches.push_back(Entry { batch, bytes });
            while waiting.bytes > self.limit {
                waiting.drop_oldest();
            }
        }
        self.changed.notify_waiters();
    }

    /// Counts requests that never came into a batch.
    pub fn lost(&self, lost: u64) {
        let mut waiting = self.waiting.lock();
        waiting.dropped += lost;
        waiting.unreported += lost;
    }

    /// The oldest batch after `sequence`, as soon as there is one.
    pub async fn after(&self, sequence: u64) -> v1::EventBatch {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(entry) = self.waiting.lock().batches.iter().find(|entry| entry.batch.sequence > sequence) {
                return entry.batch.clone();
            }
            changed.await;
        }
    }

    /// Forgets a batch that the control plane has taken.
    pub fn acknowledge(&self, sequence: u64) {
        {
            let mut waiting = self.waiting.lock();
            if let Some(place) = waiting.batches.iter().position(|entry| entry.batch.sequence == sequence)
                && let Some(entry) = waiting.batches.remove(place)
            {
                waiting.bytes -= entry.bytes;
            }
        }
        self.changed.notify_waiters();
    }

    /// Waits until every batch is acknowledged.
    pub async fn emptied(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.waiting.lock().batches.is_empty() {
                return;
            }
            changed.await;
        }
    }

    /// Batches that wait, and their bytes.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        let waiting = self.waiting.lock();
        (waiting.batches.len(), waiting.bytes)
    }

    /// Requests whose counts were lost since the start.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.waiting.lock().dropped
    }
}

impl Waiting {
    fn drop_oldest(&mut self) {
        let Some(entry) = self.batches.pop_front() else { return };
        self.bytes -= entry.bytes;
        let own = requests(&entry.batch);
        self.dropped += own;
        // What the batch would have reported as lost before it is still to be reported.
        self.unreported += own + entry.batch.dropped;
    }
}

/// The requests that a batch counts; shadow denials are counted besides, and samples and subjects are part of the same requests.
fn requests(batch: &v1::EventBatch) -> u64 {
    batch.aggregates.iter().filter(|row| row.outcome() != v1::Outcome::ShadowDenied).map(|row| row.requests).sum()
}

/// About what a batch takes in memory.
fn size(batch: &v1::EventBatch) -> usize {
    let aggregates = batch.aggregates.iter().map(|a| a.domain.len() + a.rule.len() + a.tier.len() + a.shard.len() + a.cause.len());
    let denials = batch.denials.iter().map(|d| {
        let who = d.subject.len() + d.client_ip.len() + d.tier.len() + d.key.len() + d.shard.len();
        who + d.domain.len() + d.rule.len() + d.reason.len() + d.method.len() + d.host.len() + d.path.len() + ROW_OVERHEAD
    });
    let subjects = batch.subjects.iter().map(|s| s.domain.len() + s.rule.len() + s.tier.len() + s.subject.len());
    aggregates.chain(denials).chain(subjects).map(|texts| texts + ROW_OVERHEAD).sum::<usize>() + BATCH_OVERHEAD
}
