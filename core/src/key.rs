//! Counter keys: `{` 96-bit tag `}` + 54 bits of rule and other parts + 6 bits of format version, base64url, 28 bytes in all.
//!
//! Keys are keyed hashes (BLAKE3) over length-prefixed parts, each with its kind. So a client cannot move its counter onto another's by
//! clever spelling, cannot compute collisions, and no personal data reaches Redis. All limits of one subject share the tag, so they live
//! on one shard and in one Redis Cluster slot.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::subject::Subject;

/// The length of a key in bytes.
pub const KEY_LENGTH: usize = 28;
/// The format of the state under a key, 0 to 63. A new format is a new key: old and new agents never read each other's state.
pub const FORMAT_VERSION: u8 = 1;

/// The secret that keys are hashed with, the same on all agents of a deployment.
#[derive(Clone)]
pub struct HashSecret([u8; 32]);

impl HashSecret {
    /// From 32 random bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The secret of an agent that was given none. Public, so keys are predictable: fit for a trial, warned about at start.
    #[must_use]
    pub fn built_in() -> Self {
        Self(blake3::derive_key("weir built-in hash secret v1", b""))
    }

    /// The secret itself, to be sent or stored.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Names the secret without giving it away: 16 hex digits.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let hash = blake3::keyed_hash(&self.0, b"weir secret fingerprint v1");
        hash.to_hex()[..16].to_owned()
    }
}

impl fmt::Debug for HashSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashSecret({})", self.fingerprint())
    }
}

/// Where a counter lives: the key in Redis, and in the memory store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CounterKey([u8; KEY_LENGTH]);

impl CounterKey {
    /// The key of these two parts.
    #[must_use]
    pub fn new(tag: Tag, suffix: Suffix) -> Self {
        let mut key = [0u8; KEY_LENGTH];
        key[0] = b'{';
        // 12 bytes are 16 characters.
        let _ = URL_SAFE_NO_PAD.encode_slice(tag.0, &mut key[1..17]);
        key[17] = b'}';
        key[18..].copy_from_slice(&suffix.0);
        Self(key)
    }

    /// The key of a tag and of what tells it from others of that tag, both as in its text. `None` unless it is one of this format.
    #[must_use]
    pub fn from_parts(tag: &str, rest: &str) -> Option<Self> {
        let text = format!("{{{tag}}}{rest}");
        let version = URL_SAFE_NO_PAD.encode([FORMAT_VERSION << 2]);
        let known = tag.len() == 16 && rest.ends_with(version.split_at(1).0);
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (known && tag.bytes().chain(rest.bytes()).all(safe)).then(|| text.into_bytes().try_into().ok().map(Self)).flatten()
    }

    /// The key as sent to Redis.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; KEY_LENGTH] {
        &self.0
    }

    /// The tag without braces: what the ring places.
    #[must_use]
    pub fn tag(&self) -> &[u8] {
        &self.0[1..17]
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for CounterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One part of what is hashed; kinds keep equal texts of different meaning apart.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// What the value is: `subject`, `header:x-plan`, ...
    pub kind: &'a str,
    /// The value; `None` if the request has none, which is a value of its own and never "no limit".
    pub value: Option<&'a [u8]>,
}

/// 96 bits that all counters of a subject (or all of a rule without a subject) share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag([u8; 12]);

impl Tag {
    /// The tag of a subject in a domain.
    #[must_use]
    pub fn of_subject(secret: &HashSecret, domain: &str, subject: &Subject<'_>) -> Self {
        let mut hash = Hash::new(secret, b"subject");
        hash.part(domain.as_bytes());
        hash.part(subject.kind.as_bytes());
        hash.part(&subject.id);
        Self(hash.finish())
    }

