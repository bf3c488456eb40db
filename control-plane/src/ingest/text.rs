//! Texts from agents, made storable: Postgres takes no NUL, and people should not be shown control characters.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use weir_core::name::Name;

/// The longest subject that is stored as it is, in bytes (an index entry must stay small).
const MAX_SUBJECT: usize = 512;

/// A name, or nothing. `None` if the text is neither.
pub(crate) fn name_or_empty(text: String) -> Option<String> {
    (text.is_empty() || Name::new(&text).is_ok()).then_some(text)
}

/// A text of at most `max` letters, digits, `-` and `_`.
pub(crate) fn token(text: &str, max: usize) -> Option<&str> {
    (text.len() <= max && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')).then_some(text)
}

/// The text with control characters replaced, cut to at most `max` bytes.
pub(crate) fn printable(text: &str, max: usize) -> String {
    let mut clean = String::with_capacity(text.len().min(max));
    for c in text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }) {
        if clean.len() + c.len_utf8() > max {
            break;
        }
        clean.push(c);
    }
    clean
}

/// A subject as it is stored and searched. A long one becomes its beginning and a hash of the whole: two long subjects with one
/// beginning stay two.
pub(crate) fn subject(text: &str) -> Option<String> {
    if text.is_empty() || text.len() > 8_192 {
        return None;
    }
    if text.len() <= MAX_SUBJECT && !text.chars().any(char::is_control) {
        return Some(text.to_owned());
    }
    let mut label = printable(text, MAX_SUBJECT - 40);
    label.push('~');
    for byte in &Sha256::digest(text.as_bytes())[..16] {
        let _ = write!(label, "{byte:02x}");
    }
    Some(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_stay_distinct_and_storable() {
        assert_eq!(subject("user:ü%\\'🙂").as_deref(), Some("user:ü%\\'🙂"));
        assert_eq!(subject(""), None);
        let (a, b) = ("user:".to_owned() + &"x".repeat(600) + "1", "user:".to_owned() + &"x".repeat(600) + "2");
        let (a, b) = (subject(&a).unwrap(), subject(&b).unwrap());
        assert_ne!(a, b);
        assert!(a.len() <= MAX_SUBJECT);
        let nul = subject("user:a\0b").unwrap();
        assert!(!nul.contains('\0') && nul != subject("user:a\u{1}b").unwrap());
    }

    #[test]
    fn printable_cuts_at_a_character() {
        assert_eq!(printable("aé\0", 2), "a");
        assert_eq!(printable("a\nb", 10), "a\u{fffd}b");
    }
}
