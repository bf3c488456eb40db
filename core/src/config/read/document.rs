//! Reads a whole document: a domain with its tiers and rules.

use serde_json::Value;

use super::object::Object;
use super::{MAX_RULES, MAX_TIERS, domain, rule, tier, value};
use crate::config::DomainConfig;
use crate::config::validate::Parts;
use crate::domain::Domain;
use crate::mistake::Mistakes;
use crate::name::Name;

/// The domain of a document that names none.
const DEFAULT_DOMAIN: &str = "default";

/// Reads the document form, and checks it as a whole even where parts of it are wrong.
pub(in crate::config) fn document(value: &Value) -> Result<DomainConfig, Mistakes> {
    let mut mistakes = Mistakes::new();
    let Some(object) = Object::open(value, "", &["domain", "description", "mode", "tiers", "defaults", "rules"], &mut mistakes) else {
        return Err(mistakes);
    };
    let name = if object.has("domain") { object.optional("domain", &mut mistakes, value::name) } else { Name::new(DEFAULT_DOMAIN).ok() };
    let (description, mode, defaults) = domain::settings(&object, &mut mistakes);
    let tiers = object.optional("tiers", &mut mistakes, value::list(MAX_TIERS, placed(tier)));
    let rules = object.optional("rules", &mut mistakes, value::list(MAX_RULES, placed(rule)));
    let tiers_given = value.get("tiers").map_or(Some(0), |tiers| tiers.as_array().map(Vec::len));
    let (tiers, rules) = (tiers.unwrap_or_default(), rules.unwrap_or_default());
    Parts {
        defaults: &defaults,
        tiers: tiers.iter().map(|(pointer, tier)| (pointer.clone(), tier)).collect(),
        all_tiers_known: Some(tiers.len()) == tiers_given,
        rules: rules.iter().map(|(pointer, rule)| (pointer.clone(), rule)).collect(),
    }
    .check(&mut mistakes);
    match name {
        Some(name) if mistakes.is_empty() => Ok(DomainConfig {
            domain: Domain { name, description, mode, defaults },
            tiers: tiers.into_iter().map(|(_, tier)| tier).collect(),
            rules: rules.into_iter().map(|(_, rule)| rule).collect(),
        }),
        _ => Err(mistakes),
    }
}

/// Keeps the pointer beside what `read` made of the value there.
fn placed<T>(read: fn(&Value, &str, &mut Mistakes) -> Option<T>) -> impl Fn(&Value, &str, &mut Mistakes) -> Option<(String, T)> {
    move |value, pointer, mistakes| Some((pointer.to_owned(), read(value, pointer, mistakes)?))
}
