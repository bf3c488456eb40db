//! From JSON values to domain types, collecting every mistake with its place.
//!
//! Every reader has the same form: the value, its JSON pointer, and where to note mistakes. It returns `None` if, and only if, it noted
//! one; what a document leaves out is never looked at. Numbers must be written as whole numbers, unknown fields are refused.

mod document;
mod domain;
mod failure;
mod key;
mod limits;
mod matches;
mod object;
mod rule;
mod shard;
mod tier;
mod value;

pub(super) use document::{document, partial};
pub use domain::domain;
pub use limits::overrides;
pub use rule::rule;
pub use shard::shard;
pub use tier::tier;

use crate::mistake::Mistakes;

/// The most tiers of a domain.
pub const MAX_TIERS: usize = 1_000;
/// The most rules of a domain.
pub const MAX_RULES: usize = 10_000;
/// The most parts of a key.
pub const MAX_KEY_PARTS: usize = 16;

/// Runs `read` with mistakes of its own: `None` if it noted any, even where it could go on.
fn all_or_nothing<T>(mistakes: &mut Mistakes, read: impl FnOnce(&mut Mistakes) -> Option<T>) -> Option<T> {
    let mut found = Mistakes::new();
    let result = read(&mut found).filter(|_| found.is_empty());
    mistakes.append(found);
    result
}
