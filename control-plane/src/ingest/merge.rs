//! Many batches summed into what one transaction writes: agents count the same rules, so a thousand batches become a few rows.
//!
//! The maps are sorted, and rows are written in their order: two replicas that write the same rows lock them in the same order.

use std::collections::{BTreeMap, HashMap};

use super::batch::Batch;
use super::level::Level;
use super::row::{Denial, SubjectCount, Traffic};

/// The most denials of one domain that one transaction keeps; they are samples, and the kept ones stand for the others.
const MAX_DENIALS: usize = 500;

/// Whose requests: a row of a traffic table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TrafficKey {
    pub(crate) domain: String,
    pub(crate) bucket: i64,
    pub(crate) rule: String,
    pub(crate) tier: String,
    pub(crate) outcome: i16,
    /// Empty at the coarser levels, and so is `cause`.
    pub(crate) shard: String,
    pub(crate) cause: String,
}

/// What they sum up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TrafficSum {
    pub(crate) requests: i64,
    pub(crate) units: i64,
}

/// Which subject: a row of a subjects table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SubjectKey {
    pub(crate) domain: String,
    pub(crate) bucket: i64,
    pub(crate) subject: String,
    pub(crate) rule: String,
    pub(crate) tier: String,
}

/// What it was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SubjectSum {
    pub(crate) denied: i64,
    pub(crate) allowed: i64,
    pub(crate) error: i64,
    pub(crate) first_second: i64,
    pub(crate) last_second: i64,
}

/// The rows of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    pub(crate) traffic_10s: BTreeMap<TrafficKey, TrafficSum>,
    pub(crate) traffic_1m: BTreeMap<TrafficKey, TrafficSum>,
    pub(crate) traffic_1h: BTreeMap<TrafficKey, TrafficSum>,
    pub(crate) subjects_1m: BTreeMap<SubjectKey, SubjectSum>,
    pub(crate) subjects_1h: BTreeMap<SubjectKey, SubjectSum>,
    pub(crate) denials: Vec<Denial>,
}

impl Merged {
    /// Sums the rows of `batches`.
    pub(crate) fn of<'a>(batches: impl Iterator<Item = &'a Batch>) -> Self {
        let mut merged = Self::default();
        for batch in batches {
            batch.traffic.iter().for_each(|row| merged.add_traffic(row));
            batch.subjects.iter().for_each(|row| merged.add_subject(row));
            merged.denials.extend_from_slice(&batch.denials);
        }
        merged.coarsen();
        merged.denials = thin(std::mem::take(&mut merged.denials));
        merged
    }

    fn add_traffic(&mut self, row: &Traffic) {
        let key = TrafficKey {
            domain: row.domain.clone(),
            bucket: Level::TenSeconds.floor(row.second),
            rule: row.rule.clone(),
            tier: row.tier.clone(),
            outcome: row.outcome,
            shard: row.shard.clone(),
            cause: row.cause.clone(),
        };
        let sum = self.traffic_10s.entry(key).or_default();
        sum.requests = sum.requests.saturating_add(row.requests);
        sum.units = sum.units.saturating_add(row.units);
    }

    fn add_subject(&mut self, row: &SubjectCount) {
        let sum = SubjectSum {
            denied: row.denied,
            allowed: row.allowed,
            error: row.error,
            first_second: row.second,
            last_second: row.second + row.seconds - 1,
        };
        for (level, rows) in [(Level::Minute, &mut self.subjects_1m), (Level::Hour, &mut self.subjects_1h)] {
            let key = SubjectKey {
                domain: row.domain.clone(),
                bucket: level.floor(row.second),
                subject: row.subject.clone(),
                rule: row.rule.clone(),
                tier: row.tier.clone(),
            };
            rows.entry(key).and_modify(|all| all.add(sum)).or_insert(sum);
        }
    }

    /// The coarser traffic levels, summed from the finest.
    fn coarsen(&mut self) {
        for (level, rows) in [(Level::Minute, &mut self.traffic_1m), (Level::Hour, &mut self.traffic_1h)] {
            for (fine, sum) in &self.traffic_10s {
                let key = TrafficKey { bucket: level.floor(fine.bucket), shard: String::new(), cause: String::new(), ..fine.clone() };
                let all = rows.entry(key).or_default();
                all.requests = all.requests.saturating_add(sum.requests);
                all.units = all.units.saturating_add(sum.units);
            }
        }
    }
}

impl SubjectSum {
    fn add(&mut self, other: Self) {
        self.denied = self.denied.saturating_add(other.denied);
        self.allowed = self.allowed.saturating_add(other.allowed);
        self.error = self.error.saturating_add(other.error);
        self.first_second = self.first_second.min(other.first_second);
        self.last_second = self.last_second.max(other.last_second);
    }
}

/// At most [`MAX_DENIALS`] of each domain, spread evenly over those that came; their weights grow so that their sum stays what it was.
fn thin(denials: Vec<Denial>) -> Vec<Denial> {
    let mut by_domain: HashMap<String, Vec<Denial>> = HashMap::new();
    for denial in denials {
        by_domain.entry(denial.domain.clone()).or_default().push(denial);
    }
    by_domain.into_values().flat_map(thin_domain).collect()
}

fn thin_domain(all: Vec<Denial>) -> Vec<Denial> {
    if all.len() <= MAX_DENIALS {
        return all;
    }
    let step = all.len().div_ceil(MAX_DENIALS);
    let before: f64 = all.iter().map(|d| d.weight).sum();
    let mut kept: Vec<Denial> = all.into_iter().step_by(step).collect();
    let after: f64 = kept.iter().map(|d| d.weight).sum();
    if after > 0.0 {
        kept.iter_mut().for_each(|d| d.weight *= before / after);
    }
    kept
}
