//! How long to wait before the next try: exponential with full jitter, so that a thousand agents that lost one server do not come back
//! at the same moment.

use std::time::Duration;

use rand::RngExt as _;

/// Counts failures in a row.
#[derive(Debug)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    failures: u32,
}

impl Backoff {
    /// The n-th wait is random between 0 and `base * 2^(n-1)`, never above `cap`.
    #[must_use]
    pub const fn new(base: Duration, cap: Duration) -> Self {
        Self { base, cap, failures: 0 }
    }

    /// The wait after one more failure.
    pub fn next_wait(&mut self) -> Duration {
        let ceiling = self.base.saturating_mul(2u32.saturating_pow(self.failures)).min(self.cap);
        self.failures = self.failures.saturating_add(1);
        jittered(ceiling)
    }

    /// After a success the next wait is short again.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }
}

/// A random time between zero and `ceiling`.
#[must_use]
pub fn jittered(ceiling: Duration) -> Duration {
    ceiling.mul_f64(rand::rng().random_range(0.0..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_cap_and_start_over_after_a_success() {
        let (base, cap) = (Duration::from_millis(100), Duration::from_secs(10));
        let mut backoff = Backoff::new(base, cap);
        let mut longest = Duration::ZERO;
        for n in 0..200u32 {
            let wait = backoff.next_wait();
            assert!(wait <= cap && wait <= base * 2u32.saturating_pow(n.min(20)), "{n}: {wait:?}");
            longest = longest.max(wait);
        }
        assert!(longest > cap / 2, "{longest:?}");
        backoff.reset();
        assert!(backoff.next_wait() <= base);
    }
}
