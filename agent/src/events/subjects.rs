//! The heaviest denied subjects of an interval, in fixed memory whatever the number of subjects.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use datasketches::frequencies::{ErrorType, FrequentItemsSketch};
use hashbrown::HashMap;
use weir_core::name::Name;
use weir_core::subject::Subject;

/// Counters of the sketch; three quarters of them can be in use. A power of two.
const SKETCH_SIZE: usize = 1_024;
/// The most subjects reported per interval and ledger.
const MAX_REPORTED: usize = 200;
/// The most names remembered, and the most subjects whose allowed requests are counted.
const MAX_NAMES: usize = 2 * SKETCH_SIZE;

/// One denied subject under one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SubjectTally {
    pub(super) domain: Arc<str>,
    pub(super) rule: Option<Name>,
    pub(super) tier: Option<Name>,
    pub(super) subject: String,
    /// May be too high by at most `error`.
    pub(super) denied: u64,
    /// Requests allowed since the subject was first denied, under all rules; given once per subject, with its heaviest rule.
    pub(super) allowed: u64,
    pub(super) error: u64,
}

/// Counts denials by subject and rule in a frequent-items sketch; beside it the names of those in the sketch, and what was allowed to
/// subjects that have been denied lately.
#[derive(Debug, Default)]
pub(super) struct DeniedSubjects {
    /// Keyed by the hash of (domain, rule, tier, subject); made at the first denial.
    sketch: Option<FrequentItemsSketch<u64>>,
    names: HashMap<u64, Named>,
    /// Keyed by the hash of (domain, subject).
    watched: HashMap<u64, Watched>,
    /// Keyed at random, so that clients cannot choose subjects that collide.
    hasher: RandomState,
}

#[derive(Debug)]
struct Named {
    domain: Arc<str>,
    rule: Option<Name>,
    tier: Option<Name>,
    subject: String,
    watch: u64,
}

#[derive(Debug, Default)]
struct Watched {
    allowed: u64,
    denied: u64,
}

impl DeniedSubjects {
    /// Whether any subject's allowed requests are being counted.
    pub(super) fn watches_any(&self) -> bool {
        !self.watched.is_empty()
    }

    pub(super) fn allowed(&mut self, domain: &str, subject: &Subject<'_>) {
        let key = self.hasher.hash_one((domain, subject));
        if let Some(watched) = self.watched.get_mut(&key) {
            watched.allowed += 1;
        }
    }

    pub(super) fn denied(&mut self, domain: &Arc<str>, rule: Option<&Name>, tier: Option<&Name>, subject: &Subject<'_>) {
        let watch = self.hasher.hash_one((&**domain, subject));
        let key = self.hasher.hash_one((watch, rule, tier));
        if self.sketch.is_none() {
            self.sketch = FrequentItemsSketch::new(SKETCH_SIZE).ok();
        }
        let Some(sketch) = &mut self.sketch else { return };
        sketch.update(key);
        if !self.names.contains_key(&key) {
            if self.names.len() >= MAX_NAMES {
                // At most three quarters of SKETCH_SIZE stay: the sketch holds no more.
                self.names.retain(|key, _| sketch.lower_bound(key) > 0);
            }
            let text = super::batch::named(subject);
            self.names.insert(key, Named { domain: domain.clone(), rule: rule.cloned(), tier: tier.cloned(), subject: text, watch });
        }
        if self.watched.len() < MAX_NAMES || self.watched.contains_key(&watch) {
            self.watched.entry(watch).or_default().denied += 1;
        }
    }

    /// Reports the heaviest and starts the next interval. Subjects denied in this interval stay watched for one more.
    pub(super) fn drain(&mut self, into: &mut Vec<SubjectTally>) {
        if let Some(sketch) = self.sketch.take() {
            let rows = sketch.frequent_items(ErrorType::NoFalseNegatives);
            for row in rows.iter().take(MAX_REPORTED) {
                let Some(named) = self.names.remove(row.item()) else { continue };
                into.push(SubjectTally {
                    domain: named.domain,
                    rule: named.rule,
                    tier: named.tier,
                    subject: named.subject,
                    denied: row.upper_bound(),
                    allowed: self.watched.get_mut(&named.watch).map_or(0, |w| std::mem::take(&mut w.allowed)),
                    error: row.upper_bound() - row.lower_bound(),
                });
            }
        }
        self.names.clear();
        self.watched.retain(|_, watched| {
            let keep = watched.denied > 0;
            *watched = Watched::default();
            keep
        });
    }
}
