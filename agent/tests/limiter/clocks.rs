//! Agents' clocks do not matter: only the shard's counts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_agent::limiter::{LimitQuery, Limiter};
use weir_core::clock::{Clock, SystemClock};
use weir_core::counter::CounterCall;
use weir_core::failure::FailureMode;
use weir_core::limit::Algorithm;
use weir_testbed::Redis;

use crate::support::*;

/// A machine whose wall clock is wrong.
struct Wrong {
    ahead: bool,
}

impl Clock for Wrong {
    fn now(&self) -> Instant {
        SystemClock.now()
    }

    fn wall(&self) -> Duration {
        let right = SystemClock.wall();
        if self.ahead { right + Duration::from_secs(30) } else { right - Duration::from_secs(30) }
    }
}

async fn limiter_of(server: &Redis, clock: impl Clock) -> Limiter {
    let limiter = Limiter::new(patient(), Arc::new(clock));
    limiter.set_ring(ring([server.url().as_str()]));
    limiter.settled().await;
    limiter
}

#[tokio::test(flavor = "multi_thread")]
async fn exact_clocks_a_minute_apart_change_nothing() {
    let server = redis().await;
    let limiters = [limiter_of(&server, Wrong { ahead: true }).await, limiter_of(&server, Wrong { ahead: false }).await];
    for algorithm in Algorithm::ALL {
        // Ten hours: no edge of a window, and no refill of a whole unit, falls into the test.
        let call = CounterCall::check(key("user:1", algorithm.as_str()), bound(algorithm, 10, MINUTE * 600), 1);
        let query = LimitQuery { call, on_failure: policy(FailureMode::Closed), overflow: None };
        let mut left = Vec::new();
        for turn in 0..14 {
            let answer = decide(&limiters[turn % 2], &[leased(&query)]).await.remove(0);
            assert_eq!(answer.degraded, None);
            left.push((answer.reply.allowed, answer.reply.remaining));
        }
        let expected: Vec<_> = (0..14).map(|turn: u64| (turn < 10, 9u64.saturating_sub(turn))).collect();
        assert_eq!(left, expected, "{algorithm:?}");
    }
}
