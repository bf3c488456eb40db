//! When a shard is asked: the breaker of one shard.
//!
//! Pure: it is told what happened and when. Closed: calls flow. Open: calls are stopped until a pause is over. HalfOpen: the agent itself
//! connects and probes; the probe's outcome closes or opens. The pause grows while the shard stays away, and does not shrink at once for
//! a shard that comes and goes, so that such a shard costs few requests their exactness.

use std::time::{Duration, Instant};

/// Whether a shard is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls flow.
    Closed,
    /// Calls are stopped.
    Open,
    /// Calls are stopped while the agent probes.
    HalfOpen,
}

impl BreakerState {
    /// The name on the wire and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// One call got no answer in time, or an error of its own. It may be chance.
    Call,
    /// The connection is gone, cannot be made, or leads to a server that cannot count.
    Connection,
}

/// Failed calls in a row that open the breaker, each sent after the one before had failed: calls that were in flight together and met the
/// same hiccup count once.
const CALLS_TO_OPEN: u32 = 3;
/// The longest pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause at all. With a connection attempt and a probe it must stay well below the 5 s in which service is normal again.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// A shard that stayed closed this long starts again from [`FIRST_PAUSE`].
const STEADY: Duration = Duration::from_secs(10);

/// The breaker of one shard.
#[derive(Debug)]
pub(super) struct Breaker {
    state: BreakerState,
    failed_calls: u32,
    /// When the last of them failed.
    failed_at: Instant,
    /// Pauses since the shard was last steady.
    pauses: u32,
    retry_at: Instant,
    closed_since: Instant,
    away_since: Option<Instant>,
}

impl Breaker {
    /// Closed: a new shard is believed to be there.
    pub(super) fn new(now: Instant) -> Self {
        Self { state: BreakerState::Closed, failed_calls: 0, failed_at: now, pauses: 0, retry_at: now, closed_since: now, away_since: None }
    }

    pub(super) fn state(&self) -> BreakerState {
        self.state
    }

    /// A script call was answered. Returns whether the shard had been away until now.
    pub(super) fn succeeded(&mut self, now: Instant) -> bool {
        self.failed_calls = 0;
        let was_away = self.away_since.take().is_some();
        if self.state != BreakerState::Closed {
            self.state = BreakerState::Closed;
            self.closed_since = now;
        }
        was_away
    }

    /// Something failed that was begun at `begun`; `jitter` is a random number from 0 to 1 that spreads the agents' next attempts.
    pub(super) fn failed(&mut self, failure: Failure, begun: Instant, now: Instant, jitter: f64) {
        self.away_since.get_or_insert(now);
        if self.state == BreakerState::Closed && failure == Failure::Call {
            if self.failed_calls > 0 && begun < self.failed_at {
                return;
            }
            (self.failed_calls, self.failed_at) = (self.failed_calls + 1, now);
            if self.failed_calls < CALLS_TO_OPEN {
                return;
            }
        }
        if self.state == BreakerState::Closed && now.duration_since(self.closed_since) >= STEADY {
            self.pauses = 0;
        }
        let longest = FIRST_PAUSE.saturating_mul(1 << self.pauses.min(16)).min(LONGEST_PAUSE);
        self.pauses = self.pauses.saturating_add(1);
        self.failed_calls = 0;
        self.state = BreakerState::Open;
        self.retry_at = now + longest.mul_f64(jitter.clamp(0.0, 1.0));
    }

    /// When the pause is over.
    pub(super) fn retry_at(&self) -> Instant {
        self.retry_at
    }

    /// The pause is over: the agent probes.
    pub(super) fn probe(&mut self) {
        self.state = BreakerState::HalfOpen;
    }

    /// How long the shard has been away: from the first failure to the first script call that is answered.
    pub(super) fn away_for(&self, now: Instant) -> Duration {
        self.away_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_few_failed_calls_are_chance_and_three_in_a_row_are_not() {
        let now = Instant::now();
        let mut breaker = Breaker::new(now);
        for _ in 0..2 {
            breaker.failed(Failure::Call, now, now, 0.5);
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
        breaker.succeeded(now);
        for _ in 0..2 {
            breaker.failed(Failure::Call, now, now, 0.5);
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
        breaker.failed(Failure::Call, now, now, 0.5);
        assert_eq!((breaker.state(), breaker.retry_at()), (BreakerState::Open, now + 25 * MS));
    }

    #[test]
    fn calls_that_met_the_same_hiccup_count_once() {
        let now = Instant::now();
        let mut breaker = Breaker::new(now);
        for call in 0..20 {
            breaker.failed(Failure::Call, now + call * MS / 10, now + 5 * MS, 1.0);
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
        breaker.failed(Failure::Call, now + 6 * MS, now + 11 * MS, 1.0);
        assert_eq!(breaker.state(), BreakerState::Closed);
        breaker.failed(Failure::Call, now + 12 * MS, now + 17 * MS, 1.0);
        assert_eq!(breaker.state(), BreakerState::Open);
    }

    #[test]
    fn a_broken_connection_opens_at_once() {
        let now = Instant::now();
        let mut breaker = Breaker::new(now);
        breaker.failed(Failure::Connection, now, now, 1.0);
        assert_eq!((breaker.state(), breaker.retry_at()), (BreakerState::Open, now + FIRST_PAUSE));
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut now = Instant::now();
        let mut breaker = Breaker::new(now);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            breaker.failed(Failure::Connection, now, now, 1.0);
            pauses.push(breaker.retry_at().duration_since(now).as_millis());
            now = breaker.retry_at();
            breaker.probe();
            assert_eq!(breaker.state(), BreakerState::HalfOpen);
        }
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
    }

    #[test]
    fn a_flapping_shard_keeps_its_long_pauses_and_a_steady_one_loses_them() {
        let mut now = Instant::now();
        let mut breaker = Breaker::new(now);
        for _ in 0..6 {
            breaker.failed(Failure::Connection, now, now, 1.0);
            breaker.probe();
        }
        breaker.succeeded(now);
        now += Duration::from_secs(1);
        breaker.failed(Failure::Connection, now, now, 1.0);
        assert_eq!(breaker.retry_at() - now, LONGEST_PAUSE);
        breaker.probe();
        breaker.succeeded(now);
        now += STEADY;
        breaker.failed(Failure::Connection, now, now, 1.0);
        assert_eq!(breaker.retry_at() - now, FIRST_PAUSE);
    }

    #[test]
    fn away_counts_from_the_first_failure_to_the_first_answer() {
        let start = Instant::now();
        let mut breaker = Breaker::new(start);
        assert_eq!(breaker.away_for(start), Duration::ZERO);
        breaker.failed(Failure::Call, start, start, 0.0);
        breaker.failed(Failure::Connection, start + 3 * MS, start + 3 * MS, 0.0);
        breaker.probe();
        breaker.failed(Failure::Connection, start + 9 * MS, start + 9 * MS, 0.0);
        assert_eq!(breaker.away_for(start + 10 * MS), 10 * MS);
        breaker.probe();
        breaker.succeeded(start + 11 * MS);
        assert_eq!((breaker.away_for(start + 12 * MS), breaker.state()), (Duration::ZERO, BreakerState::Closed));
    }

    #[test]
    fn a_probe_without_answer_reopens() {
        let now = Instant::now();
        let mut breaker = Breaker::new(now);
        breaker.failed(Failure::Connection, now, now, 0.0);
        breaker.probe();
        breaker.failed(Failure::Call, now, now, 1.0);
        assert_eq!(breaker.state(), BreakerState::Open);
        assert!(breaker.retry_at() > now);
    }
}
