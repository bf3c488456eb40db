//! Three shards under load, the first of them in trouble for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use weir_agent::limiter::breaker::BreakerState;
use weir_agent::limiter::{LimitAnswer, LimitQuery, Limiter, LimiterSettings};
use weir_core::decision::Cause;
use weir_core::failure::FailureMode;
use weir_testbed::{Proxy, Redis, await_until};

use crate::support::*;

/// Each shard is asked this often: 750 checks a second over all three.
const PACE: Duration = Duration::from_millis(4);
/// So many checks may be late before the shard's trouble is known.
const FIRST: usize = 10;
/// The longest pause of the test's own ticker at which a run counts.
const HICCUP: Duration = Duration::from_millis(20);
/// The most memory, in bytes, that trouble may take: room for what an allocator does, none for what piles up.
const MEMORY: u64 = 48 << 20;
/// The most connections made to the troubled shard in each second of trouble (its breaker pauses up to 2 s), beside a few at the beginning.
const CONNECTIONS: (usize, usize) = (15, 3);

/// Three shards, the first behind a proxy, and a question for each.
pub(crate) struct Bed {
    pub(crate) servers: Vec<Redis>,
    pub(crate) proxy: Proxy,
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) questions: Vec<LimitQuery>,
}

/// What trouble does to the answers of the shard that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It decides nothing.
    Away,
    /// It decides what it can.
    Some,
    /// It decides everything.
    None,
}

/// How long a shard stays in trouble, and whether a pause of the machine makes the run worthless.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    length: Duration,
    excusable: bool,
}

impl Run {
    /// The first run, which is worth nothing if the machine itself stood still.
    pub(crate) const fn of(length: Duration) -> Self {
        Self { length, excusable: true }
    }

    /// The second run, which counts.
    pub(crate) const fn again(self) -> Self {
        Self { excusable: false, ..self }
    }
}

/// What came of one check.
struct Outcome {
    answer: LimitAnswer,
    took: Duration,
}

impl Bed {
    /// The first shard is reached through a proxy.
    pub(crate) async fn new() -> Self {
        Self::with(LimiterSettings::default(), |server, proxy| server.url_through(proxy.addr())).await
    }

    /// The address of the first shard is made of its server and the proxy before it.
    pub(crate) async fn with(settings: LimiterSettings, address: impl FnOnce(&Redis, &Proxy) -> String) -> Self {
        let servers = redises(3).await;
        let proxy = Proxy::start(servers[0].addr().expect("TCP")).await.expect("a port");
        let address = address(&servers[0], &proxy);
        Self::of(settings, servers, proxy, address).await
    }

    /// A bed whose first shard is at `address`.
    pub(crate) async fn of(settings: LimiterSettings, servers: Vec<Redis>, proxy: Proxy, address: String) -> Self {
        let urls = [address, servers[1].url(), servers[2].url()];
        let limiter = limiter_with(settings, urls.iter().map(String::as_str)).await;
        let questions = ["s0", "s1", "s2"].map(|shard| query(key_on(&limiter, shard, "fault"), 10_000_000)).to_vec();
        let bed = Self { servers, proxy, limiter, questions };
        bed.recovers().await;
        bed
    }

    pub(crate) async fn is_normal(&self) -> bool {
        in_time(&self.limiter, &self.questions[0]).await.degraded.is_none()
    }

