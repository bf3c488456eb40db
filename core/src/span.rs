//! Lengths of time as people write them in rules: `500ms`, `5s`, `1m`, `12h`, `30d`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// A length of time with microsecond resolution, written as one whole number and a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span(u64);

const UNITS: [(&str, u64); 5] = [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000)];

impl Span {
    /// From whole seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1_000_000)
    }

    /// From whole milliseconds.
    #[must_use]
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(milliseconds * 1_000)
    }

    /// In microseconds.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// In whole milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// As a standard duration.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        Duration::from_micros(self.0)
    }
}

/// A text that is not a length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be a whole number with a unit (ms, s, m, h or d), such as \"60s\" or \"1h\"")]
pub struct SpanError;

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or(SpanError)?;
        let (number, unit) = text.split_at(digits);
        let micros = UNITS.iter().find(|(name, _)| *name == unit).ok_or(SpanError)?.1;
        let number: u64 = number.parse().map_err(|_| SpanError)?;
        number.checked_mul(micros).map(Self).ok_or(SpanError)
    }
}

impl fmt::Display for Span {
    /// The largest unit that divides the length: `90s`, `1m`, `1d`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, micros) = UNITS.iter().find(|(_, u)| self.0 != 0 && self.0.is_multiple_of(*u)).unwrap_or(&UNITS[3]);
        write!(f, "{}{name}", self.0 / micros)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_and_print() {
        for (text, micros, canonical) in [
            ("60s", 60_000_000, "1m"),
            ("90s", 90_000_000, "90s"),
            ("500ms", 500_000, "500ms"),
            ("0s", 0, "0s"),
            ("366d", 31_622_400_000_000, "366d"),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!((span.as_micros(), span.to_string().as_str()), (micros, canonical));
        }
        for bad in ["", "60", "s", "1.5s", "-1s", "1 s", "1w", "99999999999999999999s", "9999999999999999d"] {
            assert_eq!(bad.parse::<Span>(), Err(SpanError), "{bad}");
        }
    }
}
