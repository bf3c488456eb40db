//! What was decided, on its way to analytics.

use weir_core::decision::Decision;
use weir_core::request::Request;

/// Takes note of decisions, without waiting and within fixed memory.
#[derive(Debug, Default)]
pub struct Recorder {}

impl Recorder {
    /// Takes note of one decision.
    pub fn record(&self, _request: &Request<'_>, _decision: &Decision) {}
}
