//! What was decided, on its way to analytics: counted per second, with a sample of whole denials and the heaviest denied subjects.
//!
//! Each request is counted once, under the rule that decided it: the strictest one, or none if no rule matched. A shadow rule that would
//! have refused it is counted besides. So over all rules, without `shadow_denied`, the counts are those of the requests. A look (cost 0)
//! is no traffic and is left out.

mod batch;
mod ledger;
mod sample;
pub mod spool;
mod subjects;
pub mod upload;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use weir_core::clock::{Clock, SystemClock};
use weir_core::decision::Decision;
use weir_core::request::Request;

use self::ledger::{Drained, Ledger};
use self::spool::Spool;
use crate::settings::EventSettings;

/// How long one count of the heaviest subjects takes, in seconds.
const SUBJECT_INTERVAL: i64 = 10;

/// Takes note of decisions, without waiting and within fixed memory.
pub struct Recorder {
    ledgers: Box<[Mutex<Ledger>]>,
    clock: Arc<dyn Clock>,
    v6_prefix: u8,
    recorded: AtomicU64,
    spool: Option<Arc<Spool>>,
    subjects_since: Mutex<Option<i64>>,
}

impl Recorder {
    /// A recorder whose batches go to `spool`; without one, what is recorded is only counted.
    #[must_use]
    pub fn new(settings: &EventSettings, v6_prefix: u8, clock: Arc<dyn Clock>, spool: Option<Arc<Spool>>) -> Self {
        let count = std::thread::available_parallelism().map_or(1, |n| n.get().min(16));
        let samples = settings.samples_per_second.div_ceil(count);
        Self {
            ledgers: (0..count).map(|_| Mutex::new(Ledger::new(samples))).collect(),
            clock,
            v6_prefix,
            recorded: AtomicU64::new(0),
            spool,
            subjects_since: Mutex::new(None),
        }
    }

    /// Takes note of one decision.
    pub fn record(&self, request: &Request<'_>, decision: &Decision) {
        if request.cost == 0 {
            return;
        }
        self.recorded.fetch_add(1, Ordering::Relaxed);
        if self.spool.is_some() {
            let ledger = &self.ledgers[own_number() % self.ledgers.len()];
            ledger.lock().record(request, decision, self.v6_prefix, &*self.clock);
        }
    }

    /// Takes note of units that were consumed without a decision: they are traffic of the rule that is nearest to its limit, and no request.
    pub fn consumed(&self, request: &Request<'_>, decision: &Decision) {
        if self.spool.is_some() {
            self.ledgers[own_number() % self.ledgers.len()].lock().consumed(request, decision);
        }
    }

    /// Decisions since the start.
    #[must_use]
    pub fn recorded(&self) -> u64 {
        self.recorded.load(Ordering::Relaxed)
    }

    /// Requests whose counts were lost since the start, here or in the spool.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.spool.as_ref().map_or(0, |spool| spool.dropped())
    }

    /// Hands what was recorded since the last call to the spool, as of the second that just ended. To be called every second, and once
    /// more at the end with `last`, which also closes the current count of subjects.
    pub fn flush(&self, last: bool) {
        let Some(spool) = &self.spool else { return };
        let now = i64::try_from(self.clock.wall().as_secs()).unwrap_or(i64::MAX);
        let mut since = self.subjects_since.lock();
        let start = *since.get_or_insert(now);
        let close_subjects = last || now.saturating_sub(start) >= SUBJECT_INTERVAL;
        let mut drained = Drained::default();
        for ledger in &self.ledgers {
            ledger.lock().drain(close_subjects, &mut drained);
        }
        if close_subjects {
            *since = Some(now);
        }
        spool.lost(drained.lost);
        for batch in batch::build(drained, now - 1, start, now) {
            spool.push(batch);
        }
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new(&EventSettings::default(), 64, Arc::new(SystemClock), None)
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("recorded", &self.recorded()).field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}

/// A small number of this thread's own, so that threads rarely wait for one ledger.
fn own_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|number| *number)
}

#[cfg(test)]
mod tests;
