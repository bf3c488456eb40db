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

/// Under which key each is held, and until when, by the lease and its own key: rules of one request share the lease.
#[derive(Debug, Default)]
pub(super) struct SharedLeases(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    leases: HashMap<(LeaseId, CounterKey), (CounterKey, Instant)>,
    cleared: Option<Instant>,
}

impl SharedLeases {
    /// Notes that a lease of `own` is held under `shared`, where it expires at `until` if nobody releases it.
    pub(super) fn note(&self, lease: LeaseId, own: CounterKey, shared: CounterKey, until: Instant, now: Instant) {
        let mut held = self.0.lock();
        if held.leases.len() >= MOST && held.cleared.is_none_or(|cleared| now >= cleared + CLEARED) {
            held.leases.retain(|_, (_, until)| *until > now);
            held.cleared = Some(now);
        }
        if held.leases.len() < MOST {
            held.leases.insert((lease, own), (shared, until));
        }
    }

    /// Where a lease of `own` that ends is held.
    pub(super) fn end(&self, lease: LeaseId, own: CounterKey) -> CounterKey {
        self.0.lock().leases.remove(&(lease, own)).map_or(own, |(shared, _)| shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::key::{HashSecret, Tag, counter_key};

    #[test]
    fn leases_that_live_outlast_those_that_expired() {
        let secret = HashSecret::built_in();
        let key = |rule: &str| counter_key(&secret, Tag::of_rule(&secret, "default", rule, &[]), rule, &[]);
        let (own, shared) = (key("own"), key("shared"));
        let lease = |n: usize| LeaseId::new((n as u128).to_be_bytes());
        let (leases, now) = (SharedLeases::default(), Instant::now());
        leases.note(lease(0), own, shared, now + 10 * CLEARED, now);
        for n in 1..MOST {
            leases.note(lease(n), own, shared, now + CLEARED, now);
        }
        // Full of what lives: one more is not remembered, and nothing is forgotten for it.
        leases.note(lease(MOST), own, shared, now + CLEARED, now);
        assert_eq!(leases.end(lease(MOST), own), own);
        // Full of what expired.
        let later = now + CLEARED;
        leases.note(lease(MOST + 1), own, shared, later + CLEARED, later);
        assert_eq!(leases.end(lease(0), key("other")), key("other"), "the same lease of another rule");
        let known = [0, 1, MOST - 1, MOST + 1].map(|n| leases.end(lease(n), own) == shared);
        assert_eq!(known, [true, false, false, true]);
        assert_eq!(leases.end(lease(0), own), own, "it has ended");
    }
}
