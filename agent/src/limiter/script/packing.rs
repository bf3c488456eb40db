//! What goes to the script: one key per limit and one binary argument, laid out as `lua/batch.lua` says.

use weir_core::counter::{Action, CounterCall};
use weir_core::key::CounterKey;
use weir_core::limit::{Algorithm, Bound};

use super::{Refund, sha1};

const CHECK: u8 = 1;
const REFUND: u8 = 2;
const RESET: u8 = 3;

const SHADOW: u8 = 1;
const LAST_OF_REQUEST: u8 = 2;
const KEY_OCCURRED: u8 = 4;
const LOOKS: u8 = 8;
const RECORDS: u8 = 16;
const CREATES_NOTHING: u8 = 32;
const HAS_LEASE: u8 = 64;

/// The `EVALSHA` command for a batch of requests with at least one and at most [`MAX_CALLS`](super::MAX_CALLS) limits in all;
/// [`decode`](super::decode) reads its reply. `server_us` is what the server's clock shows, as far as is known: calendar windows are sent as
/// they are around that time.
#[must_use]
pub fn encode(requests: &[&[CounterCall]], server_us: u64) -> redis::Cmd {
    let count = requests.iter().map(|request| request.len()).sum();
    let mut seen = SeenKeys::with_room_for(count);
    let mut bounds = Distinct::default();
    let mut shapes = Distinct::default();
    let mut calls = Vec::with_capacity(count);
    let mut leases = Vec::new();
    for request in requests {
        for (place, call) in request.iter().enumerate() {
            let mut flags = flags_of(call);
            if let Some(lease) = call.lease.filter(|_| flags & HAS_LEASE != 0) {
                leases.extend_from_slice(lease.as_bytes());
            }
            if place + 1 == request.len() {
                flags |= LAST_OF_REQUEST;
            }
            if !seen.insert(&call.key) {
                flags |= KEY_OCCURRED;
            }
            calls.push(shapes.number_of(Shape { flags, bound: bounds.number_of(call.bound), cost: call.units() }));
        }
    }
    let mut tail = Vec::with_capacity(1 + shapes.seen.len() * 10 + count + leases.len());
    tail.push(number(shapes.seen.len()));
    for shape in &shapes.seen {
        tail.extend_from_slice(&[shape.flags, shape.bound]);
        tail.extend_from_slice(&(shape.cost as f64).to_le_bytes());
    }
    tail.extend_from_slice(&calls);
    tail.extend_from_slice(&leases);
    command(count, requests.iter().copied().flatten().map(|call| &call.key), CHECK, &packed(&bounds, Some(server_us)), &tail)
}

const fn flags_of(call: &CounterCall) -> u8 {
    let mut flags = 0;
    if call.shadow {
        flags |= SHADOW;
    }
    if matches!(call.action, Action::Record) {
        flags |= RECORDS;
    }
    if !call.may_create && call.cost > 0 && call.bound.limit > 0 {
        flags |= CREATES_NOTHING;
    }
    if !call.writes() {
        flags |= LOOKS;
    } else {
        if matches!(call.bound.algorithm, Algorithm::Concurrency) {
            flags |= HAS_LEASE;
        }
    }
    flags
}

/// The `EVALSHA` command for at least one and at most [`MAX_CALLS`](super::MAX_CALLS) refunds;
/// [`decode_refunds`](super::decode_refunds) reads its reply.
#[must_use]
pub fn encode_refunds(refunds: &[Refund]) -> redis::Cmd {
    const NONE: [u8; 16] = [0; 16];
    let mut bounds = Distinct::default();
    let mut calls = Vec::with_capacity(refunds.len() * 33);
    for refund in refunds {
        calls.push(bounds.number_of(refund.bound));
        // Without a lease there is nothing to end.
        let leaseless = refund.bound.algorithm == Algorithm::Concurrency && refund.lease.is_none();
        let units = if leaseless { 0 } else { refund.units };
        calls.extend_from_slice(&(units as f64).to_le_bytes());
        calls.extend_from_slice(&(refund.time_us as f64).to_le_bytes());
        calls.extend_from_slice(refund.lease.as_ref().map_or(&NONE, |lease| lease.as_bytes()));
    }
    command(refunds.len(), refunds.iter().map(|refund| &refund.key), REFUND, &packed(&bounds, None), &calls)
}

/// The `EVALSHA` command that clears at least one and at most [`MAX_CALLS`](super::MAX_CALLS) counters;
/// [`decode_done`](super::decode_done) reads its reply.
#[must_use]
pub fn encode_resets(keys: &[CounterKey]) -> redis::Cmd {
    command(keys.len(), keys.iter(), RESET, &[0], &[])
}

/// The bounds of a call, with their number; with the windows around `server_us` for those that follow a calendar.
fn packed(bounds: &Distinct<Bound>, server_us: Option<u64>) -> Vec<u8> {
    let mut packed = Vec::with_capacity(1 + bounds.seen.len() * 65);
    packed.push(number(bounds.seen.len()));
    for bound in &bounds.seen {
        let edges = bound.calendar.zip(server_us).map(|(calendar, now)| calendar.edges(now));
        packed.push(if edges.is_some() && bound.limit > 0 { CALENDAR } else { algorithm_number(bound) });
        for value in [bound.limit, bound.capacity, bound.window_us] {
            packed.extend_from_slice(&(value as f64).to_le_bytes());
        }
        for edge in edges.iter().flatten().filter(|_| bound.limit > 0) {
            packed.extend_from_slice(&(*edge as f64).to_le_bytes());
        }
    }
    packed
}

fn command<'a>(count: usize, keys: impl Iterator<Item = &'a CounterKey>, operation: u8, bounds: &[u8], calls: &[u8]) -> redis::Cmd {
    let mut argument = Vec::with_capacity(1 + bounds.len() + calls.len());
    argument.push(operation);
    argument.extend_from_slice(bounds);
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
        Algorithm::SlidingLog => 4,
        Algorithm::Concurrency => 5,
    }
}

/// A fixed window whose edges come with it.
const CALENDAR: u8 = 6;

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
