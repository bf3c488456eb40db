//! The algorithms as pure functions: the models that `lua/` must agree with, and what the memory store runs.
//!
//! [`decide`] is the driver: one request with all its limits, all or nothing. Each algorithm has a file with its state and its
//! arithmetic. Where Lua computes in doubles the model computes in `f64`, in the same order; whole numbers below 2^53 are `u64` here.
//!
//! Time is the store's clock in microseconds. It may step back: time that is stored never does.

pub mod concurrency;
pub mod fixed_window;
mod place;
pub mod sliding_log;
pub mod sliding_window;
pub mod token_bucket;

use crate::counter::{Action, CounterCall, CounterReply};
use crate::lease::LeaseId;
use crate::limit::{Algorithm, Bound};
use concurrency::Leases;
use fixed_window::FixedWindow;
use place::Place;
use sliding_log::SlidingLog;
use sliding_window::SlidingWindow;
use token_bucket::TokenBucket;

/// 2^53: whole numbers below it are exact in a double.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// What an algorithm remembers of one counter.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Of [`Algorithm::TokenBucket`].
    TokenBucket(TokenBucket),
    /// Of [`Algorithm::SlidingWindow`].
    SlidingWindow(SlidingWindow),
    /// Of [`Algorithm::SlidingLog`].
    SlidingLog(SlidingLog),
    /// Of [`Algorithm::FixedWindow`].
    FixedWindow(FixedWindow),
    /// Of [`Algorithm::Concurrency`].
    Concurrency(Leases),
}

/// A counter as a store keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct Counter {
    /// The state.
    pub state: State,
    /// The last millisecond of the store's clock in which the counter is there; `None` if another hand took its TTL away.
    pub expires_ms: Option<u64>,
}

impl Counter {
    /// How many things it remembers one by one: the entries of a log, the slots of a sliding window, the leases in flight; else none.
    #[must_use]
    pub fn entries(&self) -> usize {
        match &self.state {
            State::SlidingLog(log) => log.entries.len(),
            State::Concurrency(leases) => leases.leases.len(),
            State::SlidingWindow(window) => window.slots.len(),
            State::TokenBucket(_) | State::FixedWindow(_) => 0,
        }
    }

    /// Whether a store has forgotten the counter by now.
    #[must_use]
    pub fn is_expired(&self, now_us: u64) -> bool {
        self.expires_ms.is_some_and(|last| now_us / 1000 > last)
    }
}

/// Decides one request at `now_us`: all or nothing over its limits that are not shadow; a shadow limit that passes is written if the
/// request is admitted. `counters` holds what is stored under the key of each call, `None` for nothing, and is updated.
pub fn decide(calls: &[CounterCall], counters: &mut [Option<Counter>], now_us: u64) -> Vec<CounterReply> {
    let reads: Vec<Read> = calls.iter().zip(counters.iter_mut()).map(|(call, counter)| read(call, counter, now_us)).collect();
    let admitted = calls.iter().zip(&reads).all(|(call, read)| call.shadow || read.refusal.is_none());
    let settled = calls.iter().zip(reads).zip(counters);
    settled.map(|((call, read), counter)| settle(call, &read, admitted, counter, now_us)).collect()
}

/// Gives `units` back that were consumed at `consumed_us` (0: now): creates nothing, never goes below 0. Returns how many were given back.
/// Of `concurrency` it is `lease` that ends.
pub fn give_back(counter: &mut Option<Counter>, bound: &Bound, units: u64, consumed_us: u64, lease: Option<&LeaseId>, now_us: u64) -> u64 {
    let mut place = Place::new(counter, now_us, units > 0);
    match place.state() {
        _ if bound.limit == 0 || units == 0 => 0,
        Some(State::TokenBucket(state)) if bound.algorithm == Algorithm::TokenBucket => {
            let state = *state;
            token_bucket::give(&mut place, &state, bound, units)
        }
        Some(State::SlidingWindow(state)) if bound.algorithm == Algorithm::SlidingWindow => {
            let state = state.clone();
            sliding_window::give(&mut place, &state, bound, units)
        }
        Some(State::SlidingLog(_)) if bound.algorithm == Algorithm::SlidingLog => sliding_log::give(&mut place, bound, units),
        Some(State::FixedWindow(state)) if bound.algorithm == Algorithm::FixedWindow => {
            let state = *state;
            fixed_window::give(&mut place, &state, bound, units, consumed_us)
        }
        Some(State::Concurrency(_)) if bound.algorithm == Algorithm::Concurrency => {
            u64::from(lease.is_some_and(|lease| concurrency::release(&mut place, lease)))
        }
        _ => 0,
    }
}

/// One counter as one call finds it.
struct Read {
    view: View,
    /// Units that may still pass; negative where a limit was lowered, or units were recorded.
    room: f64,
    /// Units to take.
    cost: u64,
    /// Set if the cost does not pass.
    refusal: Option<Refusal>,
    replaced: bool,
}

