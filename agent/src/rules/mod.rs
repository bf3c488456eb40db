//! Where rules come from and what of them is in force: disk, then a file, then the control plane.
//!
//! A set (the rules of a domain, or the ring) is read, validated, compiled and then put into force at once; whatever is wrong with it,
//! the last good one stays. This module knows neither the limiter nor the check: it hands what is in force to [`Outlets`].

pub mod apply;
mod assembly;
pub mod disk;
pub mod file;
pub mod ring;
mod session;
pub mod store;
pub mod sync;

use std::sync::Arc;

use weir_core::key::HashSecret;
use weir_core::ruleset::RuleSet;

use self::ring::Ring;

/// A function that takes what has come into force.
pub type Outlet<T> = Box<dyn Fn(T) + Send + Sync>;

/// Where what comes into force goes.
pub struct Outlets {
    /// Compiled rules of one domain.
    pub rules: Outlet<Arc<RuleSet>>,
    /// The ring, credentials included; an error says why it cannot be used, and the old one stays.
    pub ring: Box<dyn Fn(Ring) -> Result<(), String> + Send + Sync>,
    /// The secret of counter keys.
    pub secret: Outlet<HashSecret>,
    /// How many agents share each limit.
    pub live_agents: Outlet<u32>,
}

impl std::fmt::Debug for Outlets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outlets")
    }
}
