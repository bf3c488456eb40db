//! A tier: the plan that a subject is on.

use serde::Serialize;

use crate::name::Name;

/// A plan such as `free` or `paid`. A domain has exactly one default tier, for subjects of no or of an unknown tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tier {
    /// The name, as gateways send it.
    pub name: Name,
    /// For people, at most 500 characters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether subjects of no or of an unknown tier are on this one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
}
