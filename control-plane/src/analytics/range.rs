//! The time range of a question: what was asked for, and what is answered.
//!
//! Range and step decide the resolution, and the range is rounded out to it. Chart, totals and tables of one range read the same resolution with the
//! same rounding, so they add up to the same numbers.

use jiff::Timestamp;
use weir_core::mistake::Mistakes;
use weir_core::span::Span;

use crate::ingest::level::Level;

/// The most points of a series.
pub const MAX_POINTS: i64 = 1_500;
/// How far a range goes back where nothing is said, in seconds.
const DEFAULT: i64 = 3_600;
/// The longest range, in seconds: what the coarsest level keeps.
const LONGEST: i64 = Level::Hour.kept();
/// Steps that are chosen where none is asked for: round to people, and each a multiple of its level.
const STEPS: [i64; 13] = [10, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400];
/// About how many points a chart has where no step is asked for.
const POINTS: i64 = 240;

/// A range that can be answered. Times are seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first second.
    pub from: i64,
    /// The second after the last.
    pub to: i64,
    /// The resolution that is read; `from` and `to` are multiples of it.
    pub level: Level,
}

impl Range {
    /// Reads `from` and `to` of a query: RFC 3339, or `now`, or a length of time before now such as `-15m`. Absent: the last hour.
    ///
    /// # Errors
    /// What is wrong, each with its parameter.
    pub fn read(from: Option<&str>, to: Option<&str>, now: i64) -> Result<Self, Mistakes> {
        let mut mistakes = Mistakes::new();
        let mut read = |name: &str, text: Option<&str>| match text.map(|text| instant(text, now)) {
            Some(None) => {
                mistakes
                    .add(name, "must be a time such as 2026-11-30T15:00:00Z, or \"now\", or a length of time before now such as \"-1h\"");
                None
            }
            Some(instant) => instant,
            None => None,
        };
        let (from_read, to_read) = (read("from", from), read("to", to));
        mistakes = mistakes.into_result(Mistakes::new())?;
        let end = to_read.unwrap_or(now);
        let start = from_read.unwrap_or(end - DEFAULT);
        if start > end {
            mistakes.add("from", "must not be later than `to`");
        } else if end - start > LONGEST {
            mistakes.add("from", format!("must be at most {} days before `to`", LONGEST / 86_400));
        }
        mistakes.into_result(Self::rounded(start, end, now))
    }

    /// The finest level that has few enough points for the range, and still keeps its beginning.
    fn rounded(start: i64, end: i64, now: i64) -> Self {
        let fits = |level: &Level| end - start <= MAX_POINTS * level.seconds() && now - start <= level.kept();
        let level = Level::ALL.into_iter().find(fits).unwrap_or(Level::Hour);
        let from = level.floor(start);
        Self { from, to: level.ceil(end).max(from + level.seconds()), level }
    }

    /// The step of a series: as asked for, or chosen; in any case a multiple of the level.
    ///
    /// # Errors
    /// The step is no length of time, or makes too many points.
    pub fn step(self, asked: Option<&str>) -> Result<i64, Mistakes> {
        let length = self.to - self.from;
        let Some(text) = asked else {
            let fits = |step: &&i64| **step >= self.level.seconds() && length / **step <= POINTS;
            return Ok(STEPS.iter().find(fits).copied().unwrap_or(86_400));
        };
        let mut mistakes = Mistakes::new();
        let seconds = seconds(text).filter(|seconds| (1..=LONGEST).contains(seconds));
        let step = seconds.map(|seconds| self.level.ceil(seconds));
        match step {
            None => mistakes.add("step", "must be a length of time from 1s, such as \"60s\" or \"1h\", or a number of seconds"),
            Some(step) if points(self, step) > MAX_POINTS => {
                mistakes.add("step", format!("makes {} points; at most {MAX_POINTS} are answered: take a longer step", points(self, step)));
            }
            Some(_) => {}
        }
        mistakes.into_result(step.unwrap_or_default())
    }

    /// The starts of all steps of a series, those without any traffic too.
    pub fn times(self, step: i64) -> impl Iterator<Item = i64> {
        (0..points(self, step)).map(move |i| floor(self.from, step) + i * step)
    }
}

/// How many steps touch the range. Steps start at multiples of themselves, so the first and last may reach beyond it; only the range counts.
fn points(range: Range, step: i64) -> i64 {
    (range.to - floor(range.from, step) + step - 1) / step
}

fn floor(second: i64, step: i64) -> i64 {
    second - second.rem_euclid(step)
}

