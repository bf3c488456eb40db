//! Points in time, between Postgres (`timestamptz`) and JSON (RFC 3339, UTC, milliseconds).

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

/// Microseconds from the Unix epoch to 2000-01-01, where Postgres counts from.
const POSTGRES_EPOCH_US: i64 = 946_684_800_000_000;

/// A point in time of the database, with microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub Timestamp);

impl Time {
    /// From milliseconds since the Unix epoch; `None` beyond the year 9999.
    #[must_use]
    pub fn from_millis(milliseconds: i64) -> Option<Self> {
        Timestamp::from_millisecond(milliseconds).ok().map(Self)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub fn as_millis(self) -> i64 {
        self.0.as_millisecond()
    }
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Type<Postgres> for Time {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("timestamptz")
    }
}

impl PgHasArrayType for Time {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("_timestamptz")
    }
}

impl Encode<'_, Postgres> for Time {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode(self.0.as_microsecond() - POSTGRES_EPOCH_US, buffer)
    }
}

impl<'r> Decode<'r, Postgres> for Time {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        if value.format() == PgValueFormat::Text {
            return Ok(Self(value.as_str()?.parse()?));
        }
        let since: i64 = Decode::<Postgres>::decode(value)?;
        Ok(Self(Timestamp::from_microsecond(since.saturating_add(POSTGRES_EPOCH_US))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_with_milliseconds() {
        let time = Time::from_millis(1_796_055_661_007).unwrap();
        assert_eq!(serde_json::to_value(time).unwrap(), "2026-11-30T16:21:01.007Z");
        assert_eq!(Time::from_millis(0).unwrap().to_string(), "1970-01-01T00:00:00.000Z");
    }
}
