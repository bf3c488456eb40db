//! What is wrong with a document: every mistake at once, each with its place.

use std::fmt;

use serde::Serialize;

/// One mistake in a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// Where: a JSON pointer (RFC 6901) into the document, empty for the whole of it, e.g. `/rules/2/limits/free/window`.
    pub pointer: String,
    /// What is wrong and what is allowed, for a person.
    pub detail: String,
}

/// All mistakes found in a document; never reported while empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Mistakes(Vec<Mistake>);

/// The most mistakes that are kept; a document with more is broken beyond listing.
pub const MAX_MISTAKES: usize = 200;

impl Mistakes {
    /// No mistakes yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes one mistake at `pointer`.
    pub fn add(&mut self, pointer: impl Into<String>, detail: impl Into<String>) {
        if self.0.len() < MAX_MISTAKES {
            self.0.push(Mistake { pointer: pointer.into(), detail: detail.into() });
        }
    }

    /// Adds what `other` found.
    pub fn append(&mut self, other: Self) {
        let room = MAX_MISTAKES - self.0.len();
        self.0.extend(other.0.into_iter().take(room));
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The mistakes in the order in which they were found.
    #[must_use]
    pub fn as_slice(&self) -> &[Mistake] {
        &self.0
    }

    /// `value` if there was no mistake, else the mistakes.
    ///
    /// # Errors
    /// The mistakes themselves.
    pub fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

/// The pointer of `token` below `pointer` (RFC 6901).
#[must_use]
pub fn child(pointer: &str, token: &str) -> String {
    format!("{pointer}/{}", token.replace('~', "~0").replace('/', "~1"))
}

/// Where byte `at` of a text is, for people: `line 2, column 7: `.
#[must_use]
pub fn place(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    format!("line {}, column {}: ", before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

impl std::error::Error for Mistakes {}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, m) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            let place = if m.pointer.is_empty() { "document" } else { &m.pointer };
            write!(f, "{place}: {}", m.detail)?;
        }
        Ok(())
    }
}

impl IntoIterator for Mistakes {
    type Item = Mistake;
    type IntoIter = std::vec::IntoIter<Mistake>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