    /// The tag of a counter whose key has no subject.
    #[must_use]
    pub fn of_rule(secret: &HashSecret, domain: &str, rule: &str, parts: &[Part<'_>]) -> Self {
        let mut hash = Hash::new(secret, b"rule");
        hash.part(domain.as_bytes());
        hash.part(rule.as_bytes());
        hash.parts(parts);
        Self(hash.finish())
    }

    /// A number spread evenly over 0 to 9,999: decides for which subjects a partly enforced rule refuses.
    #[must_use]
    pub fn per_ten_thousand(&self, rule: &str) -> u16 {
        let hash = xxhash_rust::xxh3::xxh3_64_with_seed(&self.0, xxhash_rust::xxh3::xxh3_64(rule.as_bytes()));
        u16::try_from(hash % 10_000).unwrap_or_default()
    }
}

/// What tells a counter from the others of its tag: the end of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suffix([u8; 10]);

impl Suffix {
    /// Of a rule's counter for these parts.
    #[must_use]
    pub fn of(secret: &HashSecret, rule: &str, parts: &[Part<'_>]) -> Self {
        Self::in_format(FORMAT_VERSION, secret, rule, parts)
    }

    fn in_format(version: u8, secret: &HashSecret, rule: &str, parts: &[Part<'_>]) -> Self {
        let mut hash = Hash::new(secret, b"counter");
        hash.part(rule.as_bytes());
        hash.parts(parts);
        let full: [u8; 8] = hash.finish();
        // 54 bits of the hash above 6 bits of version make ten base64url characters of 6 bits each.
        let bits = (u64::from_be_bytes(full) & !0x3FF) | (u64::from(version) << 4);
        let mut text = [0u8; 11];
        // 8 bytes are 11 characters: the last, of 4 zero bits, is left out.
        let _ = URL_SAFE_NO_PAD.encode_slice(bits.to_be_bytes(), &mut text);
        Self(std::array::from_fn(|i| text[i]))
    }
}

/// The key of one counter: `tag`, and what tells it from the other counters of that tag.
#[must_use]
pub fn counter_key(secret: &HashSecret, tag: Tag, rule: &str, parts: &[Part<'_>]) -> CounterKey {
    CounterKey::new(tag, Suffix::of(secret, rule, parts))
}

/// What is hashed of almost every request fits into this.
const USUAL_LENGTH: usize = 256;

/// Collects what is to be hashed, then hashes it at once: bit by bit takes twice as long.
struct Hash<'s> {
    secret: &'s HashSecret,
    short: [u8; USUAL_LENGTH],
    length: usize,
    /// Everything, once it is longer than [`USUAL_LENGTH`].
    long: Vec<u8>,
}

impl<'s> Hash<'s> {
    fn new(secret: &'s HashSecret, purpose: &[u8]) -> Self {
        let mut hash = Self { secret, short: [0; USUAL_LENGTH], length: 0, long: Vec::new() };
        hash.part(purpose);
        hash
    }

    fn write(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        match self.short.get_mut(self.length..end) {
            Some(room) => room.copy_from_slice(bytes),
            None => {
                if self.long.is_empty() {
                    self.long.extend_from_slice(&self.short[..self.length]);
                }
                self.long.extend_from_slice(bytes);
            }
        }
        self.length = end;
    }

    fn part(&mut self, bytes: &[u8]) {
        self.write(&(bytes.len() as u64).to_le_bytes());
        self.write(bytes);
    }

    fn parts(&mut self, parts: &[Part<'_>]) {
        for part in parts {
            self.part(part.kind.as_bytes());
            match part.value {
                Some(value) => {
                    self.write(&[1]);
                    self.part(value);
                }
                None => self.write(&[0]),
            }
        }
    }

    /// The first `N` bytes of the hash, at most 32.
    fn finish<const N: usize>(&self) -> [u8; N] {
        let all = self.short.get(..self.length).unwrap_or(&self.long);
        let hash = blake3::keyed_hash(self.secret.as_bytes(), all);
        std::array::from_fn(|i| hash.as_bytes()[i])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(secret: &HashSecret, user: &str, rule: &str, parts: &[Part<'_>]) -> CounterKey {
        counter_key(secret, Tag::of_subject(secret, "default", &Subject::parse(user).unwrap()), rule, parts)
    }

    #[test]
    fn keys_have_the_documented_shape() {
        let secret = HashSecret::built_in();
        let a = key(&secret, "user:1", "search", &[]);
        assert_eq!((a.as_bytes().len(), a.as_bytes()[0], a.as_bytes()[17]), (28, b'{', b'}'));
        assert_eq!(a.tag(), key(&secret, "user:1", "upload", &[]).tag());
        assert_ne!(a, key(&secret, "user:1", "upload", &[]));
        assert_ne!(a.tag(), key(&secret, "user:2", "search", &[]).tag());
        assert_ne!(a.tag(), key(&HashSecret::new([7; 32]), "user:1", "search", &[]).tag());
        // The last six bits are the format version, whatever the rest.
        assert_eq!(a.as_bytes()[27], b'B');
    }

    /// BB-55: agents of another format, side by side with these, count under keys of their own, in the same slot; and a lease that names a counter
    /// of theirs is none here.
    #[test]
    fn bb_55_every_format_has_keys_of_its_own() {
        let secret = HashSecret::built_in();
        let keys: Vec<CounterKey> =
            (0..64).map(|version| CounterKey::new(Tag([7; 12]), Suffix::in_format(version, &secret, "r", &[]))).collect();
        let own = counter_key(&secret, Tag([7; 12]), "r", &[]);
        for (version, key) in keys.iter().enumerate() {
            assert_eq!((key.tag(), &key.as_str()[..27]), (own.tag(), &own.as_str()[..27]), "only the last six bits differ");
            assert_eq!(keys.iter().position(|other| other == key), Some(version));
            let (tag, rest) = (&key.as_str()[1..17], &key.as_str()[18..]);
            let read = CounterKey::from_parts(tag, rest);
            assert_eq!(read, Some(own).filter(|_| version == usize::from(FORMAT_VERSION)), "{version}");
        }
    }

    /// Keys of earlier versions stay what they were, however long their parts.
    #[test]
    fn keys_are_hashes_of_all_their_parts() {
        let secret = HashSecret::new([7; 32]);
        for length in [1, 200, 236, 237, 238, 1_000, 8_192] {
            let value = "v".repeat(length);
            let mut bit_by_bit = blake3::Hasher::new_keyed(secret.as_bytes());
            for part in ["counter", "r", "header:a"] {
                bit_by_bit.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
            }
            bit_by_bit.update(&[1]).update(&(length as u64).to_le_bytes()).update(value.as_bytes());
            let key = counter_key(&secret, Tag([0; 12]), "r", &[Part { kind: "header:a", value: Some(value.as_bytes()) }]);
            let first: [u8; 6] = bit_by_bit.finalize().as_bytes()[..6].try_into().unwrap();
            // Six bytes are the first eight characters after the tag.
            assert_eq!(&key.as_str()[18..26], URL_SAFE_NO_PAD.encode(first), "{length}");
        }
    }

    /// BB-20: no separator inside a name or value merges two counters, and a missing value is not an empty one.
    #[test]
    fn bb_20_parts_cannot_be_respelled() {
        let secret = HashSecret::built_in();
        let part = |kind, value: &'static str| Part { kind, value: Some(value.as_bytes()) };
        for sep in [":", "_", "|", "/", ".", "{", "}", "*", "?", " ", "\n", "\0", "%"] {
            let joined: String = format!("a{sep}b");
            let left = counter_key(
                &secret,
                Tag([0; 12]),
                "r",
                &[Part { kind: "header:a", value: Some(joined.as_bytes()) }, part("header:b", "c")],
            );
            let tail = format!("b{sep}c");
            let right =
                counter_key(&secret, Tag([0; 12]), "r", &[part("header:a", "a"), Part { kind: "header:b", value: Some(tail.as_bytes()) }]);
            assert_ne!(left, right, "{sep:?}");
        }
        let missing = counter_key(&secret, Tag([0; 12]), "r", &[Part { kind: "header:a", value: None }]);
        assert_ne!(missing, counter_key(&secret, Tag([0; 12]), "r", &[part("header:a", "")]));
    }
}
