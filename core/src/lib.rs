//! What a Weir rule means, free of any I/O.
//!
//! A [`config::DomainConfig`] is what an operator wrote: a domain, its tiers and its rules, read and validated with all mistakes
//! reported at once. A [`ruleset::RuleSet`] is the same, compiled for the hot path: it chooses the rules of a request. [`key`] builds the
//! counter keys, [`algorithm`] says how each algorithm counts, and [`decision`] is the answer with its headers.

pub mod algorithm;
pub mod calendar;
pub mod client_ip;
pub mod clock;
pub mod config;
pub mod counter;
pub mod decision;
pub mod domain;
pub mod failure;
pub mod headers;
pub mod item;
pub mod key;
pub mod lease;
pub mod limit;
pub mod lint;
pub mod matching;
pub mod mistake;
pub mod name;
pub mod path;
pub mod request;
pub mod rule;
pub mod ruleset;
pub mod shard;
pub mod span;
pub mod subject;
pub mod tier;