    /// Asks all shards for so long; returns what each said, and the longest pause of the test's own ticker.
    async fn ask(&self, length: Duration) -> ([Vec<Outcome>; 3], Duration) {
        let over = Arc::new(AtomicBool::new(false));
        let ticker = tokio::spawn(longest_pause(over.clone()));
        let mut pace = tokio::time::interval(PACE);
        let (mut checks, mut outcomes) = (JoinSet::new(), [const { Vec::new() }; 3]);
        let end = Instant::now() + length;
        let mut number = 0usize;
        while Instant::now() < end {
            pace.tick().await;
            for (shard, question) in self.questions.iter().cloned().enumerate() {
                let (limiter, at) = (self.limiter.clone(), number);
                checks.spawn(async move {
                    let start = Instant::now();
                    let answer = limiter.decide(std::slice::from_ref(&question), start + BUDGET).await.remove(0).expect("asked");
                    (shard, at, Outcome { answer, took: start.elapsed() })
                });
            }
            number += 1;
        }
        let mut all = checks.join_all().await;
        over.store(true, Ordering::Relaxed);
        all.sort_by_key(|(_, at, _)| *at);
        for (shard, _, outcome) in all {
            outcomes[shard].push(outcome);
        }
        (outcomes, ticker.await.expect("no panic"))
    }

    /// Stays in trouble for so long, and asserts what must hold meanwhile. False if the machine itself stood still in a run that is excused by it.
    pub(crate) async fn endures(&self, run: Run, effect: Effect) -> bool {
        let (connections, memory) = (self.proxy.accepted(), resident());
        let ([troubled, healthy @ ..], pause) = self.ask(run.length).await;
        let made = self.proxy.accepted() - connections;
        let seconds = usize::try_from(run.length.as_secs()).expect("small");
        assert!(made <= CONNECTIONS.0 + CONNECTIONS.1 * seconds, "{made} connections");
        let grown = resident().saturating_sub(memory);
        assert!(grown <= MEMORY, "memory grew by {grown} bytes");
        if pause > HICCUP && run.excusable {
            return false;
        }
        let lost: Vec<_> = healthy.iter().flatten().filter_map(|outcome| outcome.answer.degraded).collect();
        assert!(lost.is_empty(), "{} decisions of the other shards are degraded: {:?}", lost.len(), &lost[..lost.len().min(5)]);
        for outcomes in [&troubled, &healthy[0], &healthy[1]] {
            assert_in_time(outcomes);
        }
        for outcome in &troubled {
            self.assert_effect(effect, outcome);
        }
        if effect == Effect::Away {
            let status = self.limiter.shards();
            assert_ne!(status[0].breaker, BreakerState::Closed);
            assert!(status[0].last_error.is_some());
            assert_eq!((status[1].breaker, status[2].breaker), (BreakerState::Closed, BreakerState::Closed));
        }
        true
    }

    fn assert_effect(&self, effect: Effect, Outcome { answer, took }: &Outcome) {
        let Some(degraded) = answer.degraded else {
            assert_ne!(effect, Effect::Away, "{answer:?}");
            return;
        };
        assert_ne!(effect, Effect::None, "after {took:?}: {answer:?}; {:?}", self.limiter.shards());
        assert_eq!((degraded.mode, answer.reply.allowed), (FailureMode::Closed, false));
        assert!(matches!(degraded.cause, Cause::Timeout | Cause::Error | Cause::BreakerOpen), "{degraded:?}");
    }

    /// Service is normal soon, connections and breaker included.
    pub(crate) async fn recovers(&self) {
        let settled = async || {
            let status = &self.limiter.shards()[0];
            self.is_normal().await && status.last_error.is_none() && status.breaker == BreakerState::Closed && self.proxy.open() <= 1
        };
        assert!(await_until(RECOVERY, settled).await, "{:?}", self.limiter.shards());
    }
}

/// After the first few, 99 of 100 checks are answered within the budget.
fn assert_in_time(troubled: &[Outcome]) {
    let mut took: Vec<Duration> = troubled.iter().skip(FIRST).map(|outcome| outcome.took).collect();
    took.sort_unstable();
    let p99 = took[took.len() * 99 / 100];
    assert!(p99 <= BUDGET + MARGIN, "the 99th percentile is {p99:?}");
}

async fn longest_pause(over: Arc<AtomicBool>) -> Duration {
    let (mut longest, mut last) = (Duration::ZERO, Instant::now());
    while !over.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(2)).await;
        longest = longest.max(last.elapsed());
        last = Instant::now();
    }
    longest
}
