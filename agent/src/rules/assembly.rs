//! Puts the chunks of a snapshot together, within bounds.

use std::io::Read as _;

use flate2::read::GzDecoder;
use prost::Message as _;
use weir_core::item::{Item, SetHash};
use weir_proto::v1;

/// The most bytes of a snapshot as it travels.
const MAX_COMPRESSED: usize = 32 << 20;
/// The most bytes of a snapshot once unpacked.
const MAX_UNPACKED: u64 = 256 << 20;

/// Why a snapshot cannot be used, whatever it holds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum AssemblyError {
    #[error("a chunk names no set")]
    NoTarget,
    #[error("the snapshot is larger than {MAX_COMPRESSED} bytes")]
    TooLarge,
    #[error("the snapshot cannot be unpacked: {0}")]
    Unreadable(String),
    #[error("the items have the hash {found}, not {expected} as announced")]
    Hash { found: SetHash, expected: SetHash },
}

/// A whole set.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Assembled {
    pub(super) target: v1::Have,
    pub(super) items: Vec<Item>,
}

/// The chunks so far.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    target: Option<v1::Have>,
    bytes: Vec<u8>,
    /// Set once a set is beyond its bound; its remaining chunks are skipped.
    too_large: bool,
}

impl Assembly {
    /// Takes a chunk; gives the set, or what is wrong with it, once the last has come. A chunk of another set starts anew.
    pub(super) fn add(&mut self, chunk: v1::Snapshot) -> Option<Result<Assembled, (v1::Have, AssemblyError)>> {
        let Some(target) = chunk.target else {
            *self = Self::default();
            return Some(Err((v1::Have::default(), AssemblyError::NoTarget)));
        };
        if self.target.as_ref() != Some(&target) {
            *self = Self { target: Some(target.clone()), ..Self::default() };
        }
        if self.bytes.len() + chunk.chunk.len() > MAX_COMPRESSED {
            self.too_large = true;
            self.bytes = Vec::new();
        }
        if !self.too_large {
            self.bytes.extend_from_slice(&chunk.chunk);
        }
        if !chunk.last {
            return None;
        }
        let whole = std::mem::take(self);
        let items = if whole.too_large { Err(AssemblyError::TooLarge) } else { unpack(&whole.bytes, &target) };
        Some(match items {
            Ok(items) => Ok(Assembled { target, items }),
            Err(error) => Err((target, error)),
        })
    }
}

fn unpack(bytes: &[u8], target: &v1::Have) -> Result<Vec<Item>, AssemblyError> {
    let unreadable = |error: &dyn std::fmt::Display| AssemblyError::Unreadable(error.to_string());
    let mut unpacked = Vec::new();
    GzDecoder::new(bytes).take(MAX_UNPACKED + 1).read_to_end(&mut unpacked).map_err(|e| unreadable(&e))?;
    if unpacked.len() as u64 > MAX_UNPACKED {
        return Err(AssemblyError::TooLarge);
    }
    let items = v1::Items::decode(unpacked.as_slice()).map_err(|e| unreadable(&e))?;
    let items: Vec<Item> = items.items.into_iter().map(Item::from).collect();
    let expected = target.set_hash().ok_or_else(|| unreadable(&"the hash must have 32 bytes"))?;
    let found = SetHash::of(&items);
    if found == expected { Ok(items) } else { Err(AssemblyError::Hash { found, expected }) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn packed(items: &[Item]) -> (v1::Have, Vec<u8>) {
        let message = v1::Items { items: items.iter().cloned().map(Into::into).collect() };
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&message.encode_to_vec()).unwrap();
        (v1::Have::rules("default", 3, SetHash::of(items)), gzip.finish().unwrap())
    }

    fn items() -> Vec<Item> {
        (0..50).map(|i| Item { kind: "rule".into(), name: format!("r{i}"), body: vec![b'1'], requires: vec![] }).collect()
    }

    fn chunk(target: &v1::Have, bytes: &[u8], last: bool) -> v1::Snapshot {
        v1::Snapshot { target: Some(target.clone()), chunk: bytes.to_vec(), last }
    }

    #[test]
    fn chunks_make_a_set() {
        let (target, bytes) = packed(&items());
        let mut assembly = Assembly::default();
        let (first, second) = bytes.split_at(bytes.len() / 2);
        assert!(assembly.add(chunk(&target, first, false)).is_none());
        let whole = assembly.add(chunk(&target, second, true)).unwrap().unwrap();
        assert_eq!((whole.target, whole.items), (target, items()));
    }

    #[test]
    fn a_chunk_of_another_set_starts_anew() {
        let (target, bytes) = packed(&items());
        let mut assembly = Assembly::default();
        let newer = v1::Have { revision: 4, ..target.clone() };
        assert!(assembly.add(chunk(&target, &bytes[..10], false)).is_none());
        assert_eq!(assembly.add(chunk(&newer, &bytes, true)).unwrap().unwrap().target.revision, 4);
    }

    #[test]
    fn lies_are_refused() {
        let (target, bytes) = packed(&items());
        let mut assembly = Assembly::default();
        let other = v1::Have { hash: vec![0; 32], ..target.clone() };
        assert!(matches!(assembly.add(chunk(&other, &bytes, true)), Some(Err((_, AssemblyError::Hash { .. })))));
        assert!(matches!(assembly.add(chunk(&target, b"junk", true)), Some(Err((_, AssemblyError::Unreadable(_))))));
        assert!(matches!(assembly.add(v1::Snapshot::default()), Some(Err((_, AssemblyError::NoTarget)))));
        let short = v1::Have { hash: vec![0; 3], ..target };
        assert!(matches!(assembly.add(chunk(&short, &bytes, true)), Some(Err((_, AssemblyError::Unreadable(_))))));
    }

    #[test]
    fn a_set_without_end_takes_bounded_memory() {
        let (target, _) = packed(&items());
        let mut assembly = Assembly::default();
        let megabyte = vec![0; 1 << 20];
        for _ in 0..40 {
            assert!(assembly.add(chunk(&target, &megabyte, false)).is_none());
            assert!(assembly.bytes.len() <= MAX_COMPRESSED);
        }
        assert!(matches!(assembly.add(chunk(&target, &[], true)), Some(Err((_, AssemblyError::TooLarge)))));
        // A bomb: 300 MiB of zeroes in about 300 KiB.
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        for _ in 0..300 {
            gzip.write_all(&megabyte).unwrap();
        }
        let bomb = gzip.finish().unwrap();
        assert!(matches!(assembly.add(chunk(&target, &bomb, true)), Some(Err((_, AssemblyError::TooLarge)))));
    }
}
