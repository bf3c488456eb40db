//! Names that operators give: domains, tiers, rules, groups, shards, agents, tokens.
//!
//! One alphabet for all of them, so that a name is always safe in a header (structured-field string), a metric label, a URL path segment
//! and a log line.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// The longest name, in characters.
pub const MAX_LENGTH: usize = 64;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is empty.
    #[error("must not be empty")]
    Empty,
    /// The text is longer than [`MAX_LENGTH`].
    #[error("must have at most {MAX_LENGTH} characters, not {0}")]
    TooLong(usize),
    /// A character outside `A-Z a-z 0-9 _ . : -`.
    #[error("must consist of letters, digits, '_', '.', ':' and '-' only; {0:?} is not allowed")]
    Character(char),
    /// `.` or `..`.
    #[error("\".\" and \"..\" are no names: no URL can hold them")]
    Dots,
}

/// A validated name. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Name(Arc<str>);

impl Name {
    /// Validates `text` as a name.
    ///
    /// # Errors
    /// [`NameError`] says which constraint the text breaks.
    pub fn new(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        let length = text.chars().count();
        if length > MAX_LENGTH {
            return Err(NameError::TooLong(length));
        }
        if matches!(text, "." | "..") {
            return Err(NameError::Dots);
        }
        match text.chars().find(|c| !(c.is_ascii_alphanumeric() || "_.:-".contains(*c))) {
            Some(c) => Err(NameError::Character(c)),
            None => Ok(Self(text.into())),
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl std::str::FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_into_urls_and_headers() {
        for good in ["a", "per-user", "v1.2:x_y", "...", &"n".repeat(MAX_LENGTH)] {
            assert_eq!(Name::new(good).unwrap().as_str(), good);
        }
        assert_eq!(Name::new(""), Err(NameError::Empty));
        assert_eq!(Name::new(&"n".repeat(MAX_LENGTH + 1)), Err(NameError::TooLong(65)));
        assert_eq!(Name::new("a b"), Err(NameError::Character(' ')));
        assert_eq!([Name::new("."), Name::new("..")], [Err(NameError::Dots), Err(NameError::Dots)]);
    }
}
