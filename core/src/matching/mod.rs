//! Which rules a request matches: paths, hosts, headers, descriptors, precedence.

pub(crate) mod host;
pub(crate) mod index;
pub(crate) mod rank;
pub(crate) mod template;
pub(crate) mod values;
