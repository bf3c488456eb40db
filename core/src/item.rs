//! The content of a revision as a set of opaque items, and the hash that proves two sets equal.
//!
//! Agents and control plane compare the hash; an item that needs a feature an agent lacks costs that item, not the set.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::calendar::Zone;
use crate::limit::Algorithm;

/// What an item describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ItemKind {
    /// A domain's own settings.
    Domain,
    /// A tier.
    Tier,
    /// A rule.
    Rule,
    /// A shard of the ring.
    Shard,
}

impl ItemKind {
    /// The name on the wire and in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Domain => "domain",
            Self::Tier => "tier",
            Self::Rule => "rule",
            Self::Shard => "shard",
        }
    }

    /// The kind of that name, if this build knows it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Domain, Self::Tier, Self::Rule, Self::Shard].into_iter().find(|kind| kind.as_str() == name)
    }
}

/// What the feature of an algorithm starts with; its name follows.
const ALGORITHM: &str = "algorithm:";

/// The feature that a reader must have to use a rule of this algorithm.
#[must_use]
pub fn feature(algorithm: Algorithm) -> String {
    format!("{ALGORITHM}{}", algorithm.as_str())
}

/// The feature that a reader must have to use a rule whose windows follow a calendar.
pub const CALENDAR: &str = "calendar";

/// What the feature of a time zone starts with; its name follows. Every database has UTC, which needs none.
const TIME_ZONE: &str = "time_zone:";

/// The feature that a reader must have to use a rule whose calendar follows this zone: databases of other years know other names.
#[must_use]
pub fn time_zone(zone: Zone) -> String {
    format!("{TIME_ZONE}{zone}")
}

/// Whether this build has a feature.
#[must_use]
pub fn supports(feature: &str) -> bool {
    match (feature.strip_prefix(ALGORITHM), feature.strip_prefix(TIME_ZONE)) {
        (Some(name), _) => Algorithm::ALL.iter().any(|algorithm| algorithm.as_str() == name),
        (None, Some(zone)) => Zone::new(zone).is_some(),
        (None, None) => feature == CALENDAR,
    }
}

/// The features of this build by name. Time zones are not listed: the version of their database says which there are.
#[must_use]
pub fn features() -> Vec<String> {
    Algorithm::ALL.into_iter().map(feature).chain([CALENDAR.to_owned()]).collect()
}

/// One part of a revision: JSON bytes that only the reader of its kind looks into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What it describes. Text, since a later version may know more kinds.
    pub kind: String,
    /// Its name, unique within the kind.
    pub name: String,
    /// Canonical JSON.
    pub body: Vec<u8>,
    /// Features that a reader must have, e.g. `algorithm:fixed_window`.
    pub requires: Vec<String>,
}

impl Item {
    /// SHA-256 of the body.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(&self.body).into()
    }
}

/// The hash of a set of items, whatever their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SetHash(pub [u8; 32]);

impl SetHash {
    /// SHA-256 over the sorted (kind, name, item hash), each length-prefixed.
    #[must_use]
    pub fn of(items: &[Item]) -> Self {
        let mut sorted: Vec<(&str, &str, [u8; 32])> = items.iter().map(|i| (i.kind.as_str(), i.name.as_str(), i.hash())).collect();
        sorted.sort_unstable();
        let mut hash = Sha256::new();
        for (kind, name, item) in sorted {
            for part in [kind.as_bytes(), name.as_bytes(), &item] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
        Self(hash.finalize().into())
    }
}

impl fmt::Display for SetHash {
    /// 64 hex digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, body: &str) -> Item {
        Item { kind: "rule".into(), name: name.into(), body: body.into(), requires: vec![] }
    }

    #[test]
    fn the_set_hash_ignores_order_and_sees_every_change() {
        let (a, b) = (item("a", "1"), item("b", "2"));
        let both = SetHash::of(&[a.clone(), b.clone()]);
        assert_eq!(both, SetHash::of(&[b.clone(), a.clone()]));
        assert_ne!(both, SetHash::of(&[a, item("b", "3")]));
        assert_ne!(both, SetHash::of(&[b]));
        assert_eq!(both.to_string().len(), 64);
    }
}
