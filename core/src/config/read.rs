//! From JSON values to domain types, collecting every mistake with its place.

use serde_json::Value;

use crate::domain::Domain;
use crate::mistake::Mistakes;
use crate::rule::Rule;
use crate::tier::Tier;

/// Reads one rule; `pointer` is its place in the document. `None` if there was a mistake.
pub fn rule(_value: &Value, _pointer: &str, _mistakes: &mut Mistakes) -> Option<Rule> {
    todo!()
}

/// Reads one tier.
pub fn tier(_value: &Value, _pointer: &str, _mistakes: &mut Mistakes) -> Option<Tier> {
    todo!()
}

/// Reads a domain's own settings (`name`, `description`, `mode`, `defaults`).
pub fn domain(_value: &Value, _pointer: &str, _mistakes: &mut Mistakes) -> Option<Domain> {
    todo!()
}
