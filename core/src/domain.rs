//! A domain: a namespace of rules and counters, with its kill switch.

use serde::Serialize;

use crate::failure::FailurePolicy;
use crate::limit::Algorithm;
use crate::name::Name;

/// The kill switch of a domain: caps the mode of all its rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Default)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum DomainMode {
    /// Rules act as their own mode says.
    #[default]
    Enforce,
    /// No rule refuses anything; what would have been refused is reported.
    Shadow,
    /// No rule is looked at.
    Off,
}

/// What a rule gets where it says nothing itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Defaults {
    /// Algorithm of rules without one (default `token_bucket`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,
    /// Failure policy of rules without one (default `local`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<FailurePolicy>,
    /// Group of rules without one (default: the rule's own name, so all rules stack).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Name>,
}

impl Defaults {
    /// Whether nothing is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A domain's own settings, without its tiers and rules.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Domain {
    /// The name; `default` where nothing is said.
    pub name: Name,
    /// For people, at most 500 characters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The kill switch.
    pub mode: DomainMode,
    /// What rules get where they say nothing.
    #[serde(skip_serializing_if = "Defaults::is_empty")]
    pub defaults: Defaults,
}
