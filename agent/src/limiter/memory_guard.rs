//! Whether a shard's memory has room for new counters.

/// Above this share of the limit, in percent, no counters are created for clients that can invent them.
const GUARD_ABOVE: u128 = 85;
/// Below this share all is as before.
const FREE_BELOW: u128 = 75;

/// The memory of one server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes in use.
    pub used: u64,
    /// Bytes that it may fill; `None`: nothing limits it.
    pub limit: Option<u64>,
    /// Whether new counters are kept out.
    pub guarded: bool,
}

impl MemoryUse {
    /// The state after another look; between the two shares it stays as it was.
    pub(super) fn next(self, used: u64, limit: Option<u64>) -> Self {
        let guarded = limit.is_some_and(|limit| {
            let (used, limit) = (u128::from(used) * 100, u128::from(limit));
            used > limit * GUARD_ABOVE || self.guarded && used >= limit * FREE_BELOW
        });
        Self { used, limit, guarded }
    }

    /// Two servers as one.
    pub(super) fn and(self, other: Self) -> Self {
        let limit = self.limit.zip(other.limit).map(|(a, b)| a.saturating_add(b));
        Self { used: self.used.saturating_add(other.used), limit, guarded: self.guarded || other.guarded }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_comes_above_85_percent_and_goes_below_75() {
        let mut memory = MemoryUse::default();
        let mut seen = Vec::new();
        for used in [84, 85, 86, 80, 75, 74, 80, 90] {
            memory = memory.next(used, Some(100));
            seen.push(memory.guarded);
        }
        assert_eq!(seen, [false, false, true, true, true, false, false, true]);
        assert!(!memory.next(u64::MAX, None).guarded);
        assert!(MemoryUse::default().next(u64::MAX, Some(u64::MAX)).guarded);
    }
}
