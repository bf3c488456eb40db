//! What comes back from the script. Every byte is checked: a reply that the script cannot have said is an error, never an allow.

use weir_core::algorithm::fixed_window::FixedWindow;
use weir_core::algorithm::token_bucket::TokenBucket;
use weir_core::counter::{CounterCall, CounterReply};
use weir_core::limit::Algorithm;

use super::{Refund, StoreError};

const PASSES: u8 = 1;
const REPLACED: u8 = 2;
/// Not flags, but: it passes, and what follows is the state under the key.
const STATE: u8 = 4;
/// The request was not decided, because of a calendar's windows; nothing follows.
const STALE_EDGES: u8 = 5;
/// There is no counter, and none was created; nothing follows.
const UNCOUNTED: u8 = 6;

/// 2^53: the largest whole number that the script can count to.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// What a server said to a batch of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// A reply per limit of each request. `None` if the request was not decided, because the windows that came with it are not those around
    /// the server's time: nothing of it was written, and it may be sent again.
    pub replies: Vec<Option<Vec<CounterReply>>>,
    /// The server's clock at the call, in microseconds since the epoch.
    pub time_us: u64,
}

/// Reads the reply to [`encode`](super::encode)d `requests`.
///
/// # Errors
/// [`StoreError::Reply`] unless every byte is what the script can have said.
pub fn decode(requests: &[&[CounterCall]], reply: &[u8]) -> Result<Decoded, StoreError> {
    let count: usize = requests.iter().map(|request| request.len()).sum();
    let (time, rest) = reply.split_at_checked(8).ok_or(CUT_OFF)?;
    let (marks, mut rest) = rest.split_at_checked(count).ok_or(CUT_OFF)?;
    let time_us = whole(time)?;
    let mut marks = marks;
    let replies = requests.iter().map(|request| {
        let marks = take(&mut marks, request.len())?;
        read_request(request, marks, &mut rest, time_us)
    });
    let replies = replies.collect::<Result<_, _>>()?;
    if rest.is_empty() { Ok(Decoded { replies, time_us }) } else { Err(StoreError::Reply("it is longer than the batch")) }
}

fn read_request(calls: &[CounterCall], marks: &[u8], rest: &mut &[u8], time_us: u64) -> Result<Option<Vec<CounterReply>>, StoreError> {
    if !marks.is_empty() && marks.iter().all(|mark| *mark == STALE_EDGES) {
        let follows_calendar = calls.iter().any(|call| call.bound.calendar.is_some());
        return if follows_calendar { Ok(None) } else { Err(StoreError::Reply("there are no edges to be stale")) };
    }
    let read = calls.iter().zip(marks).map(|(call, mark)| match *mark {
        STATE => read_state(call, rest, time_us),
        UNCOUNTED if call.may_create || call.cost == 0 => Err(StoreError::Reply("a counter was not created that may be")),
        UNCOUNTED => Ok(CounterReply { uncounted: true, ..CounterReply::passed(call.bound.capacity, 0, time_us) }),
        flags => read_call(call, flags, take(rest, 24)?, time_us),
    });
    read.collect::<Result<_, _>>().map(Some)
}

/// Reads the reply to [`encode_resets`](super::encode_resets) of so many: whether there was one.
///
/// # Errors
/// [`StoreError::Reply`] unless every byte is what the script can have said.
pub fn decode_done(count: usize, reply: &[u8]) -> Result<Vec<bool>, StoreError> {
    if reply.len() != count || reply.iter().any(|byte| *byte > 1) {
        return Err(StoreError::Reply("it does not say yes or no to each"));
    }
    Ok(reply.iter().map(|byte| *byte == 1).collect())
}

