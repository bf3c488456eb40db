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
        let Settings { description, mode, defaults } = settings(&object, mistakes);
        Some(Domain {
            name: name?,
            description: description.unwrap_or_default(),
            mode: mode.unwrap_or_default(),
            defaults: defaults.unwrap_or_default(),
        })
    })
}

/// What a domain and a whole document have in common; `None`: not given, or wrong.
pub(super) struct Settings {
    pub(super) description: Option<String>,
    pub(super) mode: Option<DomainMode>,
    pub(super) defaults: Option<Defaults>,
}

pub(super) fn settings(object: &Object<'_>, mistakes: &mut Mistakes) -> Settings {
    Settings {
        description: object.optional("description", mistakes, value::description),
        mode: object.optional("mode", mistakes, value::choice(&MODES)),
        defaults: object.optional("defaults", mistakes, defaults),
    }
}

fn defaults(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<Defaults> {
    let object = Object::open(value, pointer, &["algorithm", "on_failure", "group"], mistakes)?;
    Some(Defaults {
        algorithm: object.optional("algorithm", mistakes, rule::algorithm),
        on_failure: object.optional("on_failure", mistakes, failure::policy),
        group: object.optional("group", mistakes, value::name),
    })
}
