//! Reads a tier.

use serde_json::Value;

use super::object::Object;
use super::{all_or_nothing, value};
use crate::mistake::Mistakes;
use crate::tier::Tier;

/// Reads one tier: `name`, `description`, `default`.
pub fn tier(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<Tier> {
    all_or_nothing(mistakes, |mistakes| {
        let object = Object::open(value, pointer, &["name", "description", "default"], mistakes)?;
        let name = object.required("name", mistakes, value::name);
        let description = object.optional("description", mistakes, value::description).unwrap_or_default();
        let default = object.optional("default", mistakes, value::boolean).unwrap_or_default();
        Some(Tier { name: name?, description, default })
    })
}
