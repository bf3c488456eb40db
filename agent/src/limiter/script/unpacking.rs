//! What comes back from the script. Every byte is checked: a reply that the script cannot have said is an error, never an allow.

use weir_core::counter::{CounterCall, CounterReply};

use super::{Refund, StoreError};

const PASSES: u8 = 1;
const REPLACED: u8 = 2;

/// 2^53: the largest whole number that the script can count to.
const EXACT: f64 = 9_007_199_254_740_992.0;
const CALL_LENGTH: usize = 25;

/// Reads the reply to [`encode`](super::encode)d `requests`.
///
/// # Errors
/// [`StoreError::Reply`] unless every byte is what the script can have said.
pub fn decode(requests: &[&[CounterCall]], reply: &[u8]) -> Result<Vec<Vec<CounterReply>>, StoreError> {
    let count: usize = requests.iter().map(|request| request.len()).sum();
    if reply.len() != 8 + count * CALL_LENGTH {
        return Err(StoreError::Reply("its length does not fit the batch"));
    }
    let (time, mut rest) = reply.split_at(8);
    let time_us = whole(time)?;
    requests
        .iter()
        .map(|request| {
            let replies = request.iter().map(|call| {
                let (one, next) = rest.split_at(CALL_LENGTH);
                rest = next;
                read_call(call, one, time_us)
            });
            replies.collect()
        })
        .collect()
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

fn read_call(call: &CounterCall, bytes: &[u8], time_us: u64) -> Result<CounterReply, StoreError> {
    let flags = bytes[0];
    let remaining = whole(&bytes[1..9])?;
    let reset_after_us = whole(&bytes[9..17])?;
    let allowed = flags & PASSES != 0;
    if flags & !(PASSES | REPLACED) != 0 {
        return Err(StoreError::Reply("a flag is unknown"));
    }
    if remaining > call.bound.capacity {
        return Err(StoreError::Reply("more is left than the capacity"));
    }
    let retry_after_us = match double(&bytes[17..25])? {
        -1.0 => None,
        _ => Some(whole(&bytes[17..25])?),
    };
    if allowed != (retry_after_us == Some(0)) {
        return Err(StoreError::Reply("retry-after contradicts the decision"));
    }
    Ok(CounterReply { allowed, remaining, reset_after_us, retry_after_us, time_us, replaced: flags & REPLACED != 0 })
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
        let bound = Bound { algorithm: Algorithm::TokenBucket, limit: 10, capacity: 10, window_us: 1_000_000 };
        CounterCall { key, bound, cost: 1, shadow: false }
    }

    fn reply(flags: u8, remaining: f64, reset: f64, retry: f64) -> Vec<u8> {
        let mut bytes = 1_796_052_110_273_282.0f64.to_le_bytes().to_vec();
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
        let read = |bytes: &[u8]| decode(&[calls], bytes).map(|replies| replies[0][0]);
        let allowed = CounterReply {
            allowed: true,
            remaining: 9,
            reset_after_us: 100_000,
            retry_after_us: Some(0),
            time_us: 1_796_052_110_273_282,
            replaced: true,
        };
        assert_eq!(read(&reply(3, 9.0, 100_000.0, 0.0)).unwrap(), allowed);
        let never = CounterReply { allowed: false, remaining: 3, reset_after_us: 5, retry_after_us: None, replaced: false, ..allowed };
        assert_eq!(read(&reply(0, 3.0, 5.0, -1.0)).unwrap(), never);
        assert_eq!(read(&reply(0, 3.0, 5.0, 7.0)).unwrap(), CounterReply { retry_after_us: Some(7), ..never });
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
        ] {
            assert!(matches!(decode(&[calls], &bad), Err(StoreError::Reply(_))), "{bad:?}");
        }
        assert!(decode(&[calls], &good).is_ok());
        assert!(decode(&[calls, calls], &good).is_err());
    }
}
