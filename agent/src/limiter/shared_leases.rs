//! Leases that are held under another key than their own: those of callers who share the counter of a rule.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_core::key::CounterKey;
use weir_core::lease::LeaseId;

/// The most leases that are remembered. One more is released by nobody: it expires after its window.
const MOST: usize = 16_384;
/// How often what has expired is cleared away where room is needed.
const CLEARED: Duration = Duration::from_secs(1);

/// Under which key each is held, and until when.
#[derive(Debug, Default)]
pub(super) struct SharedLeases(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    leases: HashMap<LeaseId, (CounterKey, Instant)>,
    cleared: Option<Instant>,
}

impl SharedLeases {
    /// Notes a lease that expires at `until` if nobody releases it.
    pub(super) fn note(&self, lease: LeaseId, key: CounterKey, until: Instant, now: Instant) {
        let mut held = self.0.lock();
        if held.leases.len() >= MOST && held.cleared.is_none_or(|cleared| now >= cleared + CLEARED) {
            held.leases.retain(|_, (_, until)| *until > now);
            held.cleared = Some(now);
        }
        if held.leases.len() < MOST {
            held.leases.insert(lease, (key, until));
        }
    }

    /// The key of a lease that ends.
    pub(super) fn end(&self, lease: &LeaseId) -> Option<CounterKey> {
        self.0.lock().leases.remove(lease).map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::key::{HashSecret, Tag, counter_key};

    #[test]
    fn leases_that_live_outlast_those_that_expired() {
        let secret = HashSecret::built_in();
        let key = counter_key(&secret, Tag::of_rule(&secret, "default", "rule", &[]), "rule", &[]);
        let lease = |n: usize| LeaseId::new((n as u128).to_be_bytes());
        let (leases, now) = (SharedLeases::default(), Instant::now());
        leases.note(lease(0), key, now + 10 * CLEARED, now);
        for n in 1..MOST {
            leases.note(lease(n), key, now + CLEARED, now);
        }
        // Full of what lives: one more is not remembered, and nothing is forgotten for it.
        leases.note(lease(MOST), key, now + CLEARED, now);
        assert_eq!(leases.end(&lease(MOST)), None);
        // Full of what expired.
        let later = now + CLEARED;
        leases.note(lease(MOST + 1), key, later + CLEARED, later);
        let known = [0, 1, MOST - 1, MOST + 1].map(|n| leases.end(&lease(n)).is_some());
        assert_eq!(known, [true, false, false, true]);
        assert_eq!(leases.end(&lease(0)), None, "it has ended");
    }
}
