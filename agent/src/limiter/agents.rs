//! How many agents share each limit, for the time without a shard.
//!
//! A count that falls is believed only after a while: when the control plane restarts, its agents come back one by one, and each would
//! otherwise take the whole limit for its own.

use std::time::{Duration, Instant};

/// How long a lower count must have been the highest before it counts.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of live agents, damped.
#[derive(Debug)]
pub(super) struct LiveAgents {
    count: u32,
    /// The highest lower count, and since when all counts have been lower.
    lower: Option<(u32, Instant)>,
}

impl LiveAgents {
    pub(super) fn new(count: u32) -> Self {
        Self { count: count.max(1), lower: None }
    }

    /// Takes note of a count.
    pub(super) fn set(&mut self, count: u32, now: Instant) {
        self.settle(now);
        let count = count.max(1);
        if count >= self.count {
            (self.count, self.lower) = (count, None);
        } else {
            let (highest, since) = self.lower.unwrap_or((count, now));
            self.lower = Some((highest.max(count), since));
        }
    }

    /// The count that holds now.
    pub(super) fn get(&mut self, now: Instant) -> u32 {
        self.settle(now);
        self.count
    }

    fn settle(&mut self, now: Instant) {
        if let Some((count, since)) = self.lower
            && now.saturating_duration_since(since) >= PATIENCE
        {
            (self.count, self.lower) = (count, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_count_at_once_and_falls_after_a_while() {
        let start = Instant::now();
        let mut agents = LiveAgents::new(1);
        agents.set(3, start);
        assert_eq!(agents.get(start), 3);
        agents.set(1, start);
        agents.set(2, start + PATIENCE / 2);
        agents.set(1, start + PATIENCE / 2);
        assert_eq!(agents.get(start + PATIENCE / 2), 3);
        // The highest of the lower counts is believed first.
        assert_eq!(agents.get(start + PATIENCE), 2);
        agents.set(0, start + PATIENCE);
        assert_eq!(agents.get(start + 2 * PATIENCE), 1);
    }

    #[test]
    fn a_dip_changes_nothing() {
        let start = Instant::now();
        let mut agents = LiveAgents::new(4);
        agents.set(1, start);
        agents.set(4, start + PATIENCE / 2);
        assert_eq!(agents.get(start + 2 * PATIENCE), 4);
    }
}
