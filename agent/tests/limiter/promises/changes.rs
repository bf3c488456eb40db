//! Promise 1 while limits change: agents one revision apart, units given back and recorded meanwhile.

use std::time::{Duration, Instant};

use weir_agent::limiter::store::Refund;
use weir_agent::limiter::{LimitQuery, Limiter};
use weir_core::clock::{Clock as _, SystemClock};
use weir_core::counter::{Action, CounterCall};
use weir_core::limit::{Algorithm, Bound};

use super::{agents, of};
use crate::support::*;

/// How long agents send.
const RUN: Duration = Duration::from_secs(2);
/// How long a revision lasts.
const REVISION: Duration = Duration::from_millis(150);

/// Units that came back, at some time from the first to the second by the shard's clock, which is this machine's.
#[derive(Debug, Clone, Copy)]
struct Back {
    from: u64,
    until: u64,
    units: u64,
}

/// What passed, by the shard's clock, and what came back; both in order.
#[derive(Debug, Default)]
struct History {
    passed: Vec<(u64, u64)>,
    back: Vec<Back>,
}

fn wall() -> u64 {
    u64::try_from(SystemClock.wall().as_micros()).expect("it fits")
}

/// All agents ask for one counter, each under the limit of its own revision.
async fn history(bounds: [Bound; 3]) -> History {
    let servers = [redis().await];
    let counter = key("hot", bounds[0].algorithm.as_str());
    let start = Instant::now();
    let mut tasks = Vec::new();
    for (agent, limiter) in agents(&servers).await.into_iter().enumerate() {
        for task in 0..3 {
            let limiter = limiter.clone();
            tasks.push(tokio::spawn(async move {
                let (mut history, mut turn) = (History::default(), agent * 7 + task * 3);
                while start.elapsed() < RUN {
                    turn += 1;
                    // An agent has a revision up to two thirds of its life later than the first.
                    let age = start.elapsed() + REVISION * u32::try_from(agent).expect("small") / 3;
                    let revision = usize::try_from(age.as_millis() / REVISION.as_millis()).expect("small");
                    let query = of(counter, bounds[revision % 3], turn as u64 % 3 + 1);
                    match turn % 25 {
                        7 => history.back.push(give_back(&limiter, &query).await),
                        13 => record(&limiter, query).await,
                        _ => history.passed.extend(check(&limiter, &query).await),
                    }
                }
                history
            }));
        }
    }
    let mut all = History::default();
    for task in tasks {
        let history = task.await.expect("no task panics");
        all.passed.extend(history.passed);
        all.back.extend(history.back);
    }
    all.passed.sort_unstable();
    all.back.sort_unstable_by_key(|back| back.from);
    assert!(all.back.iter().any(|back| back.units > 0));
    all
}

async fn check(limiter: &Limiter, query: &LimitQuery) -> Option<(u64, u64)> {
    let answer = decide(limiter, std::slice::from_ref(query)).await.remove(0);
    assert_eq!(answer.degraded, None);
    answer.reply.allowed.then_some((answer.reply.time_us, query.call.cost))
}

async fn record(limiter: &Limiter, query: LimitQuery) {
    let call = CounterCall { shadow: true, action: Action::Record, ..query.call };
    assert_eq!(decide(limiter, &[LimitQuery { call, ..query }]).await[0].degraded, None);
}

async fn give_back(limiter: &Limiter, query: &LimitQuery) -> Back {
    let from = wall();
    let refund = Refund { key: query.call.key, bound: query.call.bound, units: query.call.cost, time_us: 0, lease: None };
    let given = limiter.refund(vec![refund], Instant::now() + LONG).await.remove(0).expect("the shard answers");
    Back { from, until: wall() + 1, units: given }
}

impl History {
    /// What passed in each interval from one consume to another beyond what may have come back in it, with the interval's ends.
    fn intervals(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        (0..self.passed.len()).flat_map(move |first| {
            let start = self.passed[first].0;
            let mut back = self.back.iter().filter(move |back| back.until >= start).peekable();
            let (mut passed, mut returned) = (0, 0);
            self.passed[first..].iter().map(move |(end, units)| {
                passed += units;
                while let Some(more) = back.next_if(|back| back.from <= *end) {
                    returned += more.units;
                }
                (start, *end, passed.saturating_sub(returned))
            })
        })
    }

    fn passed(&self) -> u64 {
        self.passed.iter().map(|(_, units)| units).sum()
    }
}

/// At most max(capacity) + max(rate) * d, and what came back.
#[tokio::test(flavor = "multi_thread")]
async fn promise_1_exact_token_bucket_while_its_limit_changes() {
    let bucket = |capacity, limit| Bound { capacity, ..bound(Algorithm::TokenBucket, limit, Duration::from_secs(1)) };
    let history = history([bucket(50, 200), bucket(20, 100), bucket(80, 50)]).await;
    for (start, end, units) in history.intervals() {
        // Rounded up to steps of 16 µs; in millionths of a unit.
        let interval = (end / 16 - start / 16) * 16;
        assert!(units * 1_000_000 <= 80_000_000 + 200 * interval, "{units} units in {interval} µs");
    }
    assert!(history.passed() >= 150, "{} units", history.passed());
}

/// At most max(limit) in any interval shorter than the shortest window, and what came back.
#[tokio::test(flavor = "multi_thread")]
async fn promise_1_exact_windows_and_logs_while_their_limit_changes() {
    let of = |algorithm| {
        let of = |limit, ms| bound(algorithm, limit, Duration::from_millis(ms));
        history([of(100, 1_000), of(40, 1_500), of(70, 1_200)])
    };
    let (windows, logs) = futures::join!(of(Algorithm::SlidingWindow), of(Algorithm::SlidingLog));
    for (algorithm, history) in [(Algorithm::SlidingWindow, windows), (Algorithm::SlidingLog, logs)] {
        let short = |(start, end, _): &(u64, u64, u64)| end - start < 1_000_000;
        let most = history.intervals().filter(short).map(|(_, _, units)| units).max();
        assert!(most.is_some_and(|most| most <= 100), "{algorithm:?}: {most:?}");
        assert!(history.passed() >= 100, "{algorithm:?}: {} units", history.passed());
    }
}

/// At most max(limit) in each aligned window, and what came back.
#[tokio::test(flavor = "multi_thread")]
async fn promise_1_exact_fixed_window_while_its_limit_changes() {
    let of = |limit| bound(Algorithm::FixedWindow, limit, Duration::from_secs(1));
    let history = history([of(100), of(40), of(70)]).await;
    let of_one_window = |(start, end, _): &(u64, u64, u64)| start / 1_000_000 == end / 1_000_000;
    let most = history.intervals().filter(of_one_window).map(|(_, _, units)| units).max();
    assert!(most.is_some_and(|most| most <= 100), "{most:?}");
    assert!(history.passed() >= 150, "{} units", history.passed());
}
