//! `token_bucket`: a bucket of `capacity` units that drains by `limit / window`, continuously.
//!
//! Stored is what was consumed and has not drained yet, as a whole multiple of `1 / scale`: `scale` is 65,536, or less above 2^37 units,
//! so that `used * scale` stays below 2^53 and sums and differences are exact. Time is counted in whole steps of 16 µs. After `n` steps
//!
//! ```text
//! used(n) = max(0, used - floor(n * limit * 16 * scale / window) / scale)          passes if cost <= capacity - used(n)
//! ```
//!
//! so in any interval of length d (rounded up to steps) at most `capacity + limit / window * d` units pass. The cost is never added
//! before the comparison, and used units are never cut to the capacity: two limits may alternate on one counter.

use super::place::{Place, last_millisecond};
use super::{Counter, EXACT, Refusal, State};
use crate::counter::CounterReply;
use crate::limit::Bound;

/// The resolution of stored time, in microseconds.
pub const STEP_US: u64 = 16;

const STEP: f64 = 16.0;
const FRACTION: f64 = 65_536.0;
/// 2^37: up to here 1/65536 units are exact.
const LARGE: f64 = 137_438_953_472.0;
/// 2^49 steps are 2^53 µs.
const FOREVER: f64 = 562_949_953_421_312.0;

/// What is stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenBucket {
    /// Units consumed and not drained by `step`.
    pub used: f64,
    /// The time of the last consume, in steps of [`STEP_US`].
    pub step: u64,
}

impl TokenBucket {
    /// What a store answers that just left this state, of less than 2^32 units, after a call with one limit that passed; `None` if that cannot
    /// be.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and below 2^53")]
    pub fn passed(&self, bound: &Bound, now_us: u64) -> Option<CounterReply> {
        let room = bound.capacity as f64 - self.used;
        if self.step != now_us / STEP_US || room < 0.0 || bound.limit == 0 || bound.window_us == 0 {
            return None;
        }
        let reset_after_us = wait(self.used, self.step, bound, FRACTION, now_us);
        Some(CounterReply::passed(room.floor() as u64, reset_after_us, now_us))
    }

    /// Used units and their time as another algorithm takes them over: rounded up, without refill.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and at most 2^53")]
    pub(super) fn units(&self) -> (u64, u64) {
        (self.used.ceil() as u64, self.step * STEP_US)
    }
}

/// A bucket as it is now.
pub(super) struct View {
    /// As stored.
    base: TokenBucket,
    used_now: f64,
    scale: f64,
}

/// The finest fraction in which so many units are still exact.
fn scale_for(units: f64) -> f64 {
    let mut scale = FRACTION;
    while units * scale > EXACT {
        scale /= 2.0;
    }
    scale
}

/// What `steps` of time drain in 1/scale units, never more than the truth. Below 2^53 the quotient cannot be rounded up past a whole
/// number; above, two roundings are off by less than the factor takes away.
fn drained(steps: f64, bound: &Bound, scale: f64) -> f64 {
    let product = steps * bound.limit as f64 * (STEP * scale);
    let mut quotient = product / bound.window_us as f64;
    if product >= EXACT {
        quotient *= 1.0 - 1.0 / 2_251_799_813_685_248.0;
    }
    quotient.floor()
}

/// Microseconds from `now` until `excess` more units have drained since `step`: to the first step at which they have, or the one after
/// where products are rounded.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and below 2^53")]
fn wait(excess: f64, step: u64, bound: &Bound, scale: f64, now: u64) -> u64 {
    let per_step = bound.limit as f64 * (STEP * scale);
    let mut steps = (excess * scale * bound.window_us as f64 / per_step).ceil();
    if steps * per_step >= EXACT {
        steps += 1.0;
    }
    if steps > FOREVER {
        steps = FOREVER;
    }
    let us = (step as f64 + steps) * STEP - now as f64;
    us.clamp(1.0, EXACT - 1.0) as u64
}

/// No bucket here, or none that can be read.
fn start(place: &mut Place<'_>, bound: &Bound) -> TokenBucket {
    if matches!(place.state(), Some(State::TokenBucket(_))) {
        place.discard();
        return TokenBucket { used: 0.0, step: place.now / STEP_US };
    }
    let (units, time) = place.adopt(bound);
    let bucket = TokenBucket { used: units as f64, step: time / STEP_US };
    if units > 0 {
        let scale = scale_for(bucket.used.max(bound.capacity as f64));
        place.write(State::TokenBucket(bucket), wait(bucket.used, bucket.step, bound, scale, place.now));
    }
    bucket
}

