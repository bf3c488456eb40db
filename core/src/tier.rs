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

/// Adds or replaces a tier; a new default takes the flag from the old one.
pub fn put(tiers: &mut Vec<Tier>, tier: Tier) {
    if tier.default {
        tiers.iter_mut().for_each(|t| t.default = false);
    }
    tiers.retain(|t| t.name != tier.name);
    tiers.push(tier);
}
