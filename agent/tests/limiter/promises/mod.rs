//! The promises about counting, each by its number, on real servers and in real time: several agents, histories recorded as they happen.

mod all_or_nothing;
mod bounded;
mod changes;
mod deadline;
mod exact;
mod flood;
mod lost_refunds;
mod round_trip;

use std::sync::Arc;

use weir_agent::limiter::{LimitQuery, Limiter};
use weir_core::counter::CounterCall;
use weir_core::failure::FailureMode;
use weir_core::key::CounterKey;
use weir_core::limit::{Algorithm, Bound, MAX_WINDOW};
use weir_testbed::Redis;

use crate::support::*;

const AGENTS: usize = 3;

fn of(key: CounterKey, bound: Bound, cost: u64) -> LimitQuery {
    let call = CounterCall::check(key, bound, cost);
    LimitQuery { call, on_failure: policy(FailureMode::Closed), overflow: None }
}

fn longest(algorithm: Algorithm, limit: u64) -> Bound {
    bound(algorithm, limit, MAX_WINDOW.as_duration())
}

async fn agents(servers: &[Redis]) -> Vec<Arc<Limiter>> {
    let mut limiters = Vec::new();
    for _ in 0..AGENTS {
        limiters.push(limiter(servers).await);
    }
    limiters
}
