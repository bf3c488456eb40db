//! Items, set names and hashes between the wire and [`weir_core::item`].

use weir_core::item::{Item, SetHash};

use crate::v1;

impl From<Item> for v1::Item {
    fn from(item: Item) -> Self {
        Self { kind: item.kind, name: item.name, body: item.body, requires: item.requires }
    }
}

impl From<v1::Item> for Item {
    fn from(item: v1::Item) -> Self {
        Self { kind: item.kind, name: item.name, body: item.body, requires: item.requires }
    }
}

impl v1::Have {
    /// The rules of `domain` at `revision`.
    #[must_use]
    pub fn rules(domain: &str, revision: u64, hash: SetHash) -> Self {
        Self { kind: v1::SetKind::Rules.into(), domain: domain.to_owned(), revision, hash: hash.0.to_vec() }
    }

    /// The ring at `revision`.
    #[must_use]
    pub fn ring(revision: u64, hash: SetHash) -> Self {
        Self { kind: v1::SetKind::Ring.into(), domain: String::new(), revision, hash: hash.0.to_vec() }
    }

    /// The hash, if it has 32 bytes.
    #[must_use]
    pub fn set_hash(&self) -> Option<SetHash> {
        self.hash.as_slice().try_into().ok().map(SetHash)
    }
}
