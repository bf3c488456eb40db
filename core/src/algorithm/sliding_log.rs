//! `sliding_log`: at most `limit` units in every window that ends now, exactly: each consume is remembered until it is a window old.
//!
//! Consumes at one microsecond are one entry, and time that is stored never goes back, so entries ascend. A refused call writes nothing: there are
//! never more entries than units that count.

use std::collections::VecDeque;

use super::place::Place;
use super::{Refusal, State};
use crate::limit::Bound;

/// The most units that are taken over from another algorithm, far above every limit of a log.
const MOST_ADOPTED: u64 = 1 << 50;

/// What is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlidingLog {
    /// Time in microseconds and units of each consume, oldest first.
    pub entries: VecDeque<(u64, u64)>,
}

impl SlidingLog {
    /// The time of the last consume.
    fn newest(&self) -> Option<u64> {
        self.entries.back().map(|(time, _)| *time)
    }

    /// The entries that still count, oldest first.
    fn live(&self, now: u64, window: u64) -> impl DoubleEndedIterator<Item = &(u64, u64)> {
        let gone = self.entries.partition_point(|(time, _)| time + window <= now);
        self.entries.range(gone..)
    }

    fn sum(&self, now: u64, window: u64) -> u64 {
        self.live(now, window).map(|(_, units)| units).sum()
    }

    /// Microseconds until so many of the oldest units have left.
    fn wait(&self, mut units: u64, now: u64, window: u64) -> Option<u64> {
        self.live(now, window).find_map(|(time, here)| {
            units = units.saturating_sub(*here);
            (units == 0).then(|| time + window - now)
        })
    }

    /// Units as another algorithm takes them over, and the latest time stored with them.
    pub(super) fn units(&self, now: u64, window: u64) -> (u64, u64) {
        (self.sum(now, window), self.newest().unwrap_or(now))
    }
}

/// The log as it is now.
pub(super) struct View {
    /// Units that count.
    sum: u64,
    /// The time of the last consume, or now.
    newest: u64,
    /// When so many units more would pass; only where they do not.
    retry: Option<u64>,
}

fn view(place: &mut Place<'_>, bound: &Bound, cost: u64) -> View {
    let (now, window) = (place.now, bound.window_us);
    let empty = View { sum: 0, newest: now, retry: None };
    if let Some(State::SlidingLog(log)) = place.state() {
        let newest = log.newest().unwrap_or(now);
        if newest > now + window {
            place.discard();
            return empty;
        }
        let sum = log.sum(now, window);
        let excess = bound.capacity.checked_sub(cost).map(|room| sum.saturating_sub(room));
        let retry = excess.filter(|excess| *excess > 0).and_then(|excess| log.wait(excess, now, window));
        return View { sum, newest, retry };
    }
    let (units, time) = place.adopt(bound);
    let units = units.min(MOST_ADOPTED);
    if units == 0 {
        return empty;
    }
    place.write(State::SlidingLog(SlidingLog { entries: VecDeque::from([(time, units)]) }), time + window - now);
    View { sum: units, newest: time, retry: (cost <= bound.capacity).then(|| time + window - now) }
}

pub(super) fn read(place: &mut Place<'_>, bound: &Bound, cost: u64) -> (View, f64, Option<Refusal>) {
    let view = view(place, bound, cost);
    let room = bound.capacity as f64 - view.sum as f64;
    let refusal = (cost as f64 > room).then(|| {
        if view.sum > 0 {
            place.expire(view.newest + bound.window_us - place.now);
        }
        Refusal { retry_after_us: view.retry }
    });
    (view, room, refusal)
}

/// Microseconds until nothing is consumed any more.
pub(super) fn reset(view: &View, bound: &Bound, now: u64) -> u64 {
    if view.sum > 0 { view.newest + bound.window_us - now } else { 0 }
}

/// Consumes, and forgets what no longer counts. Returns the microseconds until nothing is consumed any more.
pub(super) fn take(place: &mut Place<'_>, view: &View, bound: &Bound, cost: u64) -> u64 {
    let (now, window, time) = (place.now, bound.window_us, place.now.max(view.newest));
    let left = time + window - now;
    match place.state_mut() {
        Some(State::SlidingLog(log)) => {
            let gone = log.entries.partition_point(|(time, _)| time + window <= now);
            log.entries.drain(..gone);
            // What a flood took goes back: the memory of a counter is reckoned by its entries.
            if log.entries.capacity() > 4 * log.entries.len().max(16) {
                log.entries.shrink_to(2 * log.entries.len());
            }
            match log.entries.back_mut() {
                Some((newest, units)) if *newest == time => *units += cost,
                _ => log.entries.push_back((time, cost)),
            }
            place.expire(left);
        }
        _ => place.write(State::SlidingLog(SlidingLog { entries: VecDeque::from([(time, cost)]) }), left),
    }
    left
}

/// Gives units back, from the newest entry backwards; returns how many.
pub(super) fn give(place: &mut Place<'_>, bound: &Bound, units: u64) -> u64 {
    let (now, window) = (place.now, bound.window_us);
    let Some(State::SlidingLog(log)) = place.state_mut() else { return 0 };
    if log.newest().is_none_or(|newest| newest > now + window) {
        return 0;
    }
    let mut given = 0;
    while given < units
        && let Some((time, here)) = log.entries.back_mut()
        && *time + window > now
    {
        let part = (units - given).min(*here);
        given += part;
        *here -= part;
        if *here == 0 {
            log.entries.pop_back();
        }
    }
    if log.entries.is_empty() {
        place.clear();
    }
    given
}