pub(super) fn read(place: &mut Place<'_>, bound: &Bound, cost: u64) -> (View, f64, Option<Refusal>) {
    let present = place.now / STEP_US;
    let mut base = match place.state() {
        Some(State::TokenBucket(bucket)) if bucket.step * STEP_US <= place.now + bound.window_us => *bucket,
        _ => start(place, bound),
    };
    let capacity = bound.capacity as f64;
    let mut scale = FRACTION;
    if base.used > LARGE || capacity > LARGE {
        scale = scale_for(base.used.max(capacity));
        base.used = (base.used * scale).ceil() / scale;
    }
    let mut used_now = base.used;
    if base.step < present && base.used > 0.0 {
        used_now = (base.used - drained((present - base.step) as f64, bound, scale) / scale).max(0.0);
    }
    let mut view = View { base, used_now, scale };
    let refusal = if cost as f64 > capacity - used_now { refuse(place, &mut view, bound, cost) } else { None };
    let room = capacity - view.used_now;
    (view, room, refusal)
}

/// Refused: says when the same cost would pass, which is when enough has drained or the counter expires. State above the capacity that no
/// TTL will ever remove is garbage (a lowered limit leaves such state, but with a TTL), and then the cost may pass after all.
fn refuse(place: &mut Place<'_>, view: &mut View, bound: &Bound, cost: u64) -> Option<Refusal> {
    let (capacity, cost) = (bound.capacity as f64, cost as f64);
    let ttl = place.ttl_ms();
    if ttl.is_none() && view.used_now > capacity {
        place.discard();
        view.base = TokenBucket { used: 0.0, step: place.now / STEP_US };
        view.used_now = 0.0;
    } else {
        place.heal(wait(view.base.used, view.base.step, bound, view.scale, place.now));
    }
    if cost > capacity {
        return Some(Refusal { retry_after_us: None });
    }
    (cost > capacity - view.used_now).then(|| {
        let us = wait(view.base.used - (capacity - cost), view.base.step, bound, view.scale, place.now);
        // A counter lives through the last millisecond of its TTL.
        Refusal { retry_after_us: Some(ttl.map_or(us, |ms| us.min((ms + 1) * 1000))) }
    })
}

/// Microseconds until nothing is used any more.
pub(super) fn reset(view: &View, bound: &Bound, now: u64) -> u64 {
    if view.used_now == 0.0 {
        return 0;
    }
    wait(view.base.used, view.base.step, bound, view.scale, now)
}

/// Consumes. Returns the microseconds until nothing is used any more.
pub(super) fn take(place: &mut Place<'_>, view: &View, bound: &Bound, cost: u64) -> u64 {
    let mut used = view.used_now + cost as f64;
    // Past the capacity only where it was recorded.
    let scale = scale_for(used.max(bound.capacity as f64));
    if used > LARGE {
        used = (used * scale).ceil() / scale;
    }
    let bucket = TokenBucket { used, step: view.base.step.max(place.now / STEP_US) };
    let us = wait(bucket.used, bucket.step, bound, scale, place.now);
    place.write(State::TokenBucket(bucket), us);
    us
}

/// Gives units back; returns how many, rounded up.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and at most 2^53")]
pub(super) fn give(place: &mut Place<'_>, bucket: &TokenBucket, bound: &Bound, units: u64) -> u64 {
    if bucket.step * STEP_US > place.now + bound.window_us {
        return 0;
    }
    let scale = scale_for(bucket.used.max(bound.capacity as f64));
    let mut used = (bucket.used * scale).ceil() / scale;
    let present = place.now / STEP_US;
    if bucket.step < present {
        used -= drained((present - bucket.step) as f64, bound, scale) / scale;
    }
    // State above the capacity without a TTL is garbage, which the next check replaces: a TTL would make it credible.
    if used <= 0.0 || (used > bound.capacity as f64 && place.ttl_ms().is_none()) {
        return 0;
    }
    let kept = (used - units as f64).max(0.0);
    let step = bucket.step.max(present);
    place.write(State::TokenBucket(TokenBucket { used: kept, step }), wait(kept, step, bound, scale, place.now));
    (used - kept).ceil() as u64
}

/// A bucket with `used` units consumed just now (at most the capacity), ready for a store. The limit must not be 0.
#[must_use]
pub fn bucket(bound: &Bound, used: u64, now_us: u64) -> Counter {
    let bucket = TokenBucket { used: used.min(bound.capacity) as f64, step: now_us / STEP_US };
    let us = wait(bucket.used, bucket.step, bound, scale_for(bound.capacity as f64), now_us);
    Counter { state: State::TokenBucket(bucket), expires_ms: Some(last_millisecond(now_us, us)) }
}
