//! The text of a token: `weir_`, 43 letters and digits (256 random bits), and a checksum of six.
//!
//! The checksum lets a secret scanner, and us, tell a token from a lookalike without asking the database. Only the hash is stored; a
//! plain SHA-256 is enough, since nobody can guess 256 random bits.

use rand::RngExt as _;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "weir_";
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const RANDOM_LENGTH: usize = 43;
const CHECKSUM_LENGTH: usize = 6;

/// SHA-256 of a token, a session cookie or a sign-in code.
pub type Hash = [u8; 32];

/// A new token that nobody has seen yet.
#[must_use]
pub fn generate() -> SecretString {
    let random = random_text();
    let checksum = checksum(&random);
    SecretString::from(format!("{PREFIX}{random}{checksum}"))
}

/// 256 random bits as letters and digits: a session cookie or a sign-in code.
#[must_use]
pub fn random_text() -> String {
    let mut rng = rand::rng();
    (0..RANDOM_LENGTH).map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())])).collect()
}

/// The hash to store or to look for.
#[must_use]
pub fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

/// The hash of a new token.
#[must_use]
pub fn hash_secret(secret: &SecretString) -> Hash {
    hash(secret.expose_secret())
}

/// Whether `text` has the form of a token, its checksum included.
#[must_use]
pub fn is_well_formed(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(PREFIX) else { return false };
    if rest.len() != RANDOM_LENGTH + CHECKSUM_LENGTH || !rest.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return false;
    }
    let (random, sum) = rest.split_at(RANDOM_LENGTH);
    checksum(random) == sum
}

/// CRC-32 of the random part in base 62, padded: any 32 bits fit into six digits.
fn checksum(random: &str) -> String {
    let mut rest = crc32fast::hash(random.as_bytes()) as usize;
    let mut digits = [b'0'; CHECKSUM_LENGTH];
    for digit in digits.iter_mut().rev() {
        *digit = ALPHABET[rest % ALPHABET.len()];
        rest /= ALPHABET.len();
    }
    digits.iter().map(|b| char::from(*b)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_token_is_well_formed_and_any_change_is_seen() {
        let token = generate().expose_secret().to_owned();
        assert!(is_well_formed(&token), "{token}");
        assert_eq!(token.len(), 54);
        for at in PREFIX.len()..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'a' { b'b' } else { b'a' };
            assert!(!is_well_formed(std::str::from_utf8(&changed).unwrap()), "character {at}");
        }
        for bad in ["", "weir_", "weir_abc", &token[1..], &format!("{token}0"), &token.to_uppercase(), &format!(" {token}")] {
            assert!(!is_well_formed(bad), "{bad:?}");
        }
    }

    #[test]
    fn tokens_do_not_repeat() {
        assert_ne!(generate().expose_secret(), generate().expose_secret());
    }
}
