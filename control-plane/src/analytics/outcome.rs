//! Outcomes as the database numbers them.

use weir_core::decision::Outcome;
use weir_proto::v1;

/// The outcome of that number in the database; the numbers are those of `weir.v1.Outcome`.
#[must_use]
pub fn from_number(number: i16) -> Option<Outcome> {
    match v1::Outcome::try_from(i32::from(number)).ok()? {
        v1::Outcome::Unspecified => None,
        v1::Outcome::Allowed => Some(Outcome::Allowed),
        v1::Outcome::Denied => Some(Outcome::Denied),
        v1::Outcome::ShadowDenied => Some(Outcome::ShadowDenied),
        v1::Outcome::DegradedAllowed => Some(Outcome::DegradedAllowed),
        v1::Outcome::DegradedDenied => Some(Outcome::DegradedDenied),
        v1::Outcome::Unavailable => Some(Outcome::Unavailable),
    }
}
