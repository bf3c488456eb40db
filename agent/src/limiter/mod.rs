//! From limit keys to answers: the ring finds the shard, the breaker lets the call through, the batch carries it, Lua decides; and
//! without the shard, the rule's failure policy.

pub mod memory;
pub mod script;
pub mod store;

use std::time::Instant;

use weir_core::counter::{CounterCall, CounterReply};
use weir_core::decision::Degraded;
use weir_core::failure::FailurePolicy;
use weir_core::name::Name;

/// One limit of a request, with what to do if its shard is away.
#[derive(Debug, Clone)]
pub struct LimitQuery {
    /// The counter and what to take from it.
    pub call: CounterCall,
    /// What happens without the shard.
    pub on_failure: FailurePolicy,
}

/// What came of one limit.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitAnswer {
    /// What the counter said; for a degraded answer of mode `open` or `closed` only `allowed` has a meaning.
    pub reply: CounterReply,
    /// Set if the shard did not decide.
    pub degraded: Option<Degraded>,
    /// The shard that counted, or should have; `None` on the memory store alone.
    pub shard: Option<Name>,
}

/// Decides requests on the shards of the ring (or in this process).
#[derive(Debug)]
pub struct Limiter {}

impl Limiter {
    /// Decides all limits of one request: all or nothing for those that can refuse. One answer per query, in order, by `deadline` at
    /// the latest.
    pub async fn decide(&self, _queries: &[LimitQuery], _deadline: Instant) -> Vec<LimitAnswer> {
        todo!()
    }
}
