//! What a server's clock shows, as far as is known here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The clock of one server: it was heard once, and the time since then is counted here. Before that it is at 1970.
///
/// Only for guesses about calendar windows, which the server corrects ([`decode`](super::decode)): this machine's own clock plays no part.
#[derive(Debug)]
pub struct ServerClock {
    started: Instant,
    /// What the server's clock showed at `started`, in microseconds.
    then_us: AtomicU64,
}

impl Default for ServerClock {
    fn default() -> Self {
        Self { started: Instant::now(), then_us: AtomicU64::new(0) }
    }
}

impl ServerClock {
    /// The server has just said what its clock shows.
    pub fn heard(&self, time_us: u64) {
        self.then_us.store(time_us.saturating_sub(self.elapsed_us()), Ordering::Relaxed);
    }

    /// What it shows now.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.then_us.load(Ordering::Relaxed) + self.elapsed_us()
    }

    fn elapsed_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX >> 12)
    }
}
