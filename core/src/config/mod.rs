//! What an operator wrote about one domain: its settings, tiers and rules; the content of a revision.

mod items;
mod partial;
pub mod read;
#[cfg(test)]
pub(crate) mod tests;
mod validate;
pub(crate) mod write;
mod yaml;

use serde_json::Value;

pub use self::partial::PartialConfig;
use self::validate::Parts;
pub use self::validate::{MAX_REFILL, limit_mistake};
pub use self::yaml::{MAX_DOCUMENT, parse as parse_yaml};

use crate::domain::Domain;
use crate::item::Item;
use crate::mistake::Mistakes;
use crate::rule::Rule;
use crate::tier::Tier;

/// A domain with its tiers and rules. Always valid: there is no way to make one but through validation.
#[derive(Debug, Clone, PartialEq)]
pub struct DomainConfig {
    /// The domain's own settings.
    pub domain: Domain,
    /// Its tiers, exactly one of them the default. None at all is allowed: then every subject is on one tier called `default`, and
    /// rules limit it by `"*"`.
    pub tiers: Vec<Tier>,
    /// Its rules.
    pub rules: Vec<Rule>,
}

impl DomainConfig {
    /// Reads the document form (`domain`, `description`, `mode`, `tiers`, `defaults`, `rules`).
    ///
    /// # Errors
    /// Every mistake, with its JSON pointer.
    pub fn read(document: &Value) -> Result<Self, Mistakes> {
        read::document(document)
    }

    /// Reads the document form from YAML (a superset of JSON).
    ///
    /// # Errors
    /// The syntax error with its line, or every mistake.
    pub fn from_yaml(text: &str) -> Result<Self, Mistakes> {
        Self::read(&yaml::parse(text)?)
    }

    /// What only shows when all parts are seen together: duplicate names, no or several default tiers, rules whose tiers are unknown or
    /// left without a limit, ...
    #[must_use]
    pub fn validate(&self) -> Mistakes {
        let mut mistakes = Mistakes::new();
        let tiers = self.tiers.iter().enumerate().map(|(i, tier)| (format!("/tiers/{i}"), tier)).collect();
        let rules = self.rules.iter().enumerate().map(|(i, rule)| (format!("/rules/{i}"), rule)).collect();
        Parts { defaults: &self.domain.defaults, tiers, all_tiers_known: true, rules }.check(&mut mistakes);
        mistakes
    }

    /// The document form.
    #[must_use]
    pub fn to_document(&self) -> Value {
        write::document(self)
    }

    /// The document form as YAML, as `weir export` prints it.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        yaml::print(&self.to_document())
    }

    /// The content as items for the wire and the database.
    #[must_use]
    pub fn items(&self) -> Vec<Item> {
        items::write(self)
    }

    /// Reads items back. An item that requires an unknown feature, or of an unknown kind, is left out and reported beside the result.
    ///
    /// # Errors
    /// Every mistake, its pointer being `/kind/name/...`.
    pub fn from_items(items: &[Item]) -> Result<(Self, Vec<String>), Mistakes> {
        items::read(items)
    }
}
