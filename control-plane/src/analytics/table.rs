//! Which table answers for which resolution.

use super::range::Range;
use crate::ingest::level::Level;

/// The traffic table of a level.
pub(super) const fn traffic(level: Level) -> &'static str {
    match level {
        Level::TenSeconds => "traffic_10s",
        Level::Minute => "traffic_1m",
        Level::Hour => "traffic_1h",
    }
}

/// How long the minutes of subjects are read for, in seconds; longer ranges read hours.
const MINUTES: i64 = 6 * 3_600;
/// How long the minutes of subjects are kept, in seconds, less a margin.
const MINUTES_KEPT: i64 = 2 * 86_400;

/// The subjects table for a range, and the range rounded out to it. Subjects are kept in minutes and hours only.
pub(super) fn subjects(range: Range, now: i64) -> (&'static str, i64, i64) {
    let minutes = range.to - range.from <= MINUTES && now - range.from <= MINUTES_KEPT;
    let (table, level) = if minutes { ("subjects_1m", Level::Minute) } else { ("subjects_1h", Level::Hour) };
    (table, level.floor(range.from), level.ceil(range.to))
}
