//! The limiter on real Redis servers: exact while they are there (`exact_*`), and fit for use while they are not (`fault_*`).

mod clocks;
mod exact;
mod fault;
mod policy;
mod script;
mod support;
