//! The Weir agent: decides each request from rules in memory and counters on Redis shards.
//!
//! The journey of a check reads in one direction: a transport or the tower middleware calls [`check`], which asks [`rules`] what applies,
//! the [`limiter`] whether it may pass, and tells [`events`]. Those three do not know each other.

pub mod check;
pub mod events;
pub mod limiter;
pub mod metrics;
pub mod middleware;
pub mod rules;
pub mod settings;
pub mod transport;
