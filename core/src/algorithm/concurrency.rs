//! `concurrency`: at most `limit` leases in flight. A lease is given back, or expires once it is a window old.
//!
//! Stored is when each lease was acquired, so a changed window applies to leases that live. A call that acquires is answered as it was before if
//! it comes again.

use super::place::Place;
use super::{Refusal, State};
use crate::lease::LeaseId;
use crate::limit::Bound;

/// What is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leases {
    /// When each was acquired, in microseconds, and its name; oldest first.
    pub leases: Vec<(u64, LeaseId)>,
}

impl Leases {
    /// The leases that have not expired, oldest first.
    fn live(&self, now: u64, window: u64) -> &[(u64, LeaseId)] {
        let gone = self.leases.partition_point(|(acquired, _)| acquired + window <= now);
        &self.leases[gone..]
    }

    /// Ends a lease; returns whether it was there.
    pub(super) fn release(&mut self, lease: &LeaseId) -> bool {
        let found = self.leases.iter().position(|(_, held)| held == lease);
        found.is_some_and(|place| {
            self.leases.remove(place);
            true
        })
    }
}

/// The leases as they are now.
pub(super) struct View {
    /// How many are in flight.
    count: u64,
    /// When the last was acquired, or now.
    newest: u64,
    /// When there is room for one more; only where there is none.
    retry: Option<u64>,
    /// The one asked for is among them.
    pub(super) held: bool,
}

fn view(place: &mut Place<'_>, bound: &Bound, lease: Option<&LeaseId>) -> View {
    let (now, window) = (place.now, bound.window_us);
    let empty = View { count: 0, newest: now, retry: None, held: false };
    let Some(State::Concurrency(stored)) = place.state() else {
        // Whatever another algorithm counted says nothing about what is in flight.
        place.adopt(bound);
        return empty;
    };
    let newest = stored.leases.last().map_or(now, |(acquired, _)| *acquired);
    if newest > now + window {
        place.discard();
        return empty;
    }
    let live = stored.live(now, window);
    let excess = (live.len() as u64).checked_sub(bound.limit).and_then(|excess| live.get(usize::try_from(excess).ok()?));
    let retry = excess.map(|(acquired, _)| acquired + window - now);
    let held = lease.is_some_and(|lease| live.iter().any(|(_, held)| held == lease));
    View { count: live.len() as u64, newest, retry, held }
}

pub(super) fn read(place: &mut Place<'_>, bound: &Bound, cost: u64, lease: Option<&LeaseId>) -> (View, f64, Option<Refusal>) {
    let view = view(place, bound, lease);
    let room = bound.limit as f64 - view.count as f64;
    let refusal = (cost as f64 > room && !view.held).then(|| {
        place.expire(view.newest + bound.window_us - place.now);
        Refusal { retry_after_us: view.retry }
    });
    (view, room, refusal)
}

/// Microseconds until all have expired.
pub(super) fn reset(view: &View, bound: &Bound, now: u64) -> u64 {
    if view.count > 0 { view.newest + bound.window_us - now } else { 0 }
}

/// Acquires. Returns the microseconds until all have expired.
pub(super) fn take(place: &mut Place<'_>, view: &View, bound: &Bound, lease: LeaseId) -> u64 {
    let (now, window, acquired) = (place.now, bound.window_us, place.now.max(view.newest));
    let left = acquired + window - now;
    match place.state_mut() {
        Some(State::Concurrency(stored)) => {
            let gone = stored.leases.partition_point(|(acquired, _)| acquired + window <= now);
            stored.leases.drain(..gone);
            stored.leases.push((acquired, lease));
            place.expire(left);
        }
        _ => place.write(State::Concurrency(Leases { leases: vec![(acquired, lease)] }), left),
    }
    left
}

/// Ends a lease; returns whether it was there. Nothing is left of the last.
pub(super) fn release(place: &mut Place<'_>, lease: &LeaseId) -> bool {
    let Some(State::Concurrency(stored)) = place.state_mut() else { return false };
    let released = stored.release(lease);
    if stored.leases.is_empty() {
        place.clear();
    }
    released
}
