//! A batch of events as it may be stored: read once from the wire, every text storable, every number in range.
//!
//! A row that breaks a bound is left out and counted; it never costs the rest of the batch, and never comes back (a batch that is
//! refused whole would be sent again for ever).

use weir_core::name::Name;
use weir_proto::v1;

use super::row::{Denial, SubjectCount, Traffic, Window};
use super::text;

/// The most aggregates in a batch.
pub const MAX_AGGREGATES: usize = 20_000;
/// The most denials in a batch.
pub const MAX_DENIALS: usize = 2_000;
/// The most subjects in a batch.
pub const MAX_SUBJECTS: usize = 5_000;

/// Which batch: stored at most once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchId {
    /// The agent.
    pub agent: Name,
    /// Random per start of its process.
    pub boot: String,
    /// 1, 2, 3, ... per boot.
    pub sequence: i64,
}

/// A batch that can be stored.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Which one.
    pub id: BatchId,
    /// Requests and units per second.
    pub traffic: Vec<Traffic>,
    /// Sampled refusals.
    pub denials: Vec<Denial>,
    /// The heaviest denied subjects.
    pub subjects: Vec<SubjectCount>,
    /// Events that the agent lost since its last batch.
    pub dropped: i64,
    /// Rows of this batch that broke a bound.
    pub refused: i64,
}

/// Why a batch cannot be stored at all; the agent forgets it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Its agent is not a name.
    #[error("agent: {0}")]
    Agent(#[from] weir_core::name::NameError),
    /// Its boot is not a short text.
    #[error("boot must have 1 to 64 letters, digits, '-' or '_'")]
    Boot,
    /// Its sequence number is 0 or absurd.
    #[error("sequence must be 1 to 2^53")]
    Sequence,
    /// It has too many rows.
    #[error("a batch holds at most {MAX_AGGREGATES} aggregates, {MAX_DENIALS} denials and {MAX_SUBJECTS} subjects")]
    TooManyRows,
}

impl BatchId {
    /// Reads the identity of a batch.
    ///
    /// # Errors
    /// [`BatchError`] says which part is wrong.
    pub fn read(batch: &v1::EventBatch) -> Result<Self, BatchError> {
        let agent = Name::new(&batch.agent)?;
        let boot = text::token(&batch.boot, 64).filter(|boot| !boot.is_empty()).ok_or(BatchError::Boot)?;
        let sequence = i64::try_from(batch.sequence).ok().filter(|n| (1..=1 << 53).contains(n)).ok_or(BatchError::Sequence)?;
        Ok(Self { agent, boot: boot.to_owned(), sequence })
    }
}

impl Batch {
    /// Reads a batch; `may` says whether its token may speak for a domain, and `window` which times are stored.
    ///
    /// # Errors
    /// [`BatchError`] if the batch cannot be stored at all.
    pub fn read(batch: v1::EventBatch, may: impl Fn(&str) -> bool, window: Window) -> Result<Self, BatchError> {
        let id = BatchId::read(&batch)?;
        if batch.aggregates.len() > MAX_AGGREGATES || batch.denials.len() > MAX_DENIALS || batch.subjects.len() > MAX_SUBJECTS {
            return Err(BatchError::TooManyRows);
        }
        let sent = batch.aggregates.len() + batch.denials.len() + batch.subjects.len();
        let traffic: Vec<_> = batch.aggregates.into_iter().filter(|a| may(&a.domain)).filter_map(|a| Traffic::read(a, window)).collect();
        let denials: Vec<_> =
            batch.denials.into_iter().filter(|d| may(&d.domain)).filter_map(|d| Denial::read(&id.agent, d, window)).collect();
        let subjects: Vec<_> =
            batch.subjects.into_iter().filter(|s| may(&s.domain)).filter_map(|s| SubjectCount::read(s, window)).collect();
        let refused = sent - traffic.len() - denials.len() - subjects.len();
        let dropped = i64::try_from(batch.dropped).unwrap_or(i64::MAX).min(1 << 53);
        Ok(Self { id, traffic, denials, subjects, dropped, refused: i64::try_from(refused).unwrap_or(i64::MAX) })
    }

    /// How many rows it has.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.traffic.len() + self.denials.len() + self.subjects.len()
    }

    /// The times of its rows, in seconds since the epoch.
    pub(super) fn keep_domains(&mut self, keep: impl Fn(&str) -> bool) {
        let before = self.rows();
        self.traffic.retain(|row| keep(&row.domain));
        self.denials.retain(|row| keep(&row.domain));
        self.subjects.retain(|row| keep(&row.domain));
        self.refused += i64::try_from(before - self.rows()).unwrap_or(i64::MAX);
    }

    pub(crate) fn seconds(&self) -> impl Iterator<Item = i64> {
        let traffic = self.traffic.iter().map(|row| row.second);
        let denials = self.denials.iter().map(|row| row.time_ms.div_euclid(1_000));
        traffic.chain(denials).chain(self.subjects.iter().map(|row| row.second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { oldest: 1_000, newest: 2_000 };

    fn aggregate() -> v1::Aggregate {
        v1::Aggregate {
            second: 1_500,
            domain: "default".into(),
            rule: "search".into(),
            tier: "free".into(),
            outcome: v1::Outcome::Denied.into(),
            shard: "a".into(),
            requests: 3,
            units: 5,
            cause: String::new(),
        }
    }

    fn batch(aggregates: Vec<v1::Aggregate>) -> v1::EventBatch {
        v1::EventBatch { agent: "gw-1".into(), boot: "b-1".into(), sequence: 1, aggregates, ..Default::default() }
    }

    #[test]
    fn a_row_out_of_bounds_costs_itself_only() {
        type Spoil = fn(&mut v1::Aggregate);
        let spoils: [Spoil; 9] = [
            |a| a.second = 999,
            |a| a.second = 2_001,
            |a| a.domain = "other".into(),
            |a| a.rule = "quote'; --".into(),
            |a| a.tier = "\0".into(),
            |a| a.outcome = 7,
            |a| a.outcome = 0,
            |a| a.units = u64::MAX,
            |a| a.cause = "x".repeat(65),
        ];
        for spoil in spoils {
            let mut bad = aggregate();
            spoil(&mut bad);
            let read = Batch::read(batch(vec![aggregate(), bad.clone()]), |d| d == "default", WINDOW).unwrap();
            assert_eq!((read.traffic.len(), read.refused), (1, 1), "{bad:?}");
        }
    }

    #[test]
    fn a_batch_without_identity_or_too_large_is_refused_whole() {
        let refuse = |change: fn(&mut v1::EventBatch)| {
            let mut wire = batch(vec![]);
            change(&mut wire);
            Batch::read(wire, |_| true, WINDOW).unwrap_err()
        };
        assert!(matches!(refuse(|b| b.agent = String::new()), BatchError::Agent(_)));
        assert_eq!(refuse(|b| b.boot = "a b".into()), BatchError::Boot);
        assert_eq!(refuse(|b| b.boot = String::new()), BatchError::Boot);
        assert_eq!(refuse(|b| b.sequence = 0), BatchError::Sequence);
        assert_eq!(refuse(|b| b.sequence = u64::MAX), BatchError::Sequence);
        assert_eq!(refuse(|b| b.denials = vec![v1::Denial::default(); MAX_DENIALS + 1]), BatchError::TooManyRows);
    }
}
