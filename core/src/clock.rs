//! The one place that reads a clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where time comes from; a test supplies its own.
pub trait Clock: Send + Sync + 'static {
    /// Monotonic time.
    fn now(&self) -> Instant;
    /// Wall-clock time since the epoch. Only for what people and protocols read, never for counting.
    fn wall(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    #[allow(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    fn wall(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}
