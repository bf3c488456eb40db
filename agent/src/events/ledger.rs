//! One thread's account of the current second.

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};
use weir_core::clock::Clock;
use weir_core::decision::{Cause, Decision, LimitDecision, LimitMode, Outcome, Reason};
use weir_core::name::Name;
use weir_core::request::Request;
use weir_proto::v1;

use super::batch;
use super::sample::Reservoir;
use super::subjects::{DeniedSubjects, SubjectTally};

/// The most kinds of outcomes counted apart in one second; more rules, tiers and shards than that are not one agent's.
const MAX_CELLS: usize = 4_096;

/// What is counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Cell {
    pub(super) domain: Arc<str>,
    pub(super) rule: Option<Name>,
    pub(super) tier: Option<Name>,
    pub(super) outcome: Outcome,
    pub(super) shard: Option<Name>,
    pub(super) cause: Option<Cause>,
}

/// A [`Cell`] that borrows its parts, so that counting allocates nothing. Hashes like one: same fields, same order.
#[derive(Debug, Clone, Copy, Hash)]
struct CellRef<'a> {
    domain: &'a str,
    rule: Option<&'a Name>,
    tier: Option<&'a Name>,
    outcome: Outcome,
    shard: Option<&'a Name>,
    cause: Option<Cause>,
}

impl Equivalent<Cell> for CellRef<'_> {
    fn equivalent(&self, cell: &Cell) -> bool {
        self.outcome == cell.outcome
            && self.cause == cell.cause
            && self.domain == &*cell.domain
            && self.rule == cell.rule.as_ref()
            && self.tier == cell.tier.as_ref()
            && self.shard == cell.shard.as_ref()
    }
}

/// Requests and their units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) units: u64,
}

impl Tally {
    fn add(&mut self, requests: u64, units: u64) {
        self.requests += requests;
        self.units = self.units.saturating_add(units);
    }
}

/// What ledgers gave at the end of a second.
#[derive(Debug, Default)]
pub(super) struct Drained {
    pub(super) cells: HashMap<Cell, Tally>,
    pub(super) denials: Vec<v1::Denial>,
    pub(super) subjects: Vec<SubjectTally>,
    /// Requests that found no cell.
    pub(super) lost: u64,
}

#[derive(Debug)]
pub(super) struct Ledger {
    cells: HashMap<Cell, Tally>,
    samples: Reservoir<v1::Denial>,
    subjects: DeniedSubjects,
    lost: u64,
}

impl Ledger {
    pub(super) fn new(samples: usize) -> Self {
        Self { cells: HashMap::new(), samples: Reservoir::new(samples), subjects: DeniedSubjects::default(), lost: 0 }
    }

    pub(super) fn record(&mut self, request: &Request<'_>, decision: &Decision, v6_prefix: u8, clock: &dyn Clock) {
        let outcome = outcome(decision);
        let decisive = decisive(decision);
        self.count(request, decision, decisive, outcome, 1);
        if decision.allowed() {
            if self.subjects.watches_any() {
                self.subjects.allowed(&decision.domain, &request.limited(v6_prefix));
            }
        } else if outcome != Outcome::Unavailable {
            // A subject whose shard is away did nothing wrong: it is counted above, but is not among the throttled.
            let subject = request.limited(v6_prefix);
            let rule = decisive.map(|limit| &limit.rule);
            self.subjects.denied(&decision.domain, rule, decision.tier.as_ref(), &subject);
            self.samples.offer(|| batch::denial(request, decision, decisive, outcome, &subject, clock.wall()));
        }
        for limit in &decision.limits {
            if limit.mode == LimitMode::Shadow && limit.reason != Reason::Ok {
                self.count(request, decision, Some(limit), Outcome::ShadowDenied, 1);
                let subject = request.limited(v6_prefix);
                self.samples.offer(|| batch::denial(request, decision, Some(limit), Outcome::ShadowDenied, &subject, clock.wall()));
            }
        }
    }

    /// Units without a request.
    pub(super) fn consumed(&mut self, request: &Request<'_>, decision: &Decision) {
        self.count(request, decision, decisive(decision), outcome(decision), 0);
    }

    /// Moves everything into `drained`; the counts of subjects only if their interval is over.
    pub(super) fn drain(&mut self, close_subjects: bool, drained: &mut Drained) {
        for (cell, tally) in self.cells.drain() {
            let sum = drained.cells.entry(cell).or_default();
            sum.requests += tally.requests;
            sum.units = sum.units.saturating_add(tally.units);
        }
        self.samples.drain(|mut denial, weight| {
            denial.weight = weight;
            drained.denials.push(denial);
        });
        if close_subjects {
            self.subjects.drain(&mut drained.subjects);
        }
        drained.lost += std::mem::take(&mut self.lost);
    }

    fn count(&mut self, request: &Request<'_>, decision: &Decision, limit: Option<&LimitDecision>, outcome: Outcome, requests: u64) {
        let cost = limit.map_or(request.cost, |limit| limit.cost);
        let degraded = limit.and_then(|l| l.degraded).or(decision.degraded);
        let cell = CellRef {
            domain: &decision.domain,
            rule: limit.map(|l| &l.rule),
            tier: decision.tier.as_ref(),
            outcome,
            shard: limit.and_then(|l| l.shard.as_ref()),
            cause: degraded.map(|d| d.cause),
        };
        if let Some(tally) = self.cells.get_mut(&cell) {
            tally.add(requests, cost);
        } else if self.cells.len() < MAX_CELLS {
            self.cells.entry(owned(decision, cell)).or_default().add(requests, cost);
        } else {
            self.lost += if outcome == Outcome::ShadowDenied { 0 } else { requests };
        }
    }
}

fn owned(decision: &Decision, cell: CellRef<'_>) -> Cell {
    Cell {
        domain: decision.domain.clone(),
        rule: cell.rule.cloned(),
        tier: cell.tier.cloned(),
        outcome: cell.outcome,
        shard: cell.shard.cloned(),
        cause: cell.cause,
    }
}

/// What became of the request as a whole.
fn outcome(decision: &Decision) -> Outcome {
    match (decision.reason, decision.degraded.is_some()) {
        (Reason::Ok, false) => Outcome::Allowed,
        (Reason::Ok, true) => Outcome::DegradedAllowed,
        (Reason::Unavailable, _) => Outcome::Unavailable,
        (_, false) => Outcome::Denied,
        (_, true) => Outcome::DegradedDenied,
    }
}

/// The limit that a request is counted under: the strictest; where only shadow limits apply, the first of them.
fn decisive(decision: &Decision) -> Option<&LimitDecision> {
    decision.strictest.map_or_else(|| decision.limits.first(), |i| decision.limits.get(i))
}
