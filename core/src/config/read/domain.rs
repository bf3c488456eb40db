//! Reads a domain's own settings.

use serde_json::Value;

use super::object::Object;
use super::{all_or_nothing, failure, rule, value};
use crate::domain::{Defaults, Domain, DomainMode};
use crate::mistake::Mistakes;

const MODES: [(&str, DomainMode); 3] = [("enforce", DomainMode::Enforce), ("shadow", DomainMode::Shadow), ("off", DomainMode::Off)];

/// Reads a domain's own settings: `name`, `description`, `mode`, `defaults`.
pub fn domain(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<Domain> {
    all_or_nothing(mistakes, |mistakes| {
        let object = Object::open(value, pointer, &["name", "description", "mode", "defaults"], mistakes)?;
        let name = object.required("name", mistakes, value::name);
        let domain = settings(&object, mistakes);
        Some(Domain { name: name?, description: domain.0, mode: domain.1, defaults: domain.2 })
    })
}

/// What a domain and a whole document have in common: description, mode and defaults.
pub(super) fn settings(object: &Object<'_>, mistakes: &mut Mistakes) -> (String, DomainMode, Defaults) {
    let description = object.optional("description", mistakes, value::description).unwrap_or_default();
    let mode = object.optional("mode", mistakes, value::choice(&MODES)).unwrap_or_default();
    let defaults = object.optional("defaults", mistakes, defaults).unwrap_or_default();
    (description, mode, defaults)
}

fn defaults(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<Defaults> {
    let object = Object::open(value, pointer, &["algorithm", "on_failure", "group"], mistakes)?;
    Some(Defaults {
        algorithm: object.optional("algorithm", mistakes, rule::algorithm),
        on_failure: object.optional("on_failure", mistakes, failure::policy),
        group: object.optional("group", mistakes, value::name),
    })
}
