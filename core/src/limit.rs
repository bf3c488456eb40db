//! How much may pass: the limit of one tier in one rule, and the algorithm that counts it.

use std::fmt;

use serde::Serialize;

use crate::calendar::Calendar;
use crate::span::Span;

/// The largest limit, burst and cost: the largest whole number that a double holds exactly, less one, because Redis' Lua has only doubles.
pub const MAX_UNITS: u64 = (1 << 53) - 1;
/// The largest limit of an algorithm that remembers every request or lease on its own: `sliding_log` and `concurrency`.
pub const MAX_LOGGED: u64 = 10_000;
/// The shortest window.
pub const MIN_WINDOW: Span = Span::from_secs(1);
/// The longest window: 366 days.
pub const MAX_WINDOW: Span = Span::from_secs(366 * 86_400);

/// How units are counted. The semantics are in [`crate::algorithm`] and `lua/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Default)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Algorithm {
    /// Continuous refill of `limit/window` up to a capacity of `burst`.
    #[default]
    TokenBucket,
    /// At most `limit` in every window that ends now, in 60 slots.
    SlidingWindow,
    /// At most `limit` in every window that ends now, to the microsecond.
    SlidingLog,
    /// At most `limit` in each window, aligned to the epoch or to a calendar.
    FixedWindow,
    /// At most `limit` in flight: leases that are given back, or expire after a window.
    Concurrency,
}

impl Algorithm {
    /// Every algorithm, in the order in which they are documented.
    pub const ALL: [Self; 5] = [Self::TokenBucket, Self::SlidingWindow, Self::SlidingLog, Self::FixedWindow, Self::Concurrency];

    /// The name in rules, API and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TokenBucket => "token_bucket",
            Self::SlidingWindow => "sliding_window",
            Self::SlidingLog => "sliding_log",
            Self::FixedWindow => "fixed_window",
            Self::Concurrency => "concurrency",
        }
    }

    /// The largest limit that it can count to.
    #[must_use]
    pub const fn max_limit(self) -> u64 {
        match self {
            Self::TokenBucket | Self::SlidingWindow | Self::FixedWindow => MAX_UNITS,
            Self::SlidingLog | Self::Concurrency => MAX_LOGGED,
        }
    }
}

/// What one tier may use of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// No limit at all for this tier.
    Unlimited,
    /// At most `limit` units per `window`; a limit of 0 blocks.
    Limited {
        /// Units per window, 0 to [`MAX_UNITS`]. 0 refuses everything as `blocked`.
        limit: u64,
        /// The window.
        window: Window,
        /// Capacity of a token bucket, 1 to [`MAX_UNITS`]; `limit` if absent. Only for `token_bucket`.
        burst: Option<u64>,
    },
}

/// The time in which the units of a limit may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Window {
    /// Of this length, [`MIN_WINDOW`] to [`MAX_WINDOW`].
    Span(Span),
    /// A minute, hour, day, week or month of a calendar. Only for `fixed_window`.
    Calendar(Calendar),
}

impl Window {
    /// Its length in microseconds; of a calendar's windows the longest.
    #[must_use]
    pub const fn longest_us(self) -> u64 {
        match self {
            Self::Span(span) => span.as_micros(),
            Self::Calendar(calendar) => calendar.unit.longest_us(),
        }
    }

    /// The calendar, if the window is one's.
    #[must_use]
    pub const fn calendar(self) -> Option<Calendar> {
        match self {
            Self::Span(_) => None,
            Self::Calendar(calendar) => Some(calendar),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Span(span) => span.fmt(f),
            Self::Calendar(calendar) => calendar.fmt(f),
        }
    }
}

/// A limit together with its algorithm: all that a counter store needs to know besides the key and the cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bound {
    /// How the units are counted.
    pub algorithm: Algorithm,
    /// Units per window.
    pub limit: u64,
    /// The most that can pass at one instant: `burst` for a token bucket, else `limit`.
    pub capacity: u64,
    /// The window in microseconds; of a calendar's windows the longest.
    pub window_us: u64,
    /// The calendar that the windows follow; `None`: they are aligned to the epoch, or to nothing. Only for `fixed_window`.
    pub calendar: Option<Calendar>,
}

impl Bound {
    /// The length in microseconds of the window that `time_us` lies in: for a calendar's windows the real one, else the same for all.
    #[must_use]
    pub fn window_at(&self, time_us: u64) -> u64 {
        self.calendar.map_or(self.window_us, |calendar| {
            let [_, start, end, ..] = calendar.edges(time_us);
            end - start
        })
    }
}
