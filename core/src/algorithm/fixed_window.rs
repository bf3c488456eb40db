//! `fixed_window`: at most `limit` units in each window; windows are aligned to the epoch, or follow a calendar.
//!
//! The current window is never one before the stored one. Units of a window of other edges count whole if that window reaches into this
//! one, because when in it they were consumed is not known.

use super::place::Place;
use super::{Refusal, State};
use crate::counter::CounterReply;
use crate::limit::Bound;

/// What is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedWindow {
    /// Units consumed in the window.
    pub count: u64,
    /// Start of the window in microseconds.
    pub start: u64,
    /// Length of the window in microseconds.
    pub window: u64,
}

impl FixedWindow {
    const fn end(&self) -> u64 {
        self.start + self.window
    }

    /// What a store answers that just left this state after a call with one limit that passed; `None` if that cannot be.
    #[must_use]
    pub fn passed(&self, bound: &Bound, now_us: u64) -> Option<CounterReply> {
        let remaining = bound.capacity.checked_sub(self.count)?;
        let left = self.start.checked_add(self.window)?.checked_sub(now_us)?;
        Some(CounterReply::passed(remaining, left, now_us))
    }

    /// Units as another algorithm takes them over, and their time.
    pub(super) const fn units(&self, now: u64) -> (u64, u64) {
        (if self.end() > now { self.count } else { 0 }, self.start)
    }
}

/// The window that counts now.
pub(super) type View = FixedWindow;

/// Which windows there are.
enum Windows {
    /// Of this length.
    Aligned(u64),
    /// The current one and the next begin at the first two, and end at the others.
    Calendar([u64; 3]),
}

impl Windows {
    fn of(bound: &Bound, now: u64) -> Self {
        match bound.calendar {
            None => Self::Aligned(bound.window_us),
            Some(calendar) => {
                let [_, start, end, next_end, _] = calendar.edges(now);
                Self::Calendar([start, end, next_end])
            }
        }
    }

    /// Whether a window that begins then lies too far ahead to be true.
    const fn is_garbage(&self, start: u64, now: u64) -> bool {
        match self {
            Self::Aligned(window) => start > now + *window,
            Self::Calendar([_, _, next_end]) => start >= *next_end,
        }
    }

    /// The window that `time` lies in, now or later; none after the next of a calendar.
    const fn at(&self, time: u64, count: u64) -> FixedWindow {
        match *self {
            Self::Aligned(window) => FixedWindow { count, start: time / window * window, window },
            Self::Calendar([start, end, _]) if time < end => FixedWindow { count, start, window: end - start },
            Self::Calendar([_, start, end]) => FixedWindow { count, start, window: end - start },
        }
    }
}

fn view(place: &mut Place<'_>, bound: &Bound) -> View {
    let windows = Windows::of(bound, place.now);
    if let Some(State::FixedWindow(stored)) = place.state() {
        let stored = *stored;
        if windows.is_garbage(stored.start, place.now) {
            place.discard();
            return windows.at(place.now, 0);
        }
        let current = windows.at(place.now.max(stored.start), stored.count);
        if stored.end() <= current.start {
            return FixedWindow { count: 0, ..current };
        }
        if stored != current {
            place.write(State::FixedWindow(current), current.end() - place.now);
        }
        return current;
    }
    let (units, time) = place.adopt(bound);
    let current = windows.at(time, units);
    if units > 0 {
        place.write(State::FixedWindow(current), current.end() - place.now);
    }
    current
}

pub(super) fn read(place: &mut Place<'_>, bound: &Bound, cost: u64) -> (View, f64, Option<Refusal>) {
    let view = view(place, bound);
    let room = bound.capacity as f64 - view.count as f64;
    let refusal = (cost as f64 > room).then(|| {
        let left = view.end() - place.now;
        place.heal(left);
        Refusal { retry_after_us: (cost <= bound.capacity).then_some(left) }
    });
    (view, room, refusal)
}

/// Microseconds until nothing is consumed any more.
pub(super) fn reset(view: &View, _bound: &Bound, now: u64) -> u64 {
    if view.count > 0 { view.end() - now } else { 0 }
}

/// Consumes. Returns the microseconds until nothing is consumed any more.
pub(super) fn take(place: &mut Place<'_>, view: &View, _bound: &Bound, cost: u64) -> u64 {
    let left = view.end() - place.now;
    place.write(State::FixedWindow(FixedWindow { count: view.count + cost, ..*view }), left);
    left
}

/// Gives units back that were consumed at `consumed_us` (0: now), if their window is still the one that counts; returns how many.
pub(super) fn give(place: &mut Place<'_>, stored: &FixedWindow, bound: &Bound, units: u64, consumed_us: u64) -> u64 {
    let inside = consumed_us == 0 || (stored.start <= consumed_us && consumed_us < stored.end());
    if !inside || stored.end() <= place.now || stored.start > place.now + bound.window_us {
        return 0;
    }
    let given = units.min(stored.count);
    let kept = FixedWindow { count: stored.count - given, ..*stored };
    place.write(State::FixedWindow(kept), kept.end() - place.now);
    given
}
