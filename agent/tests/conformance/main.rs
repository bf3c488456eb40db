//! One suite over every counter store: the memory store, Redis, Valkey, and the models in `core` that the Lua script must agree with.
//!
//! Where time matters the tests set it ([`clocked`]): the memory store by its clock, the servers by a few lines of Lua before the script,
//! which itself takes no time from anybody. What only real servers can show (foreign keys, TTLs, lost scripts) runs on their own clock.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod atomicity;
mod calendars;
mod calls;
mod cases;
mod changes;
mod clocked;
mod expiry;
mod foreign;
mod histories;
mod leases;
mod operations;
mod servers;
mod vectors;
