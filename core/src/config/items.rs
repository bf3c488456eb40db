//! A domain's content as items for the wire and the database, and back.

use std::collections::{BTreeSet, HashSet};

use serde::Serialize;
use serde_json::Value;

use super::DomainConfig;
use super::read;
use super::validate::Parts;
use crate::calendar::Zone;
use crate::domain::{Defaults, Domain};
use crate::item::{CALENDAR, Item, ItemKind, feature, supports, time_zone};
use crate::limit::{Limit, Window};
use crate::mistake::Mistakes;
use crate::rule::Rule;
use crate::tier::Tier;

/// One item for the domain, each tier and each rule.
pub(super) fn write(config: &DomainConfig) -> Vec<Item> {
    let domain = item(ItemKind::Domain, config.domain.name.as_str(), &config.domain, vec![]);
    let tiers = config.tiers.iter().map(|tier| item(ItemKind::Tier, tier.name.as_str(), tier, vec![]));
    let defaults = &config.domain.defaults;
    let rules = config.rules.iter().map(|rule| item(ItemKind::Rule, rule.name.as_str(), rule, required(rule, defaults)));
    std::iter::once(domain).chain(tiers).chain(rules).collect()
}

/// What a reader must know to do right by a rule.
fn required(rule: &Rule, defaults: &Defaults) -> Vec<String> {
    let algorithm = rule.algorithm.or(defaults.algorithm).unwrap_or_default();
    let zones: BTreeSet<Zone> = rule.limits.values().filter_map(zone).collect();
    let calendar = (!zones.is_empty()).then(|| CALENDAR.to_owned());
    let zones = zones.into_iter().filter(|zone| *zone != Zone::utc()).map(time_zone);
    std::iter::once(feature(algorithm)).chain(calendar).chain(zones).collect()
}

/// The time zone of a limit that follows a calendar.
const fn zone(limit: &Limit) -> Option<Zone> {
    match limit {
        Limit::Limited { window: Window::Calendar(calendar), .. } => Some(calendar.zone),
        _ => None,
    }
}

fn item(kind: ItemKind, name: &str, content: &impl Serialize, requires: Vec<String>) -> Item {
    // Domain types have string keys and finite numbers only: they always serialise.
    let body = serde_json::to_vec(content).unwrap_or_default();
    Item { kind: kind.as_str().to_owned(), name: name.to_owned(), body, requires }
}

/// What has been read of a set so far.
#[derive(Default)]
struct Contents {
    domain: Option<Domain>,
    tiers: Vec<(String, Tier)>,
    rules: Vec<(String, Rule)>,
    left_out: Vec<String>,
    mistakes: Mistakes,
}

/// Reads a set back; the texts say which items were left out and why.
pub(super) fn read(items: &[Item]) -> Result<(DomainConfig, Vec<String>), Mistakes> {
    let mut contents = Contents::default();
    let mut seen = HashSet::new();
    for item in items {
        if seen.insert((&item.kind, &item.name)) {
            contents.take(item);
        } else {
            contents.mistakes.add(pointer(item), "is in the set twice");
        }
    }
    contents.finish()
}

fn pointer(item: &Item) -> String {
    format!("/{}/{}", item.kind, item.name)
}

impl Contents {
    fn take(&mut self, item: &Item) {
        let Some(kind) = ItemKind::from_name(&item.kind).filter(|kind| *kind != ItemKind::Shard) else {
            self.left_out.push(format!("{} {}: items of this kind are unknown here", item.kind, item.name));
            return;
        };
        if let Some(missing) = item.requires.iter().find(|feature| !supports(feature)) {
            self.left_out.push(format!("{} {}: needs {missing}, which this build does not have", item.kind, item.name));
            return;
        }
        let pointer = pointer(item);
        let body: Value = match serde_json::from_slice(&item.body) {
            Ok(body) => body,
            Err(error) => return self.mistakes.add(pointer, format!("is not JSON: {error}")),
        };
        if body.get("name").and_then(Value::as_str) != Some(item.name.as_str()) {
            return self.mistakes.add(format!("{pointer}/name"), "differs from the item's name");
        }
        match kind {
            ItemKind::Domain => match (&self.domain, read::domain(&body, &pointer, &mut self.mistakes)) {
                (None, domain) => self.domain = domain,
                (Some(first), _) => self.mistakes.add(pointer, format!("the set already has the domain {}", first.name)),
            },
            ItemKind::Tier => self.tiers.extend(read::tier(&body, &pointer, &mut self.mistakes).map(|tier| (pointer, tier))),
            ItemKind::Rule => self.rules.extend(read::rule(&body, &pointer, &mut self.mistakes).map(|rule| (pointer, rule))),
            ItemKind::Shard => {}
        }
    }

    fn finish(mut self) -> Result<(DomainConfig, Vec<String>), Mistakes> {
        let Some(domain) = self.domain else {
            self.mistakes.add("/domain", "the set has no domain that can be used");
            return Err(self.mistakes);
        };
        Parts {
            defaults: &domain.defaults,
            tiers: self.tiers.iter().map(|(pointer, tier)| (pointer.clone(), tier)).collect(),
            all_tiers_known: self.mistakes.is_empty(),
            rules: self.rules.iter().map(|(pointer, rule)| (pointer.clone(), rule)).collect(),
        }
        .check(&mut self.mistakes);
        let tiers = self.tiers.into_iter().map(|(_, tier)| tier).collect();
        let rules = self.rules.into_iter().map(|(_, rule)| rule).collect();
        self.mistakes.into_result((DomainConfig { domain, tiers, rules }, self.left_out))
    }
}
