//! What became of a request, by name.

use serde::Serialize;
use weir_proto::v1;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Let through.
    Allowed,
    /// Refused by a limit.
    Denied,
    /// Let through; a shadow rule would have refused.
    ShadowDenied,
    /// Let through without the shard that should have decided.
    DegradedAllowed,
    /// Refused by the local limit of an agent without the shard.
    DegradedDenied,
    /// Refused with 503, since the rule is closed without its shard.
    Unavailable,
}

impl Outcome {
    /// The outcome of that number in the database; the numbers are those of `weir.v1.Outcome`.
    #[must_use]
    pub fn from_number(number: i16) -> Option<Self> {
        match v1::Outcome::try_from(i32::from(number)).ok()? {
            v1::Outcome::Unspecified => None,
            v1::Outcome::Allowed => Some(Self::Allowed),
            v1::Outcome::Denied => Some(Self::Denied),
            v1::Outcome::ShadowDenied => Some(Self::ShadowDenied),
            v1::Outcome::DegradedAllowed => Some(Self::DegradedAllowed),
            v1::Outcome::DegradedDenied => Some(Self::DegradedDenied),
            v1::Outcome::Unavailable => Some(Self::Unavailable),
        }
    }
}
