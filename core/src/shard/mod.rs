//! A shard of the ring: one Redis or Valkey primary, or one Redis Cluster. What the control plane accepts and what agents take is the same,
//! since both read it here.

pub mod address;

use serde::Serialize;
use serde_json::Value;

use crate::config::read;
use crate::item::{Item, ItemKind};
use crate::mistake::{Mistakes, child};
use crate::name::Name;
pub use address::wrong_address;

/// The largest weight; more says nothing that less cannot.
pub const MAX_WEIGHT: u32 = 100;
/// The smallest limit of memory, in bytes: an empty server takes about as much.
pub const MIN_MEMORY_LIMIT: u64 = 1 << 20;
/// The most shards of a ring.
pub const MAX_SHARDS: usize = 1_000;

/// One shard. Its credentials are kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shard {
    /// Its name: the place in the ring depends on it, not on the address.
    pub name: Name,
    /// `redis://host:port/db`, `redis+sentinel://host:port,.../name`, `redis+cluster://host:port,...`, each also with `rediss` (TLS), or the
    /// absolute path of a Unix socket; as [`address::Address`] reads it.
    pub address: String,
    /// Its share of the keys, relative to the other shards: 1 to [`MAX_WEIGHT`].
    pub weight: u32,
    /// Bytes of memory that it may fill, if its servers have no limit of their own; at least [`MIN_MEMORY_LIMIT`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<u64>,
}

impl Shard {
    /// The shard as an item of the ring.
    #[must_use]
    pub fn to_item(&self) -> Item {
        // Texts and a number: it always serialises.
        let body = serde_json::to_vec(self).unwrap_or_default();
        Item { kind: ItemKind::Shard.as_str().to_owned(), name: self.name.to_string(), body, requires: Vec::new() }
    }
}

/// Reads a ring. Items of another kind, or with features that are unknown here, are left out and named beside.
///
/// # Errors
/// Every mistake, its pointer being `/shard/name/...`.
pub fn ring(items: &[Item]) -> Result<(Vec<Shard>, Vec<String>), Mistakes> {
    let mut mistakes = Mistakes::new();
    let (mut shards, mut left_out) = (Vec::new(), Vec::new());
    if items.len() > MAX_SHARDS {
        mistakes.add("", format!("a ring has at most {MAX_SHARDS} shards"));
    }
    for item in items.iter().take(MAX_SHARDS) {
        if item.kind == ItemKind::Shard.as_str() && item.requires.is_empty() {
            shards.extend(of_item(item, &mut mistakes));
        } else {
            left_out.push(format!("{} {}", item.kind, item.name));
        }
    }
    mistakes.into_result((shards, left_out))
}

fn of_item(item: &Item, mistakes: &mut Mistakes) -> Option<Shard> {
    let pointer = child(&child("", &item.kind), &item.name);
    let body: Value = serde_json::from_slice(&item.body).map_err(|error| mistakes.add(&*pointer, format!("is not JSON: {error}"))).ok()?;
    let shard = read::shard(&body, &pointer, &[], mistakes)?;
    if shard.name == *item.name {
        return Some(shard);
    }
    mistakes.add(format!("{pointer}/name"), "differs from the item's name");
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: &str, name: &str, body: &str) -> Item {
        Item { kind: kind.into(), name: name.into(), body: body.into(), requires: vec![] }
    }

    #[test]
    fn a_ring_is_read_with_all_its_mistakes() {
        let a = item("shard", "a", r#"{"name":"a","address":"redis://127.0.0.1:1","weight":2}"#);
        let b = item("shard", "b", r#"{"name":"b","address":"redis://127.0.0.1:2"}"#);
        let (shards, left_out) = ring(&[a.clone(), b, item("mirror", "x", "{}")]).unwrap();
        let seen: Vec<_> = shards.iter().map(|s| (s.name.as_str(), s.address.as_str(), s.weight)).collect();
        assert_eq!(seen, [("a", "redis://127.0.0.1:1", 2), ("b", "redis://127.0.0.1:2", 1)]);
        assert_eq!(left_out, ["mirror x"]);
        assert_eq!(shards[0].to_item(), a);
        let mistakes = ring(&[
            item("shard", "a b", "{}"),
            item("shard", "c", r#"{"name":"c","address":"x","weight":0}"#),
            item("shard", "d", r#"{"name":"e","address":"/s"}"#),
            item("shard", "f", "junk"),
        ]);
        let pointers: Vec<_> = mistakes.unwrap_err().into_iter().map(|m| m.pointer).collect();
        assert_eq!(pointers, ["/shard/a b/name", "/shard/a b/address", "/shard/c/address", "/shard/c/weight", "/shard/d/name", "/shard/f"]);
        let many: Vec<_> =
            (0..=MAX_SHARDS).map(|i| item("shard", &format!("s{i}"), &format!(r#"{{"name":"s{i}","address":"/s"}}"#))).collect();
        assert!(ring(&many).is_err() && ring(&many[1..]).is_ok());
    }
}
