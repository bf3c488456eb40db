//! What an operator wrote about one domain: its settings, tiers and rules; the content of a revision.

pub mod read;
pub mod write;

use serde_json::Value;

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
    /// Its tiers; exactly one is the default.
    pub tiers: Vec<Tier>,
    /// Its rules.
    pub rules: Vec<Rule>,
}

impl DomainConfig {
    /// Reads the document form (`domain`, `description`, `mode`, `tiers`, `defaults`, `rules`).
    ///
    /// # Errors
    /// Every mistake, with its JSON pointer.
    pub fn read(_document: &Value) -> Result<Self, Mistakes> {
        todo!()
    }

    /// Reads the document form from YAML (a superset of JSON).
    ///
    /// # Errors
    /// The syntax error with its line, or every mistake.
    pub fn from_yaml(_text: &str) -> Result<Self, Mistakes> {
        todo!()
    }

    /// What only shows when all parts are seen together: duplicate names, no or several default tiers, rules whose tiers are unknown or
    /// left without a limit, ...
    #[must_use]
    pub fn validate(&self) -> Mistakes {
        todo!()
    }

    /// The document form.
    #[must_use]
    pub fn to_document(&self) -> Value {
        todo!()
    }

    /// The document form as YAML, as `weir export` prints it.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        todo!()
    }

    /// The content as items for the wire and the database.
    #[must_use]
    pub fn items(&self) -> Vec<Item> {
        todo!()
    }

    /// Reads items back. An item that requires an unknown feature, or of an unknown kind, is left out and reported beside the result.
    ///
    /// # Errors
    /// Every mistake, its pointer being `/kind/name/...`.
    pub fn from_items(_items: &[Item]) -> Result<(Self, Vec<String>), Mistakes> {
        todo!()
    }
}
