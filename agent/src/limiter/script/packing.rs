//! What goes to the script: one key per limit and one binary argument, laid out as `lua/driver.lua` says.

use weir_core::counter::CounterCall;
use weir_core::key::CounterKey;
use weir_core::limit::{Algorithm, Bound};

use super::{Refund, sha1};

const CHECK: u8 = 1;
const REFUND: u8 = 2;

const SHADOW: u8 = 1;
const LAST_OF_REQUEST: u8 = 2;
const KEY_OCCURRED: u8 = 4;

/// The `EVALSHA` command for a batch of requests with at least one and at most [`MAX_CALLS`](super::MAX_CALLS) limits in all;
/// [`decode`](super::decode) reads its reply.
#[must_use]
pub fn encode(requests: &[&[CounterCall]]) -> redis::Cmd {
    let count = requests.iter().map(|request| request.len()).sum();
    let mut seen = SeenKeys::with_room_for(count);
    let mut bounds = Distinct::default();
    let mut shapes = Distinct::default();
    let mut calls = Vec::with_capacity(count);
    for request in requests {
        for (place, call) in request.iter().enumerate() {
            let mut flags = 0;
            if call.shadow {
                flags |= SHADOW;
            }
            if place + 1 == request.len() {
                flags |= LAST_OF_REQUEST;
            }
            if !seen.insert(&call.key) {
                flags |= KEY_OCCURRED;
            }
            calls.push(shapes.number_of(Shape { flags, bound: bounds.number_of(call.bound), cost: call.cost }));
        }
    }
    let mut tail = Vec::with_capacity(1 + shapes.seen.len() * 10 + count);
    tail.push(number(shapes.seen.len()));
    for shape in &shapes.seen {
        tail.extend_from_slice(&[shape.flags, shape.bound]);
        tail.extend_from_slice(&(shape.cost as f64).to_le_bytes());
    }
    tail.extend_from_slice(&calls);
    command(count, requests.iter().copied().flatten().map(|call| &call.key), CHECK, &bounds, &tail)
}

/// The `EVALSHA` command for at least one and at most [`MAX_CALLS`](super::MAX_CALLS) refunds;
/// [`decode_refunds`](super::decode_refunds) reads its reply.
#[must_use]
pub fn encode_refunds(refunds: &[Refund]) -> redis::Cmd {
    let mut bounds = Distinct::default();
    let mut calls = Vec::with_capacity(refunds.len() * 17);
    for refund in refunds {
        calls.push(bounds.number_of(refund.bound));
        calls.extend_from_slice(&(refund.units as f64).to_le_bytes());
        calls.extend_from_slice(&(refund.time_us as f64).to_le_bytes());
    }
    command(refunds.len(), refunds.iter().map(|refund| &refund.key), REFUND, &bounds, &calls)
}

fn command<'a>(
    count: usize,
    keys: impl Iterator<Item = &'a CounterKey>,
    operation: u8,
    bounds: &Distinct<Bound>,
    calls: &[u8],
) -> redis::Cmd {
    let mut argument = Vec::with_capacity(2 + bounds.seen.len() * 25 + calls.len());
    argument.push(operation);
    argument.push(number(bounds.seen.len()));
    for bound in &bounds.seen {
        argument.push(algorithm_number(bound));
        for value in [bound.limit, bound.capacity, bound.window_us] {
            argument.extend_from_slice(&(value as f64).to_le_bytes());
        }
    }
    argument.extend_from_slice(calls);
    let mut command = redis::Cmd::with_capacity(4 + count, 64 + count * 28 + argument.len());
    command.arg("EVALSHA").arg(sha1()).arg(count);
    for key in keys {
        command.arg(key.as_bytes());
    }
    command.arg(argument);
    command
}

/// A limit of 0 is an algorithm of its own: it lets nothing pass and keeps no state.
const fn algorithm_number(bound: &Bound) -> u8 {
    match bound.algorithm {
        _ if bound.limit == 0 => 0,
        Algorithm::TokenBucket => 1,
        Algorithm::SlidingWindow => 2,
        Algorithm::FixedWindow => 3,
    }
}

#[allow(clippy::cast_possible_truncation, reason = "at most MAX_CALLS")]
const fn number(place: usize) -> u8 {
    place as u8
}

/// What calls have in common besides their keys.
#[derive(Clone, Copy, PartialEq)]
struct Shape {
    flags: u8,
    bound: u8,
    cost: u64,
}

/// Different values of a batch: few, as most requests meet the same rules.
struct Distinct<T> {
    seen: Vec<T>,
}

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self { seen: Vec::new() }
    }
}

impl<T: PartialEq> Distinct<T> {
    /// The number of this value, from 1.
    fn number_of(&mut self, value: T) -> u8 {
        let place = self.seen.iter().position(|seen| *seen == value).unwrap_or_else(|| {
            self.seen.push(value);
            self.seen.len() - 1
        });
        number(place + 1)
    }
}

/// The keys of a batch so far: open addressing over their own bytes, which are a hash already.
struct SeenKeys<'a> {
    slots: Vec<Option<&'a CounterKey>>,
}

impl<'a> SeenKeys<'a> {
    fn with_room_for(count: usize) -> Self {
        Self { slots: vec![None; (count * 2).next_power_of_two()] }
    }

    /// Whether the key is new.
    fn insert(&mut self, key: &'a CounterKey) -> bool {
        let bytes = key.as_bytes();
        // The tag tells subjects apart, the rest the rules of one subject; the parts that differ most are at their ends.
        let hash = bytes[9..17]
            .iter()
            .zip(&bytes[19..27])
            .fold(0usize, |hash, (a, b)| (hash.rotate_left(5) ^ usize::from(*a) ^ (usize::from(*b) << 8)).wrapping_mul(0x9E37_79B1));
        let mut place = (hash >> 7) & (self.slots.len() - 1);
        while let Some(other) = self.slots[place] {
            if other == key {
                return false;
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
        self.slots[place] = Some(key);
        true
    }
}
