//! The resolutions at which events are kept.

/// A resolution. Each holds the same sums, for a different length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// 10 s, kept 3 days.
    TenSeconds,
    /// 1 min, kept 35 days.
    Minute,
    /// 1 h, kept 400 days.
    Hour,
}

impl Level {
    /// All, finest first.
    pub const ALL: [Self; 3] = [Self::TenSeconds, Self::Minute, Self::Hour];

    /// Length of a bucket in seconds.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        match self {
            Self::TenSeconds => 10,
            Self::Minute => 60,
            Self::Hour => 3_600,
        }
    }

    /// How long it is kept, in seconds.
    #[must_use]
    pub const fn kept(self) -> i64 {
        86_400
            * match self {
                Self::TenSeconds => 3,
                Self::Minute => 35,
                Self::Hour => 400,
            }
    }

    /// Start of the bucket that holds `second`.
    #[must_use]
    pub const fn floor(self, second: i64) -> i64 {
        second - second.rem_euclid(self.seconds())
    }

    /// The first bucket start at or after `second`.
    #[must_use]
    pub const fn ceil(self, second: i64) -> i64 {
        self.floor(second + self.seconds() - 1)
    }
}
