//! The newest revision of every set, as it is sent: encoded and compressed once, shared by all streams.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use weir_core::item::{Item, SetHash};
use weir_proto::v1;

pub use crate::db::set::RING;

/// A chunk of a snapshot, in bytes: large enough to be few, small enough not to hold up a ping for long.
const CHUNK: usize = 64 * 1024;

/// Names a set: the domain whose rules it holds, or the empty text for the ring.
pub type SetName = Arc<str>;

/// A revision of a set, ready to be sent.
#[derive(Debug)]
pub struct Published {
    /// Whose.
    pub set: SetName,
    /// Its number.
    pub revision: u64,
    /// The hash of its items.
    pub hash: SetHash,
    chunks: Vec<Bytes>,
}

impl Published {
    /// Encodes and compresses the items.
    #[must_use]
    pub fn new(set: SetName, revision: u64, items: Vec<Item>) -> Self {
        let hash = SetHash::of(&items);
        let items = v1::Items { items: items.into_iter().map(Into::into).collect() };
        let compressed = Bytes::from(compress(&items.encode_to_vec()));
        let mut chunks: Vec<Bytes> =
            (0..compressed.len()).step_by(CHUNK).map(|at| compressed.slice(at..compressed.len().min(at + CHUNK))).collect();
        if chunks.is_empty() {
            chunks.push(Bytes::new());
        }
        Self { set, revision, hash, chunks }
    }

    /// Set, revision and hash, as the wire names them.
    #[must_use]
    pub fn have(&self) -> v1::Have {
        have(&self.set, self.revision, self.hash)
    }

    /// The messages of the whole set.
    pub fn snapshot(&self) -> impl Iterator<Item = v1::Snapshot> + '_ {
        let last = self.chunks.len() - 1;
        self.chunks.iter().enumerate().map(move |(i, chunk)| v1::Snapshot {
            target: Some(self.have()),
            chunk: chunk.to_vec(),
            last: i == last,
        })
    }
}

/// A set at a revision, as the wire names it.
#[must_use]
pub fn have(set: &str, revision: u64, hash: SetHash) -> v1::Have {
    if set == RING { v1::Have::ring(revision, hash) } else { v1::Have::rules(set, revision, hash) }
}

/// The set that a message of the wire is about; `None`: nonsense.
#[must_use]
pub fn set_of(have: &v1::Have) -> Option<&str> {
    match (have.kind(), have.domain.as_str()) {
        (v1::SetKind::Ring, RING) => Some(RING),
        (v1::SetKind::Rules, domain) if domain != RING => Some(domain),
        _ => None,
    }
}

/// Writing to memory does not fail; should it ever, the agent's hash check refuses the snapshot.
fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// The secrets message with its fingerprint. Never printed.
pub struct Secrets(v1::Secrets);

impl Secrets {
    /// The hash secret and the credentials of shards.
    #[must_use]
    pub fn new(hash_secret: Vec<u8>, mut shards: Vec<v1::ShardCredentials>) -> Self {
        shards.sort_by(|a, b| a.shard.cmp(&b.shard));
        let mut secrets = v1::Secrets { hash_secret, shards, fingerprint: String::new() };
        // The hash secret's 256 random bits are in it, so it tells nothing about the passwords.
        let digest = Sha256::digest(secrets.encode_to_vec());
        secrets.fingerprint = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        Self(secrets)
    }

    /// Changes when any secret does.
    #[must_use]
    pub fn fingerprint(&self) -> &str {
        &self.0.fingerprint
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> v1::Secrets {
        self.0.clone()
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets")
    }
}

/// What every stream watches: the newest of everything. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Latest {
    /// The sets by name.
    pub sets: HashMap<SetName, Arc<Published>>,
    /// The secrets; `None` until they were read.
    pub secrets: Option<Arc<Secrets>>,
    /// Live agents per domain, of all replicas.
    pub live_agents: HashMap<String, u32>,
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn item(name: &str, body: Vec<u8>) -> Item {
        Item { kind: "rule".into(), name: name.into(), body, requires: vec![] }
    }

    #[test]
    fn chunks_join_to_the_items() {
        let noise: Vec<u8> = (0..300_000_u32).flat_map(|i| Sha256::digest(i.to_le_bytes())[..1].to_vec()).collect();
        let items = vec![item("a", noise), item("b", b"{}".to_vec())];
        let published = Published::new("default".into(), 7, items.clone());
        let messages: Vec<_> = published.snapshot().collect();
        assert!(messages.len() > 4 && messages.iter().all(|m| m.chunk.len() <= CHUNK));
        assert_eq!(messages.iter().filter(|m| m.last).count(), 1);
        assert!(messages.last().unwrap().last);
        let joined: Vec<u8> = messages.into_iter().flat_map(|m| m.chunk).collect();
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&joined[..]).read_to_end(&mut plain).unwrap();
        let read: Vec<Item> = v1::Items::decode(&plain[..]).unwrap().items.into_iter().map(Into::into).collect();
        assert_eq!(read, items);
        assert_eq!(SetHash::of(&read), published.hash);
    }

    #[test]
    fn an_empty_set_is_one_chunk() {
        assert_eq!(Published::new(RING.into(), 0, vec![]).snapshot().filter(|m| m.last).count(), 1);
    }

    #[test]
    fn the_fingerprint_changes_with_any_secret_and_prints_nothing() {
        let shard = |password: &str| v1::ShardCredentials { shard: "a".into(), password: password.into(), ..Default::default() };
        let one = Secrets::new(vec![1; 32], vec![shard("x")]);
        assert_eq!(one.fingerprint(), Secrets::new(vec![1; 32], vec![shard("x")]).fingerprint());
        assert_ne!(one.fingerprint(), Secrets::new(vec![2; 32], vec![shard("x")]).fingerprint());
        assert_ne!(one.fingerprint(), Secrets::new(vec![1; 32], vec![shard("y")]).fingerprint());
        assert_eq!(format!("{one:?}"), "Secrets");
    }
}
