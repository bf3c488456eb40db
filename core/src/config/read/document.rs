//! Reads a whole document: a domain with its tiers and rules.

use serde_json::Value;

use super::object::Object;
use super::{MAX_RULES, MAX_TIERS, domain, rule, tier, value};
use crate::config::validate::Parts;
use crate::config::{DomainConfig, PartialConfig};
use crate::domain::Defaults;
use crate::mistake::Mistakes;
use crate::name::Name;
use crate::rule::Rule;
use crate::tier::Tier;

/// The domain of a document that names none.
const DEFAULT_DOMAIN: &str = "default";

/// What could be read of a document, each part with its place.
struct Read {
    name: Option<Name>,
    settings: domain::Settings,
    tiers: Vec<(String, Tier)>,
    all_tiers_known: bool,
    rules: Vec<(String, Rule)>,
}

/// Reads the document form, and checks it as a whole even where parts of it are wrong.
pub(in crate::config) fn document(value: &Value) -> Result<DomainConfig, Mistakes> {
    let whole = |read: &Read, mistakes: &mut Mistakes| {
        let defaults = read.settings.defaults.clone().unwrap_or_default();
        read.parts(&defaults).check(mistakes);
    };
    Ok(read(value, whole)?.instead_of(None))
}

/// Reads the document form of what may be a part of a domain.
pub(in crate::config) fn partial(value: &Value) -> Result<PartialConfig, Mistakes> {
    read(value, |read, mistakes| read.parts(&Defaults::default()).check_names(mistakes))
}

fn read(value: &Value, check: impl FnOnce(&Read, &mut Mistakes)) -> Result<PartialConfig, Mistakes> {
    let mut mistakes = Mistakes::new();
    let read = Read::open(value, &mut mistakes);
    if let Some(read) = &read {
        check(read, &mut mistakes);
    }
    match read {
        Some(Read { name: Some(domain), settings, tiers, rules, .. }) if mistakes.is_empty() => Ok(PartialConfig {
            domain,
            description: settings.description,
            mode: settings.mode,
            defaults: settings.defaults,
            tiers: tiers.into_iter().map(|(_, tier)| tier).collect(),
            rules: rules.into_iter().map(|(_, rule)| rule).collect(),
        }),
        _ => Err(mistakes),
    }
}

impl Read {
    fn open(value: &Value, mistakes: &mut Mistakes) -> Option<Self> {
        let object = Object::open(value, "", &["domain", "description", "mode", "tiers", "defaults", "rules"], mistakes)?;
        let name = if object.has("domain") { object.optional("domain", mistakes, value::name) } else { Name::new(DEFAULT_DOMAIN).ok() };
        let settings = domain::settings(&object, mistakes);
        let tiers = object.optional("tiers", mistakes, value::list(MAX_TIERS, placed(tier))).unwrap_or_default();
        let rules = object.optional("rules", mistakes, value::list(MAX_RULES, placed(rule))).unwrap_or_default();
        let tiers_given = value.get("tiers").map_or(Some(0), |tiers| tiers.as_array().map(Vec::len));
        Some(Self { name, settings, all_tiers_known: Some(tiers.len()) == tiers_given, tiers, rules })
    }

    fn parts<'r>(&'r self, defaults: &'r Defaults) -> Parts<'r> {
        Parts {
            defaults,
            tiers: self.tiers.iter().map(|(pointer, tier)| (pointer.clone(), tier)).collect(),
            all_tiers_known: self.all_tiers_known,
            rules: self.rules.iter().map(|(pointer, rule)| (pointer.clone(), rule)).collect(),
        }
    }
}

/// Keeps the pointer beside what `read` made of the value there.
fn placed<T>(read: fn(&Value, &str, &mut Mistakes) -> Option<T>) -> impl Fn(&Value, &str, &mut Mistakes) -> Option<(String, T)> {
    move |value, pointer, mistakes| Some((pointer.to_owned(), read(value, pointer, mistakes)?))
}
