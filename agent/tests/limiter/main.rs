//! The limiter on real Redis servers: exact while they are there (`exact_*`), and fit for use while they are not (`fault_*`).

#![allow(clippy::expect_used, reason = "a test stops where something goes wrong")]

mod clocks;
mod cluster;
mod cluster_operations;
mod crowd;
mod denied;
mod exact;
mod fault;
mod garbage;
mod inspection;
mod looks;
mod metrics;
mod operations;
mod policy;
mod promises;
mod reach;
mod script;
mod sentinels;
mod share;
mod support;
