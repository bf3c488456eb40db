//! stub
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
/// Whether a shard is asked.
pub enum BreakerState {
    /// Calls flow.
    Closed,
    /// Calls are stopped.
    Open,
    /// Calls are stopped while the agent probes.
    HalfOpen,
}

impl BreakerState {
    /// The name on the wire and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}