/// Reads the reply to [`encode_refunds`](super::encode_refunds): the units that each refund gave back.
///
/// # Errors
/// [`StoreError::Reply`] unless every byte is what the script can have said.
pub fn decode_refunds(refunds: &[Refund], reply: &[u8]) -> Result<Vec<u64>, StoreError> {
    if reply.len() != refunds.len() * 8 {
        return Err(StoreError::Reply("its length does not fit the refunds"));
    }
    let given = refunds.iter().zip(reply.chunks_exact(8)).map(|(refund, bytes)| match whole(bytes)? {
        given if given <= refund.units => Ok(given),
        _ => Err(StoreError::Reply("more units came back than were consumed")),
    });
    given.collect()
}

const CUT_OFF: StoreError = StoreError::Reply("it is shorter than the batch");

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], StoreError> {
    let (one, next) = rest.split_at_checked(length).ok_or(CUT_OFF)?;
    *rest = next;
    Ok(one)
}

fn read_call(call: &CounterCall, flags: u8, bytes: &[u8], time_us: u64) -> Result<CounterReply, StoreError> {
    let remaining = whole(&bytes[..8])?;
    let reset_after_us = whole(&bytes[8..16])?;
    let allowed = flags & PASSES != 0;
    if flags & !(PASSES | REPLACED) != 0 {
        return Err(StoreError::Reply("a flag is unknown"));
    }
    if remaining > call.bound.capacity {
        return Err(StoreError::Reply("more is left than the capacity"));
    }
    let retry_after_us = match double(&bytes[16..])? {
        -1.0 => None,
        _ => Some(whole(&bytes[16..])?),
    };
    if allowed != (retry_after_us == Some(0)) {
        return Err(StoreError::Reply("retry-after contradicts the decision"));
    }
    Ok(CounterReply { allowed, remaining, reset_after_us, retry_after_us, time_us, replaced: flags & REPLACED != 0, uncounted: false })
}

/// Reads the state that a call has left, and works out what it means.
fn read_state(call: &CounterCall, rest: &mut &[u8], time_us: u64) -> Result<CounterReply, StoreError> {
    let reply = match call.bound.algorithm {
        Algorithm::TokenBucket => {
            let bytes = take(rest, 12)?;
            let (used, step) = (integer(&bytes[..6]) as f64 / 65_536.0, integer(&bytes[6..]));
            TokenBucket { used, step }.passed(&call.bound, time_us)
        }
        Algorithm::FixedWindow => {
            let bytes = take(rest, 20)?;
            let (count, start, window) = (integer(&bytes[..7]), integer(&bytes[7..14]), integer(&bytes[14..]));
            FixedWindow { count, start, window }.passed(&call.bound, time_us)
        }
        Algorithm::SlidingWindow | Algorithm::SlidingLog | Algorithm::Concurrency => None,
    };
    reply.ok_or(StoreError::Reply("a state contradicts the decision"))
}

