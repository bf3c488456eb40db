//! Watches rules for the operator: an alert fires when a rule's denied share stays above a limit, and tells one webhook.
//!
//! [`watch`] looks every ten seconds, one replica at a time; [`state`] says what a look means; a change and the [`delivery`] that tells
//! of it are written together; [`webhook`] sends it, signed, to a [`target`] that the server's settings allow.

pub mod alert;
pub mod delivery;
pub mod state;
pub mod store;
pub mod target;
pub mod watch;
pub mod webhook;
