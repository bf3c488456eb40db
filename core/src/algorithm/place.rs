//! The place of one counter in a store, as one call works on it: what state.lua is to the script.

use super::{Counter, State};
use crate::limit::Bound;

/// Where one counter is, or is not yet. A look changes nothing.
pub(super) struct Place<'a> {
    counter: &'a mut Option<Counter>,
    /// The store's clock in microseconds.
    pub(super) now: u64,
    writes: bool,
    /// State that could not be read has been removed.
    pub(super) replaced: bool,
}

/// The millisecond of the store's clock through which state lives that counts for `us` more microseconds: a whole second, at least one more
/// than that. State says itself when it stops counting; the second on top keeps a store's own expiry out of that.
pub(super) fn last_millisecond(now: u64, us: u64) -> u64 {
    ((now + us).div_ceil(1_000_000) + 1) * 1000
}

impl<'a> Place<'a> {
    /// An expired counter is gone, as it is on a server.
    pub(super) fn new(counter: &'a mut Option<Counter>, now: u64, writes: bool) -> Self {
        counter.take_if(|counter| counter.is_expired(now));
        Self { counter, now, writes, replaced: false }
    }

    pub(super) fn state(&self) -> Option<&State> {
        self.counter.as_ref().map(|counter| &counter.state)
    }

    /// The state, to be changed where it is; only for calls that write. [`expire`](Self::expire) comes with it.
    pub(super) fn state_mut(&mut self) -> Option<&mut State> {
        self.counter.as_mut().filter(|_| self.writes).map(|counter| &mut counter.state)
    }

    /// The counter is gone once its state has counted for `us` more microseconds.
    pub(super) fn expire(&mut self, us: u64) {
        if self.writes
            && let Some(counter) = self.counter.as_mut()
        {
            counter.expires_ms = Some(last_millisecond(self.now, us));
        }
    }

    /// Removes the counter: nothing is left of it.
    pub(super) fn clear(&mut self) {
        if self.writes {
            *self.counter = None;
        }
    }

    /// Milliseconds that the counter has left; `None` without a TTL.
    pub(super) fn ttl_ms(&self) -> Option<u64> {
        self.counter.as_ref()?.expires_ms.map(|last| last.saturating_sub(self.now / 1000))
    }

    /// Stores state that counts for `us` more microseconds.
    pub(super) fn write(&mut self, state: State, us: u64) {
        if self.writes {
            *self.counter = Some(Counter { state, expires_ms: Some(last_millisecond(self.now, us)) });
        }
    }

    /// Stores state that was brought into another form, or removes it where nothing is left of it.
    pub(super) fn rewrite(&mut self, state: Option<State>, us: u64) {
        match state {
            Some(state) => self.write(state, us),
            None => self.clear(),
        }
    }

    /// Gives a counter without a TTL one that fits its state.
    pub(super) fn heal(&mut self, us: u64) {
        if self.writes
            && let Some(counter) = self.counter.as_mut()
            && counter.expires_ms.is_none()
        {
            counter.expires_ms = Some(last_millisecond(self.now, us));
        }
    }

    /// Removes state that nobody can read, which starts empty and is reported. A look leaves it for the first real call.
    pub(super) fn discard(&mut self) {
        self.clear();
        self.replaced |= self.writes;
    }

    /// Takes over the units that another algorithm counted here: returns them, and the latest time stored with them or now. All of them
    /// count as consumed at that time. Afterwards the place is empty (except for a look), so a caller that gets units must write them.
    pub(super) fn adopt(&mut self, bound: &Bound) -> (u64, u64) {
        let found = match self.state() {
            None => return (0, self.now),
            Some(State::TokenBucket(state)) => state.units(),
            Some(State::SlidingWindow(state)) => state.units(self.now),
            Some(State::SlidingLog(state)) => state.units(self.now, bound.window_us),
            Some(State::FixedWindow(state)) => state.units(self.now),
            // Who is in flight says nothing about what was consumed, nor the other way round.
            Some(State::Concurrency(_)) => (0, self.now),
        };
        let (units, time) = found;
        if time > self.now + bound.window_us || (units > bound.capacity && self.ttl_ms().is_none()) {
            self.discard();
            return (0, self.now);
        }
        if self.writes {
            *self.counter = None;
        }
        (units, time.max(self.now))
    }
}
