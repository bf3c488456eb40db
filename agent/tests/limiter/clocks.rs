//! Agents' clocks do not matter: only the shard's counts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_agent::limiter::{LimitQuery, Limiter};
use weir_core::calendar::{Calendar, CalendarUnit, Zone};
use weir_core::clock::{Clock, SystemClock};
use weir_core::counter::CounterCall;
use weir_core::failure::FailureMode;
use weir_core::limit::{Algorithm, Bound};
use weir_testbed::Redis;

use crate::support::*;

/// A machine whose wall clock is wrong by so much.
struct Wrong {
    ahead: bool,
    by: Duration,
}

impl Clock for Wrong {
    fn now(&self) -> Instant {
        SystemClock.now()
    }

    fn wall(&self) -> Duration {
        let right = SystemClock.wall();
        if self.ahead { right + self.by } else { right - self.by }
    }
}

async fn limiter_of(server: &Redis, clock: impl Clock) -> Limiter {
    let limiter = Limiter::new(patient(), Arc::new(clock));
    limiter.set_ring(ring([server.url().as_str()]));
    limiter.settled().await;
    limiter
}

/// One agent ahead, one behind.
async fn wrong(server: &Redis, by: Duration) -> [Limiter; 2] {
    [limiter_of(server, Wrong { ahead: true, by }).await, limiter_of(server, Wrong { ahead: false, by }).await]
}

#[tokio::test(flavor = "multi_thread")]
async fn exact_clocks_a_minute_apart_change_nothing() {
    let server = redis().await;
    let limiters = wrong(&server, Duration::from_secs(30)).await;
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

/// BB-07: a quota of the month is the shard's month, though agents believe that it is the one before or the one after.
#[tokio::test(flavor = "multi_thread")]
async fn exact_bb_07_clocks_two_months_apart_share_a_calendar() {
    let server = redis().await;
    let limiters = wrong(&server, Duration::from_secs(31 * 86_400)).await;
    for unit in [CalendarUnit::Day, CalendarUnit::Month] {
        let calendar = Calendar { unit, zone: Zone::new("Asia/Kathmandu").expect("a zone") };
        let quota = Bound { calendar: Some(calendar), ..bound(Algorithm::FixedWindow, 10, Duration::from_micros(unit.longest_us())) };
        let call = CounterCall::check(key("user:1", unit.as_str()), quota, 1);
        let query = LimitQuery { call, on_failure: policy(FailureMode::Closed), overflow: None };
        for turn in 0..14u64 {
            let answer = decide(&limiters[turn as usize % 2], std::slice::from_ref(&query)).await.remove(0);
            assert_eq!(answer.degraded, None);
            assert_eq!((answer.reply.allowed, answer.reply.remaining), (turn < 10, 9u64.saturating_sub(turn)), "{unit:?}");
            let end = answer.reply.time_us + answer.reply.reset_after_us;
            assert_eq!(end, calendar.edges(answer.reply.time_us)[2], "{unit:?}: the end of the shard's own window");
        }
    }
    for limiter in &limiters {
        assert_eq!(metric(limiter, "weir_shard_errors_total{shard=\"s0\",cause=\"error\"}"), 0.0);
    }
}
