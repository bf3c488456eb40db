//! A rules document that need not be the whole: what it does not mention stays as it is.

use serde_json::Value;

use super::{DomainConfig, read};
use crate::domain::{Defaults, Domain, DomainMode};
use crate::mistake::Mistakes;
use crate::name::Name;
use crate::rule::Rule;
use crate::tier::{self, Tier};

/// What a rules document says. Each part is valid by itself; whether they are valid together only shows beside what is there already
/// ([`DomainConfig::validate`]).
#[derive(Debug, Clone, PartialEq)]
pub struct PartialConfig {
    /// The domain's name.
    pub domain: Name,
    /// Its description, if the document has one.
    pub description: Option<String>,
    /// Its mode, if the document has one.
    pub mode: Option<DomainMode>,
    /// Its defaults, if the document has some.
    pub defaults: Option<Defaults>,
    /// Tiers, in the document's order.
    pub tiers: Vec<Tier>,
    /// Rules, in the document's order.
    pub rules: Vec<Rule>,
}

impl PartialConfig {
    /// Reads the document form.
    ///
    /// # Errors
    /// Every mistake that shows without what is there already, with its JSON pointer.
    pub fn read(document: &Value) -> Result<Self, Mistakes> {
        read::partial(document)
    }

    /// What is there already, with what the document says in its place. To be validated.
    #[must_use]
    pub fn over(self, present: Option<DomainConfig>) -> DomainConfig {
        let Some(mut whole) = present else { return self.instead_of(None) };
        if let Some(description) = self.description {
            whole.domain.description = description;
        }
        if let Some(mode) = self.mode {
            whole.domain.mode = mode;
        }
        if let Some(defaults) = self.defaults {
            whole.domain.defaults = defaults;
        }
        for tier in self.tiers {
            tier::put(&mut whole.tiers, tier);
        }
        for rule in self.rules {
            whole.rules.retain(|r| r.name != rule.name);
            whole.rules.push(rule);
        }
        whole
    }

    /// What the document says and nothing else; only the mode stays as it is if the document does not say it, since that is the kill switch
    /// and somebody may have just thrown it. To be validated.
    #[must_use]
    pub fn instead_of(self, present: Option<DomainConfig>) -> DomainConfig {
        let domain = Domain {
            name: self.domain,
            description: self.description.unwrap_or_default(),
            mode: self.mode.or(present.map(|present| present.domain.mode)).unwrap_or_default(),
            defaults: self.defaults.unwrap_or_default(),
        };
        DomainConfig { domain, tiers: self.tiers, rules: self.rules }
    }
}