/// The cost passes in so many microseconds, or never.
#[derive(Clone, Copy)]
struct Refusal {
    retry_after_us: Option<u64>,
}

enum View {
    /// A limit of 0: nothing passes, nothing is kept.
    Blocked,
    /// There is no counter, and none may come to be.
    Uncounted,
    TokenBucket(token_bucket::View),
    SlidingWindow(sliding_window::View),
    SlidingLog(sliding_log::View),
    FixedWindow(fixed_window::View),
    Concurrency(concurrency::View),
}

fn read(call: &CounterCall, counter: &mut Option<Counter>, now_us: u64) -> Read {
    let mut place = Place::new(counter, now_us, call.writes());
    let records = call.action == Action::Record;
    // What is recorded is not decided.
    let asked = if records { 0 } else { call.units() };
    let (view, room, refusal) = match call.bound.algorithm {
        _ if call.bound.limit == 0 => (View::Blocked, 0.0, (asked > 0).then_some(Refusal { retry_after_us: None })),
        _ if !call.may_create && call.cost > 0 && place.state().is_none() => (View::Uncounted, call.bound.capacity as f64, None),
        Algorithm::TokenBucket => {
            let (view, room, refusal) = token_bucket::read(&mut place, &call.bound, asked);
            (View::TokenBucket(view), room, refusal)
        }
        Algorithm::SlidingWindow => {
            let (view, room, refusal) = sliding_window::read(&mut place, &call.bound, asked);
            (View::SlidingWindow(view), room, refusal)
        }
        Algorithm::SlidingLog => {
            let (view, room, refusal) = sliding_log::read(&mut place, &call.bound, asked);
            (View::SlidingLog(view), room, refusal)
        }
        Algorithm::FixedWindow => {
            let (view, room, refusal) = fixed_window::read(&mut place, &call.bound, asked);
            (View::FixedWindow(view), room, refusal)
        }
        Algorithm::Concurrency => {
            let (view, room, refusal) = concurrency::read(&mut place, &call.bound, asked, call.lease.as_ref().filter(|_| call.writes()));
            (View::Concurrency(view), room, refusal)
        }
    };
    let cost = match &view {
        View::Blocked | View::Uncounted => 0,
        View::Concurrency(view) if view.held => 0,
        _ if !call.writes() => 0,
        _ if records => recorded(call.units(), room, call.bound.capacity),
        _ => call.units(),
    };
    let refusal = refusal.filter(|_| !records);
    Read { view, room, cost, refusal, replaced: place.replaced }
}

/// How many of `units` are recorded where so many more may pass: no more than to one further capacity past the limit, or to 2^53 in all.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and below 2^53")]
fn recorded(units: u64, room: f64, capacity: u64) -> u64 {
    let capacity = capacity as f64;
    let most = (room + capacity).min(EXACT - (capacity - room));
    (units as f64).min(most.max(0.0).floor()) as u64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and below 2^53")]
fn settle(call: &CounterCall, read: &Read, admitted: bool, counter: &mut Option<Counter>, now_us: u64) -> CounterReply {
    let takes = admitted && read.refusal.is_none() && read.cost > 0;
    let mut place = Place::new(counter, now_us, call.writes());
    let (bound, cost) = (&call.bound, read.cost);
    let reset_after_us = match (&read.view, call.lease) {
        (View::Blocked | View::Uncounted, _) => 0,
        (View::TokenBucket(view), _) if takes => token_bucket::take(&mut place, view, bound, cost),
        (View::TokenBucket(view), _) => token_bucket::reset(view, bound, now_us),
        (View::SlidingWindow(view), _) if takes => sliding_window::take(&mut place, view, bound, cost),
        (View::SlidingWindow(view), _) => sliding_window::reset(view, bound, now_us),
        (View::SlidingLog(view), _) if takes => sliding_log::take(&mut place, view, bound, cost),
        (View::SlidingLog(view), _) => sliding_log::reset(view, bound, now_us),
        (View::FixedWindow(view), _) if takes => fixed_window::take(&mut place, view, bound, cost),
        (View::FixedWindow(view), _) => fixed_window::reset(view, bound, now_us),
        (View::Concurrency(view), Some(lease)) if takes => concurrency::take(&mut place, view, bound, lease),
        (View::Concurrency(view), _) => concurrency::reset(view, bound, now_us),
    };
    let room = if takes { read.room - cost as f64 } else { read.room };
    CounterReply {
        allowed: read.refusal.is_none(),
        remaining: room.max(0.0).floor() as u64,
        reset_after_us,
        retry_after_us: read.refusal.map_or(Some(0), |refusal| refusal.retry_after_us),
        time_us: now_us,
        replaced: read.replaced,
        uncounted: matches!(read.view, View::Uncounted),
    }
}

/// Ends a lease of `concurrency`; returns whether it was there.
pub fn release(counter: &mut Option<Counter>, lease: &LeaseId, now_us: u64) -> bool {
    concurrency::release(&mut Place::new(counter, now_us, true), lease)
}

#[cfg(test)]
mod tests;
