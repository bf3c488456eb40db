//! A shard of the ring: one Redis or Valkey primary. What the control plane accepts and what agents take is the same, since both read it
//! here.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::Serialize;
use serde_json::Value;

use crate::config::read;
use crate::item::{Item, ItemKind};
use crate::mistake::{Mistakes, child};
use crate::name::Name;

/// The largest weight; more says nothing that less cannot.
pub const MAX_WEIGHT: u32 = 100;
/// The most shards of a ring.
pub const MAX_SHARDS: usize = 1_000;
/// The longest address, in bytes.
pub const MAX_ADDRESS: usize = 512;
/// The longest path of a Unix socket, in bytes: what the system's own structure holds.
const MAX_PATH: usize = 107;

/// One shard. Its credentials are kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shard {
    /// Its name: the place in the ring depends on it, not on the address.
    pub name: Name,
    /// `redis://host:port/db`, `rediss://...` (TLS), or the absolute path of a Unix socket; as [`wrong_address`] allows it.
    pub address: String,
    /// Its share of the keys, relative to the other shards: 1 to [`MAX_WEIGHT`].
    pub weight: u32,
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

/// What is wrong with an address. Credentials in it would be shown to everybody who may read it.
#[must_use]
pub fn wrong_address(address: &str) -> Option<&'static str> {
    const FORM: &str = "must be redis://host:port, redis://host:port/db, rediss://host:port or the absolute path of a Unix socket";
    if address.len() > MAX_ADDRESS || !address.bytes().all(|b| b.is_ascii_graphic()) {
        return Some("must have at most 512 bytes, all of them visible ASCII characters");
    }
    if address.starts_with('/') {
        return wrong_path(address).then_some("must be a path of at most 107 bytes, without '?', '#', '%' and '\\', that names a socket");
    }
    if address.contains('@') {
        return Some("must not hold credentials: use \"username\" and \"password\"");
    }
    let Some(rest) = address.strip_prefix("redis://").or_else(|| address.strip_prefix("rediss://")) else { return Some(FORM) };
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    if !(database.is_empty() || database.bytes().all(|b| b.is_ascii_digit()) && database.parse::<u16>().is_ok()) {
        return Some(FORM);
    }
    let (host, port) = match authority.rfind(':').filter(|at| !authority[*at..].contains(']')) {
        Some(at) => (&authority[..at], Some(&authority[at + 1..])),
        None => (authority, None),
    };
    let good_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0);
    if port.is_some_and(|port| !good_port(port)) {
        return Some(FORM);
    }
    match host_kind(host) {
        Host::Good => None,
        Host::Wildcard => Some("must name a host: 0.0.0.0 and :: are none"),
        Host::Wrong => Some(FORM),
    }
}

fn wrong_path(path: &str) -> bool {
    path.len() < 2 || path.len() > MAX_PATH || path.ends_with('/') || path.contains(['?', '#', '%', '\\'])
}

enum Host {
    Good,
    Wildcard,
    Wrong,
}

fn host_kind(host: &str) -> Host {
    if let Some(inner) = host.strip_prefix('[') {
        return match inner.strip_suffix(']').and_then(|inner| inner.parse::<Ipv6Addr>().ok()) {
            Some(ip) if ip.is_unspecified() => Host::Wildcard,
            Some(_) => Host::Good,
            None => Host::Wrong,
        };
    }
    match host.parse::<Ipv4Addr>() {
        Ok(ip) if ip.is_unspecified() => Host::Wildcard,
        _ if !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_')) => Host::Good,
        _ => Host::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: &str, name: &str, body: &str) -> Item {
        Item { kind: kind.into(), name: name.into(), body: body.into(), requires: vec![] }
    }

    #[test]
    fn addresses_name_a_server_and_nothing_else() {
        for good in [
            "redis://127.0.0.1:6379",
            "redis://[::1]:6379/3",
            "redis://[::1]",
            "rediss://redis.example",
            "/run/redis.sock",
            "redis://h:1/",
            "redis://my_redis-0.ns.svc:1/65535",
        ] {
            assert_eq!(wrong_address(good), None, "{good}");
        }
        let long = format!("/{}", "x".repeat(107));
        for bad in [
            "",
            "/",
            "/run/",
            "127.0.0.1:6379",
            "http://h:1",
            "redis://",
            "redis://:6379",
            "redis://u:p@h:1",
            "redis://h:0",
            "redis://h:",
            "redis://h:+1",
            "redis://h:70000",
            "redis://h:1/x",
            "redis://h:1/+1",
            "redis://h:1#",
            "rediss://h:1#insecure",
            "redis://h:1?a=b",
            "redis://h :1",
            "redis://h:1\n",
            "redis://[::1",
            "redis://::1:1",
            "unix:/x",
            "redis://h:1/1/2",
            "redis://0.0.0.0:1",
            "redis://[::]:1",
            "redis://[0:0::0]:1",
            "/sock?pass=x",
            "/sock?db=1",
            "/sock%41",
            "/sock#",
            &long,
        ] {
            assert!(wrong_address(bad).is_some(), "{bad}");
        }
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
