//! What a rule does while its shard is away.

use serde::Serialize;

use crate::span::Span;

/// What happens to a request whose shard did not answer in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Default)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FailureMode {
    /// Count in this process: this agent's share of the limit, as a token bucket.
    #[default]
    Local,
    /// Allow.
    Open,
    /// Refuse with 503.
    Closed,
}

impl FailureMode {
    /// The name in rules, API and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

/// A rule's answer to the loss of its shard.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FailurePolicy {
    /// What happens first.
    pub mode: FailureMode,
    /// For `local`: how many times this agent's share of the limit may pass, 0.1 to 10 (default 1.0).
    pub generosity: f64,
    /// What happens once the shard has been away for long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalate: Option<Escalation>,
}

impl Default for FailurePolicy {
    fn default() -> Self {
        Self { mode: FailureMode::Local, generosity: 1.0, escalate: None }
    }
}

/// A second failure mode that takes over after a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Escalation {
    /// How long the shard must have been away, counted from the first failure to the first success.
    pub after: Span,
    /// The mode from then on.
    pub to: FailureMode,
}