/// A little-endian integer of at most seven bytes.
fn integer(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn double(bytes: &[u8]) -> Result<f64, StoreError> {
    bytes.try_into().map(f64::from_le_bytes).map_err(|_| StoreError::Reply("a number is cut off"))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
fn whole(bytes: &[u8]) -> Result<u64, StoreError> {
    let value = double(bytes)?;
    if (0.0..=EXACT).contains(&value) && value.fract() == 0.0 {
        Ok(value as u64)
    } else {
        Err(StoreError::Reply("a number is not a whole number"))
    }
}

#[cfg(test)]
mod tests {
    use weir_core::key::{HashSecret, Tag, counter_key};
    use weir_core::limit::{Algorithm, Bound};

    use super::*;

    fn call() -> CounterCall {
        let key = counter_key(&HashSecret::built_in(), Tag::of_rule(&HashSecret::built_in(), "d", "r", &[]), "r", &[]);
        let bound = Bound { algorithm: Algorithm::TokenBucket, limit: 10, capacity: 10, window_us: 1_000_000, calendar: None };
        CounterCall::check(key, bound, 1)
    }

    const NOW: u64 = 1_796_052_110_273_282;

    fn reply(flags: u8, remaining: f64, reset: f64, retry: f64) -> Vec<u8> {
        let mut bytes = (NOW as f64).to_le_bytes().to_vec();
        bytes.push(flags);
        for value in [remaining, reset, retry] {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn replies_are_read() {
        let call = call();
        let calls = std::slice::from_ref(&call);
        let read = |bytes: &[u8]| decode(&[calls], bytes).map(|decoded| decoded.replies[0].as_ref().unwrap()[0]);
        let allowed = CounterReply {
            allowed: true,
            remaining: 9,
            reset_after_us: 100_000,
            retry_after_us: Some(0),
            time_us: 1_796_052_110_273_282,
            replaced: true,
            uncounted: false,
        };
        assert_eq!(read(&reply(3, 9.0, 100_000.0, 0.0)).unwrap(), allowed);
        let never = CounterReply { allowed: false, remaining: 3, reset_after_us: 5, retry_after_us: None, replaced: false, ..allowed };
        assert_eq!(read(&reply(0, 3.0, 5.0, -1.0)).unwrap(), never);
        assert_eq!(read(&reply(0, 3.0, 5.0, 7.0)).unwrap(), CounterReply { retry_after_us: Some(7), ..never });
    }

    /// A reply with the state of a bucket: used units and time in steps.
    fn state(mark: u8, used: u64, step: u64) -> Vec<u8> {
        let mut bytes = (NOW as f64).to_le_bytes().to_vec();
        bytes.push(mark);
        bytes.extend_from_slice(&(used << 16).to_le_bytes()[..6]);
        bytes.extend_from_slice(&step.to_le_bytes()[..6]);
        bytes
    }

    #[test]
    fn a_state_says_the_rest() {
        let call = call();
        let calls = std::slice::from_ref(&call);
        let read = |bytes: &[u8]| decode(&[calls], bytes).map(|decoded| decoded.replies[0].as_ref().unwrap()[0]).unwrap();
        let passed = read(&state(4, 4, NOW / 16));
        assert_eq!((passed.allowed, passed.remaining, passed.retry_after_us), (true, 6, Some(0)));
        // Four units drain in 0.4 s, counted from the start of the current step.
        assert_eq!(passed.reset_after_us, 400_000 - NOW % 16);
    }

    /// BB-16: what the script cannot have said is an error, never "allowed, remaining -1".
    #[test]
    fn bb_16_an_unreadable_reply_is_an_error() {
        let call = call();
        let calls = std::slice::from_ref(&call);
        let good = reply(1, 9.0, 100_000.0, 0.0);
        for bad in [
            Vec::new(),
            good[..good.len() - 1].to_vec(),
            [good.clone(), vec![0]].concat(),
            reply(1, -1.0, 0.0, 0.0),
            reply(1, 11.0, 0.0, 0.0),
            reply(1, 0.5, 0.0, 0.0),
            reply(1, f64::NAN, 0.0, 0.0),
            reply(1, 1.0, f64::INFINITY, 0.0),
            reply(1, 1.0, 1e17, 0.0),
            reply(1, 1.0, 0.0, 5.0),
            reply(0, 1.0, 0.0, 0.0),
            reply(1, 1.0, 0.0, -1.0),
            reply(0, 1.0, 0.0, -2.0),
            reply(4, 1.0, 0.0, 5.0),
            state(4, 10, NOW / 16)[..20].to_vec(),
            [state(4, 10, NOW / 16), vec![0]].concat(),
            state(4, 11, NOW / 16),
            state(4, 9, NOW / 16 + 1),
            state(4, 9, NOW / 16 - 1),
            state(5, 9, NOW / 16),
            state(5, 9, NOW / 16)[..9].to_vec(),
            state(6, 9, NOW / 16)[..9].to_vec(),
        ] {
            assert!(matches!(decode(&[calls], &bad), Err(StoreError::Reply(_))), "{bad:?}");
        }
        assert!(decode(&[calls], &good).is_ok());
        assert!(decode(&[calls, calls], &good).is_err());
    }
}
