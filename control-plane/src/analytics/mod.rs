//! Answers questions about what was allowed and denied, from what [`crate::ingest`] stored.
//!
//! A [`range`] chooses the resolution; everything about one range is read at that resolution, so chart, totals and table agree.

pub mod denials;
pub mod outcome;
pub mod range;
pub mod subjects;
pub mod summary;
mod table;
pub mod timeseries;
