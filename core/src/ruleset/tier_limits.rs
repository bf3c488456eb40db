//! The limit of each tier, looked up by the tier's position.

use crate::decision::Source;
use crate::limit::{Algorithm, Bound, Limit};
use crate::name::Name;
use crate::rule::Rule;

/// What a tier may use: `None` is unlimited.
pub(super) type TierLimit = Option<Bound>;

/// The limits of one rule.
#[derive(Debug)]
pub(super) struct TierLimits {
    /// Sorted by the tier's position.
    named: Box<[(usize, Name, TierLimit)]>,
    any: TierLimit,
}

impl TierLimits {
    /// `position` finds a tier by its name.
    pub(super) fn compile(rule: &Rule, algorithm: Algorithm, position: impl Fn(&Name) -> Option<usize>) -> Self {
        let named = rule.limits.iter().filter_map(|(tier, limit)| {
            let tier = tier.as_ref()?;
            Some((position(tier)?, tier.clone(), bound(*limit, algorithm)))
        });
        let mut named: Vec<_> = named.collect();
        named.sort_unstable_by_key(|(tier, ..)| *tier);
        // Without "*" every tier is named, so that this is never read.
        let any = rule.limits.get(&None).and_then(|limit| bound(*limit, algorithm));
        Self { named: named.into(), any }
    }

    /// The longest window over which units are remembered, in microseconds; 0 if there is none.
    pub(super) fn longest_window_us(&self) -> u64 {
        let bounds = self.named.iter().filter_map(|(_, _, limit)| *limit).chain(self.any);
        // A lease that is forgotten is one in flight too few, and only until then.
        bounds.filter(|bound| bound.algorithm != Algorithm::Concurrency).map(|bound| bound.window_us).max().unwrap_or_default()
    }

    /// The limit of a tier, and where it comes from.
    pub(super) fn of(&self, tier: usize) -> (TierLimit, Source) {
        match self.named.binary_search_by_key(&tier, |(position, ..)| *position) {
            Ok(found) => (self.named[found].2, Source::Tier(self.named[found].1.clone())),
            Err(_) => (self.any, Source::AnyTier),
        }
    }
}

/// What an algorithm makes of a limit.
pub(super) fn bound(limit: Limit, algorithm: Algorithm) -> TierLimit {
    match limit {
        Limit::Unlimited => None,
        Limit::Limited { limit, window, burst } => {
            let (window_us, calendar) = (window.longest_us(), window.calendar());
            Some(Bound { algorithm, limit, capacity: burst.unwrap_or(limit), window_us, calendar })
        }
    }
}
