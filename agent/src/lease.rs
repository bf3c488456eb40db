//! What an acquire holds of `concurrency` limits, until it is released or expires.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use weir_core::decision::{Decision, LimitDecision, Reason};
use weir_core::failure::FailureMode;
use weir_core::key::CounterKey;
use weir_core::lease::LeaseId;
use weir_core::limit::Algorithm;
use weir_core::ruleset::MAX_LIMITS;

use crate::limiter::Limiter;
use crate::limiter::store::Release;

/// The format of the token, its first character.
const VERSION: char = '1';
/// 16 bytes in base64url.
const ID_LENGTH: usize = 22;
/// A counter's key without its braces.
const KEY_LENGTH: usize = 26;

/// A unit of each `concurrency` rule that applied to a request, under one name.
///
/// It is written as an opaque token of 49 characters, and 26 more for each further rule: the name (128 random bits) and the counters. Any agent
/// on the same ring can release it. Whoever makes up a token can release nothing, since nothing is held under a name that they can guess.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    id: LeaseId,
    /// 1 to [`MAX_LIMITS`].
    keys: Vec<CounterKey>,
}

/// A text that is no lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not a lease that an agent gave out")]
pub struct NoLease;

impl Lease {
    /// What `decision` acquired under `id`, if anything.
    pub(crate) fn of(id: LeaseId, decision: &Decision) -> Option<Self> {
        let held = decision.limits.iter().filter(|limit| decision.allowed() && holds(limit));
        let keys: Vec<CounterKey> = held.filter_map(|limit| limit.key).collect();
        (!keys.is_empty()).then_some(Self { id, keys })
    }

    pub(crate) fn releases(&self) -> Vec<Release> {
        self.keys.iter().map(|key| Release { key: *key, lease: self.id }).collect()
    }
}

/// Whether an allowed request holds a unit of this limit.
pub(crate) fn holds(limit: &LimitDecision) -> bool {
    let counted = limit.degraded.is_none_or(|degraded| degraded.mode == FailureMode::Local);
    limit.algorithm == Algorithm::Concurrency && limit.cost > 0 && limit.reason == Reason::Ok && counted && limit.key.is_some()
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}{}", URL_SAFE_NO_PAD.encode(self.id.as_bytes()))?;
        self.keys.iter().try_for_each(|key| write!(f, "{}{}", &key.as_str()[1..17], &key.as_str()[18..]))
    }
}

impl FromStr for Lease {
    type Err = NoLease;

    fn from_str(text: &str) -> Result<Self, NoLease> {
        let rest = text.strip_prefix(VERSION).filter(|rest| rest.is_ascii()).ok_or(NoLease)?;
        let (id, keys) = rest.split_at_checked(ID_LENGTH).ok_or(NoLease)?;
        let id = URL_SAFE_NO_PAD.decode(id).map_err(|_| NoLease)?;
        let id = LeaseId::new(id.try_into().map_err(|_| NoLease)?);
        if keys.is_empty() || !keys.len().is_multiple_of(KEY_LENGTH) || keys.len() > MAX_LIMITS * KEY_LENGTH {
            return Err(NoLease);
        }
        let key = |start: usize| CounterKey::from_parts(&keys[start..start + 16], &keys[start + 16..start + KEY_LENGTH]).ok_or(NoLease);
        let keys = (0..keys.len()).step_by(KEY_LENGTH).map(key).collect::<Result<_, _>>()?;
        Ok(Self { id, keys })
    }
}

/// Holds what was acquired, and releases it when it is dropped: without waiting, and at most once.
#[must_use = "what it holds is released when it is dropped"]
pub struct LeaseGuard {
    limiter: Arc<Limiter>,
    releases: Vec<Release>,
}

impl LeaseGuard {
    pub(crate) const fn new(limiter: Arc<Limiter>, releases: Vec<Release>) -> Self {
        Self { limiter, releases }
    }

    /// Lets go without releasing: somebody else will, or it expires.
    pub fn disarm(mut self) {
        self.releases.clear();
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        if !self.releases.is_empty() {
            self.limiter.release_later(&self.releases);
        }
    }
}

impl fmt::Debug for LeaseGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseGuard").field("holds", &self.releases.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use weir_core::key::{HashSecret, Tag, counter_key};

    use super::*;

    fn lease(keys: usize) -> Lease {
        let secret = HashSecret::built_in();
        let key = |i: usize| counter_key(&secret, Tag::of_rule(&secret, "d", &format!("r{i}"), &[]), "r", &[]);
        Lease { id: LeaseId::new([7; 16]), keys: (0..keys).map(key).collect() }
    }

    #[test]
    fn tokens_read_as_they_are_written() {
        for keys in [1, 2, MAX_LIMITS] {
            let token = lease(keys).to_string();
            assert_eq!(token.len(), 1 + ID_LENGTH + keys * KEY_LENGTH);
            assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{token}");
            assert_eq!(token.parse(), Ok(lease(keys)));
        }
    }

    #[test]
    fn what_no_agent_gave_out_is_refused() {
        let good = lease(1).to_string();
        let edited = |place: usize, with: &str| format!("{}{with}{}", &good[..place], &good[place + 1..]);
        for bad in [
            "",
            "1",
            &good[1..],
            &good[..good.len() - 1],
            &good[..1 + ID_LENGTH],
            &format!("{good}A"),
            &edited(0, "2"),
            &edited(3, "+"),
            &edited(ID_LENGTH, "_"),
            &edited(30, "{"),
            &edited(30, "é"),
            // Another format of counters.
            &edited(good.len() - 1, "C"),
            &lease(MAX_LIMITS + 1).to_string(),
        ] {
            assert_eq!(bad.parse::<Lease>(), Err(NoLease), "{bad}");
        }
    }
}