/// A point in time, as people and programs write it.
fn instant(text: &str, now: i64) -> Option<i64> {
    // Beyond these years no arithmetic here can overflow, and no event has its time.
    let sane = |second: &i64| (0..=4_102_444_800).contains(second);
    if text == "now" {
        return Some(now);
    }
    if let Some(back) = text.strip_prefix('-') {
        return now.checked_sub(seconds(back)?).filter(sane);
    }
    text.parse::<Timestamp>().ok().map(Timestamp::as_second).filter(sane)
}

/// A length of time in whole seconds: `90`, or `90s`, `15m`, `1h`.
fn seconds(text: &str) -> Option<i64> {
    if let Ok(number) = text.parse::<u32>() {
        return Some(number.into());
    }
    let span: Span = text.parse().ok()?;
    i64::try_from(span.as_micros() / 1_000_000).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2026-11-30T15:01:01Z.
    const NOW: i64 = 1_796_050_861;

    fn read(from: &str, to: &str) -> Result<Range, String> {
        let part = |text: &'static str| (!text.is_empty()).then_some(text);
        let (from, to) = (part(Box::leak(from.to_owned().into_boxed_str())), part(Box::leak(to.to_owned().into_boxed_str())));
        Range::read(from, to, NOW).map_err(|mistakes| mistakes.as_slice().iter().map(|m| m.pointer.clone()).collect::<Vec<_>>().join(","))
    }

    #[test]
    fn ranges_are_read_and_rounded_out() {
        let hour = read("", "").unwrap();
        assert_eq!((hour.from, hour.to, hour.level), (NOW - 3_601, NOW + 9, Level::TenSeconds));
        assert_eq!(read("-1h", "now").unwrap(), hour);
        assert_eq!(read("-24h", "").unwrap().level, Level::Minute);
        assert_eq!(read("-7d", "").unwrap().level, Level::Hour);
        assert_eq!(read("-240h", "-239h").unwrap().level, Level::Minute, "10 s are not kept that long");
        let zoned = read("2026-11-30T16:00:00+01:00", "2026-11-30T15:00:00Z").unwrap();
        assert_eq!(zoned.to - zoned.from, 10, "an empty range is one bucket");
    }

    #[test]
    fn bad_ranges_are_named() {
        assert_eq!(read("yesterday", "tomorrow"), Err("from,to".into()));
        assert_eq!(read("-1h", "-2h"), Err("from".into()));
        assert_eq!(read("2020-01-01T00:00:00Z", ""), Err("from".into()));
        for odd in ["-", "--1h", "-99999999999d", "9999-12-31T00:00:00Z", "-1h\0", "%", "1e9", "-1.5h"] {
            assert_eq!(read(odd, ""), Err("from".into()), "{odd}");
        }
    }

    #[test]
    fn steps_are_chosen_or_checked() {
        let step = |from: &str, asked| read(from, "").unwrap().step(asked).map_err(|m| m.as_slice()[0].detail.clone());
        assert_eq!(step("-15m", None), Ok(10));
        assert_eq!(step("-1h", None), Ok(30));
        assert_eq!(step("-24h", None), Ok(600));
        assert_eq!(step("-30d", None), Ok(10_800));
        assert_eq!(step("-1h", Some("15s")), Ok(20));
        assert_eq!(step("-1h", Some("60")), Ok(60));
        assert!(step("-30d", Some("60s")).is_ok_and(|step| step == 3_600), "finer than is kept: what there is");
        for bad in ["0", "0s", "-1", "x", "", "1.5", "500ms"] {
            assert!(step("-1h", Some(bad)).unwrap_err().starts_with("must be"), "{bad:?}");
        }
        assert!(step("-100d", Some("1h")).unwrap_err().contains("at most 1500"));
    }

    proptest! {
        #[test]
        fn times_cover_the_range(back in 0..400 * 86_400_i64, length in 0..400 * 86_400_i64, asked in proptest::option::of(1..100_000_u32)) {
            let end = NOW - back;
            let range = Range::rounded((end - length).max(0), end, NOW);
            let asked = asked.map(|step| step.to_string());
            let Ok(step) = range.step(asked.as_deref()) else { return Ok(()) };
            let times: Vec<i64> = range.times(step).collect();
            prop_assert!(times.len() <= usize::try_from(MAX_POINTS).unwrap());
            prop_assert!(step % range.level.seconds() == 0 && range.from % range.level.seconds() == 0);
            prop_assert!(times[0] <= range.from && range.from < times[0] + step);
            let last = times[times.len() - 1];
            prop_assert!(last < range.to && range.to <= last + step);
        }
    }
}
