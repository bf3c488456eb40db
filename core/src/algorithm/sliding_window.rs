//! `sliding_window`: at most `limit` units in every window that ends now, counted in slots of a sixtieth of the window.
//!
//! Slot j is the time `[j * w, (j + 1) * w)` with `w = ceil(window / 60)` and counts until `(j + 61) * w`: the current slot and the 60
//! before it cover a whole window, and at most one slot more. A window of another length finds the units sorted into its own slots, each
//! old slot at its very end, so that none leaves early.

use super::place::Place;
use super::{Refusal, State};
use crate::limit::Bound;

const SLOTS: u64 = 61;

/// What is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlidingWindow {
    /// Slots with units, oldest first: number and units.
    pub slots: Vec<(u64, u64)>,
    /// The newest slot that was ever current.
    pub last: u64,
    /// Length of the window in microseconds.
    pub window: u64,
}

/// The width of a slot in microseconds.
const fn width_of(window: u64) -> u64 {
    window.div_ceil(60)
}

impl SlidingWindow {
    const fn width(&self) -> u64 {
        width_of(self.window)
    }

    /// Microseconds from `now` until the newest slot has left.
    const fn left(&self, now: u64) -> u64 {
        ((self.last + SLOTS) * self.width()).saturating_sub(now)
    }

    fn sum(&self) -> u64 {
        self.slots.iter().map(|(_, units)| units).sum()
    }

    /// The current slot: that of the clock, but never one before the newest.
    fn present(&self, now: u64) -> u64 {
        self.last.max(now / self.width())
    }

    /// Drops the slots that have left once `present` is the current one.
    fn drop_left(&mut self, present: u64) {
        self.slots.retain(|(slot, _)| slot + SLOTS > present);
    }

    /// Counts units in `slot`, which is not before the newest.
    fn add(&mut self, slot: u64, units: u64) {
        self.last = slot;
        match self.slots.last_mut() {
            Some((newest, sum)) if *newest == slot => *sum += units,
            _ => self.slots.push((slot, units)),
        }
    }

    /// Units as another algorithm takes them over, and the latest time stored with them.
    pub(super) fn units(&self, now: u64) -> (u64, u64) {
        let present = self.present(now);
        let live = self.slots.iter().filter(|(slot, _)| slot + SLOTS > present);
        (live.map(|(_, units)| units).sum(), self.last * self.width())
    }

    /// The same units in the slots of another window.
    fn rebin(mut self, window: u64, now: u64) -> Self {
        let (old_width, width) = (self.width(), width_of(window));
        let time = now.max(self.last * old_width);
        let slot_of = |slot: u64| ((slot + 1) * old_width - 1).min(time) / width;
        self.drop_left(self.present(now));
        let mut new = Self { slots: Vec::with_capacity(self.slots.len()), last: 0, window };
        for (slot, units) in self.slots {
            new.add(slot_of(slot), units);
        }
        new.last = slot_of(self.last);
        new.drop_left(time / width);
        new
    }
}

/// The window as it is now: what counts, and the current slot.
pub(super) struct View {
    counted: SlidingWindow,
    present: u64,
}

fn view(place: &mut Place<'_>, bound: &Bound) -> View {
    let width = width_of(bound.window_us);
    let empty = |time: u64| SlidingWindow { slots: Vec::new(), last: time / width, window: bound.window_us };
    if let Some(State::SlidingWindow(stored)) = place.state() {
        let mut counted = stored.clone();
        let stored_time = counted.last * counted.width();
        if stored_time > place.now + bound.window_us {
            place.discard();
            return View { counted: empty(place.now), present: place.now / width };
        }
        if counted.window != bound.window_us {
            counted = counted.rebin(bound.window_us, place.now);
            let state = (!counted.slots.is_empty()).then(|| State::SlidingWindow(counted.clone()));
            place.rewrite(state, counted.left(place.now));
            return View { counted, present: place.now.max(stored_time) / width };
        }
        let present = counted.present(place.now);
        counted.drop_left(present);
        return View { counted, present };
    }
    let (units, time) = place.adopt(bound);
    let mut counted = empty(time);
    if units > 0 {
        counted.add(counted.last, units);
        place.write(State::SlidingWindow(counted.clone()), counted.left(place.now));
    }
    View { present: counted.last, counted }
}

/// Microseconds until so many of the oldest slots have left that at most `room` units count.
fn wait(counted: &SlidingWindow, room: u64, now: u64) -> Option<u64> {
    let mut sum = counted.sum();
    counted.slots.iter().find_map(|(slot, units)| {
        sum -= units;
        (sum <= room).then(|| (slot + SLOTS) * counted.width() - now)
    })
}

pub(super) fn read(place: &mut Place<'_>, bound: &Bound, cost: u64) -> (View, f64, Option<Refusal>) {
    let view = view(place, bound);
    let room = bound.capacity as f64 - view.counted.sum() as f64;
    let refusal = (cost as f64 > room).then(|| {
        place.heal(view.counted.left(place.now));
        let retry_after_us = bound.capacity.checked_sub(cost).and_then(|room| wait(&view.counted, room, place.now));
        Refusal { retry_after_us }
    });
    (view, room, refusal)
}

/// Microseconds until nothing is consumed any more.
pub(super) fn reset(view: &View, _bound: &Bound, now: u64) -> u64 {
    if view.counted.slots.is_empty() { 0 } else { view.counted.left(now) }
}

/// Consumes. Returns the microseconds until nothing is consumed any more.
pub(super) fn take(place: &mut Place<'_>, view: &View, _bound: &Bound, cost: u64) -> u64 {
    let mut new = view.counted.clone();
    new.add(view.present, cost);
    let left = new.left(place.now);
    place.write(State::SlidingWindow(new), left);
    left
}

/// Gives units back, from the newest slot backwards; returns how many.
pub(super) fn give(place: &mut Place<'_>, stored: &SlidingWindow, bound: &Bound, units: u64) -> u64 {
    if stored.last * stored.width() > place.now + bound.window_us {
        return 0;
    }
    let mut kept = stored.clone();
    kept.drop_left(kept.present(place.now));
    let mut given = 0;
    while given < units
        && let Some((_, here)) = kept.slots.last_mut()
    {
        let part = (units - given).min(*here);
        given += part;
        *here -= part;
        if *here == 0 {
            kept.slots.pop();
        }
    }
    if given > 0 {
        let left = kept.left(place.now);
        place.write(State::SlidingWindow(kept), left);
    }
    given
}
