//! What is allowed but probably not meant.

use crate::config::DomainConfig;
use crate::mistake::Mistake;

/// Warnings about `config`: rules that can never win, ties decided by name, a stacked broader rule with a lower limit, keys on
/// client-chosen values with no backstop, more than 32 limits on one request.
#[must_use]
pub fn lint(_config: &DomainConfig) -> Vec<Mistake> {
    todo!()
}
