//! What a rule does without its shard: count in this process, allow, or refuse.
//!
//! `local` is a token bucket in the memory store whatever the rule's algorithm, with this agent's share of the limit; for `concurrency` it is
//! leases there. So all agents together let through about what the limit says, and one call can take at most a minute's refill at once.
//!
//! While a shard is short of memory, callers who have no counter there share one of the rule here.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use std::time::{Duration, Instant};
use weir_core::clock::Clock;
use weir_core::counter::{CounterCall, CounterReply};
use weir_core::failure::{FailureMode, FailurePolicy};
use weir_core::key::CounterKey;
use weir_core::lease::LeaseId;
use weir_core::limit::{Algorithm, Bound, MAX_UNITS};

use super::agents::LiveAgents;
use super::memory::MemoryStore;
use super::seen::LastSeen;
use super::shared_leases::SharedLeases;
use super::store::{Refund, Release};

/// The most that a local bucket holds, as time of its refill.
const MOST_REFILL_US: f64 = 60_000_000.0;

/// What `policy` says once the shard has been away this long.
///
/// `local` and `open` keep the service up when Redis is not; `closed` is for limits where letting too much through costs more than
/// refusing, and `escalate` is for those where it does so only after a while.
pub(super) fn mode(policy: &FailurePolicy, away: Duration) -> FailureMode {
    match policy.escalate {
        Some(escalation) if away >= escalation.after.as_duration() => escalation.to,
        _ => policy.mode,
    }
}

/// One limit that is decided without its shard.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocalCall<'a> {
    pub(super) call: &'a CounterCall,
    pub(super) generosity: f64,
    /// Counted there, together with others of the rule.
    pub(super) overflow: Option<CounterKey>,
}

/// The local buckets of this process.
pub(super) struct Fallback {
    memory: Arc<MemoryStore>,
    seen: LastSeen,
    agents: Mutex<LiveAgents>,
    /// Starting a bucket and taking from it are one step: nobody may take from a bucket that another check is about to start. Whoever starts
    /// one writes; others read.
    step: RwLock<()>,
    shared_leases: SharedLeases,
    clock: Arc<dyn Clock>,
}

impl Fallback {
    pub(super) fn new(memory: Arc<MemoryStore>, agents: u32, clock: Arc<dyn Clock>) -> Self {
        let seen = LastSeen::new(clock.now());
        Self {
            memory,
            seen,
            agents: Mutex::new(LiveAgents::new(agents)),
            step: RwLock::new(()),
            shared_leases: SharedLeases::default(),
            clock,
        }
    }

    pub(super) fn set_live_agents(&self, agents: u32) {
        self.agents.lock().set(agents, self.clock.now());
    }

    /// What a shard said about a counter: where the local count would start.
    pub(super) fn note(&self, call: &CounterCall, reply: &CounterReply) {
        if call.bound.algorithm != Algorithm::Concurrency && !reply.uncounted {
            self.seen.note(&call.key, reply.remaining, Duration::from_micros(reply.reset_after_us), self.clock.now());
        }
    }

    /// Decides limits of one request, all or nothing for those that can refuse. Each reply comes with what gives its units back.
    pub(super) fn decide(&self, calls: &[LocalCall<'_>]) -> Vec<(CounterReply, Refund)> {
        if calls.is_empty() {
            return Vec::new();
        }
        let now = self.clock.now();
        let share = Share { agents: self.agents.lock().get(now) };
        let local: Vec<CounterCall> = calls.iter().map(|lost| share.call(lost)).collect();
        let starts_none = || local.iter().all(|call| !self.seen.knows(&call.key, now));
        let replies = match self.step.read() {
            _step if starts_none() => self.memory.check_now(&[&local]),
            step => {
                drop(step);
                let _step = self.step.write();
                for (lost, local) in calls.iter().zip(&local) {
                    self.start(lost, local, share, now);
                }
                self.memory.check_now(&[&local])
            }
        };
        let replies = replies.into_iter().next().unwrap_or_default();
        let admitted = local.iter().zip(&replies).all(|(call, reply)| call.shadow || reply.allowed);
        for (lost, _) in calls.iter().zip(&replies).filter(|(_, reply)| admitted && reply.allowed) {
            if let (Some(overflow), Some(lease)) = (lost.overflow, lost.call.lease) {
                let until = now + Duration::from_micros(lost.call.bound.window_us);
                self.shared_leases.note(lease, lost.call.key, overflow, until, now);
            }
        }
        let refund = |((lost, call), reply): ((&LocalCall<'_>, &CounterCall), CounterReply)| {
            // A lease is found again by its own key.
            let key = if call.lease.is_some() { lost.call.key } else { call.key };
            (reply, Refund { key, ..Refund::of(call, &reply) })
        };
        calls.iter().zip(&local).zip(replies).map(refund).collect()
    }

    /// Gives back what a request took that was refused elsewhere.
    pub(super) fn refund(&self, refunds: &[Refund]) {
        let here = |refund: &Refund| Refund { key: self.held_at(refund.lease, refund.key), ..refund.clone() };
        self.memory.refund_now(&refunds.iter().map(here).collect::<Vec<_>>());
    }

    /// Forgets a counter, and what its shard said.
    pub(super) fn reset(&self, key: &CounterKey) {
        let _step = self.step.write();
        self.memory.remove(key);
        self.seen.take(key, self.clock.now());
    }

    /// Ends leases that were acquired here. Returns whether each was.
    pub(super) fn release(&self, releases: &[Release]) -> Vec<bool> {
        if self.memory.is_empty() {
            return vec![false; releases.len()];
        }
        let here = |release: &Release| Release { key: self.held_at(Some(release.lease), release.key), ..*release };
        self.memory.release_now(&releases.iter().map(here).collect::<Vec<_>>())
    }

    /// Under which key the units or the lease are that go back to `own`.
    fn held_at(&self, lease: Option<LeaseId>, own: CounterKey) -> CounterKey {
        lease.map_or(own, |lease| self.shared_leases.end(lease, own))
    }

    /// If the shard was heard since the last local decision of this counter, the bucket starts with this agent's share of what was left
    /// then, or with what the bucket itself has, if that is less: a shard that comes and goes does not fill it.
    fn start(&self, lost: &LocalCall<'_>, local: &CounterCall, share: Share, now: Instant) {
        let Some(remaining) = self.seen.take(&local.key, now) else { return };
        let bound = share.bound(&lost.call.bound, lost.generosity);
        let peek = CounterCall { bound, cost: 0, ..local.clone() };
        let has = self.memory.check_now(&[&[peek]]).into_iter().flatten().next().map_or(bound.capacity, |reply| reply.remaining);
        let start = whole_units(share.of(remaining, lost.generosity)).min(bound.capacity);
        if start < has {
            self.memory.remove(&local.key);
            self.memory.start_bucket(local.key, &bound, bound.capacity - start);
        }
    }
}

impl std::fmt::Debug for Fallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fallback").field("counters", &self.memory.len()).finish_non_exhaustive()
    }
}

/// This agent's part of everything.
#[derive(Debug, Clone, Copy)]
struct Share {
    agents: u32,
}

impl Share {
    #[allow(clippy::cast_precision_loss, reason = "units are below 2^53")]
    fn of(self, units: u64, generosity: f64) -> f64 {
        units as f64 * generosity / f64::from(self.agents)
    }

    /// The bucket that stands for `bound` here. The refill `share(limit)/window` is written as the whole limit in a window that is longer
    /// by as much, since units are whole numbers.
    #[allow(clippy::cast_precision_loss, reason = "units and microseconds are below 2^53")]
    fn bound(self, bound: &Bound, generosity: f64) -> Bound {
        if bound.algorithm == Algorithm::Concurrency {
            let limit = whole_units(self.of(bound.limit, generosity)).clamp(1, bound.limit.max(1));
            return Bound { limit, capacity: limit, ..*bound };
        }
        let minute = self.of(bound.limit, generosity) * (MOST_REFILL_US / bound.window_us as f64);
        let capacity = self.of(bound.capacity, generosity).min(minute).max(1.0);
        let window_us = whole_units((bound.window_us as f64 * f64::from(self.agents) / generosity).ceil()).max(1);
        Bound { algorithm: Algorithm::TokenBucket, limit: bound.limit, capacity: whole_units(capacity), window_us, calendar: None }
    }

    /// The call on the local bucket. A cost above the bucket's capacity but within the rule's passes on a full bucket only, and leaves a
    /// debt: a bucket of just that size, which holds nothing but this cost.
    fn call(self, lost: &LocalCall<'_>) -> CounterCall {
        let mut bound = self.bound(&lost.call.bound, lost.generosity);
        if lost.call.cost <= lost.call.bound.capacity && bound.algorithm != Algorithm::Concurrency {
            bound.capacity = bound.capacity.max(lost.call.cost);
        }
        CounterCall { bound, key: lost.overflow.unwrap_or(lost.call.key), may_create: true, ..lost.call.clone() }
    }
}

/// Rounds down, into the range of units.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "clamped to the range of units")]
fn whole_units(units: f64) -> u64 {
    units.clamp(0.0, MAX_UNITS as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::failure::Escalation;
    use weir_core::key::{HashSecret, Tag, counter_key};
    use weir_core::span::Span;

    struct TestClock(Mutex<Instant>);

    impl TestClock {
        fn new() -> Arc<Self> {
            Arc::new(Self(Mutex::new(Instant::now())))
        }

        fn pass(&self, time: Duration) {
            *self.0.lock() += time;
        }
    }

    impl Clock for TestClock {
        fn now(&self) -> Instant {
            *self.0.lock()
        }

        fn wall(&self) -> Duration {
            Duration::ZERO
        }
    }

    fn fallback(agents: u32) -> (Fallback, Arc<TestClock>) {
        let clock = TestClock::new();
        (Fallback::new(Arc::new(MemoryStore::new(1000, clock.clone())), agents, clock.clone()), clock)
    }

    fn call(limit: u64, window: Duration, cost: u64) -> CounterCall {
        let secret = HashSecret::built_in();
        let key = counter_key(&secret, Tag::of_rule(&secret, "d", "r", &[]), "r", &[]);
        let window_us = u64::try_from(window.as_micros()).unwrap();
        let bound = Bound { algorithm: Algorithm::SlidingWindow, limit, capacity: limit, window_us, calendar: None };
        CounterCall::check(key, bound, cost)
    }

    fn decide(fallback: &Fallback, call: &CounterCall) -> CounterReply {
        fallback.decide(&[LocalCall { call, generosity: 1.0, overflow: None }])[0].0
    }

    /// A shard says that so much is left, and that it takes a minute to be full again.
    fn note(fallback: &Fallback, call: &CounterCall, remaining: u64) {
        fallback.note(call, &CounterReply::passed(remaining, 60_000_000, 0));
    }

    fn admitted(fallback: &Fallback, call: &CounterCall, tries: usize) -> usize {
        (0..tries).filter(|_| decide(fallback, call).allowed).count()
    }

    const MINUTE: Duration = Duration::from_secs(60);

    /// BB-12: alone, exactly the limit.
    #[test]
    fn bb_12_one_agent_lets_the_whole_limit_through() {
        let (fallback, _) = fallback(1);
        assert_eq!(admitted(&fallback, &call(3, MINUTE, 1), 100), 3);
    }

    /// BB-13: two agents get half each, and refill at half the rate.
    #[test]
    fn bb_13_the_limit_is_shared() {
        let (fallback, clock) = fallback(2);
        let call = call(30, Duration::from_secs(1), 1);
        assert_eq!(admitted(&fallback, &call, 100), 15);
        clock.pass(Duration::from_secs(1));
        assert_eq!(admitted(&fallback, &call, 100), 15);
        clock.pass(Duration::from_millis(200));
        assert_eq!(admitted(&fallback, &call, 100), 3);
    }

    /// BB-13: a share below one neither blocks for ever nor lets one unit through per agent and window.
    #[test]
    fn bb_13_a_share_below_one_still_passes_sometimes() {
        let (fallback, clock) = fallback(3);
        let call = call(2, MINUTE, 1);
        assert_eq!(admitted(&fallback, &call, 10), 1);
        clock.pass(MINUTE);
        assert_eq!(admitted(&fallback, &call, 10), 0);
        clock.pass(MINUTE / 2);
        assert_eq!(admitted(&fallback, &call, 10), 1);
    }

    #[test]
    fn a_bucket_holds_at_most_a_minute_of_refill() {
        let share = Share { agents: 1 };
        let quota = call(86_400, Duration::from_secs(86_400), 1).bound;
        assert_eq!(share.bound(&quota, 1.0).capacity, 60);
        assert_eq!(share.bound(&quota, 10.0).capacity, 600);
        let rare = call(5, Duration::from_secs(86_400), 1).bound;
        assert_eq!(share.bound(&rare, 1.0).capacity, 1);
    }

    #[test]
    fn it_starts_with_the_share_of_what_was_left() {
        let (fallback, _) = fallback(2);
        let call = call(30, MINUTE, 1);
        note(&fallback, &call, 8);
        assert_eq!(admitted(&fallback, &call, 100), 4);
        // Heard again, and away again: what the bucket lacks is not filled up.
        note(&fallback, &call, 30);
        assert_eq!(admitted(&fallback, &call, 100), 0);
    }

    #[test]
    fn a_cost_above_the_bucket_passes_when_full_and_leaves_a_debt() {
        let (fallback, clock) = fallback(1);
        let (large, small) = (call(86_400, Duration::from_secs(86_400), 120), call(86_400, Duration::from_secs(86_400), 1));
        assert!(decide(&fallback, &small).allowed);
        assert!(!decide(&fallback, &large).allowed, "the bucket is not full");
        clock.pass(Duration::from_secs(2));
        assert!(decide(&fallback, &large).allowed);
        clock.pass(Duration::from_secs(60));
        assert!(!decide(&fallback, &small).allowed, "120 taken, 60 refilled: as much is owed as the bucket holds");
        clock.pass(Duration::from_secs(2));
        assert!(decide(&fallback, &small).allowed);
    }

    #[test]
    fn a_cost_above_the_rule_never_passes() {
        let (fallback, _) = fallback(1);
        let reply = decide(&fallback, &call(10, MINUTE, 11));
        assert_eq!((reply.allowed, reply.retry_after_us), (false, None));
    }

    /// Rules of one request share its lease: what one of them holds in the counter of all ends with its own release, in whatever order they come,
    /// and a request that was refused holds nothing.
    #[test]
    fn leases_under_a_shared_counter_end_each_by_itself() {
        let (fallback, _) = fallback(1);
        let lease = LeaseId::new([7; 16]);
        let bound = Bound { algorithm: Algorithm::Concurrency, limit: 2, capacity: 2, window_us: 60_000_000, calendar: None };
        let held = |rule: &str, limit: u64| {
            let call = call(limit, Duration::from_secs(60), 1);
            let key = counter_key(&HashSecret::built_in(), Tag::of_rule(&HashSecret::built_in(), "default", rule, &[]), rule, &[]);
            CounterCall { key, bound: Bound { limit, capacity: limit, ..bound }, lease: Some(lease), ..call }
        };
        let (all, user, shared) = (held("all", 2), held("user", 2), held("shared", 2));
        let look = |of: &CounterCall| decide(&fallback, &CounterCall { cost: 0, lease: None, ..of.clone() }).remaining;
        let request = |all, user| {
            [
                LocalCall { call: all, generosity: 1.0, overflow: None },
                LocalCall { call: user, generosity: 1.0, overflow: Some(shared.key) },
            ]
        };
        for first in [0, 1] {
            assert!(fallback.decide(&request(&all, &user)).iter().all(|(reply, _)| reply.allowed));
            assert_eq!((look(&all), look(&shared)), (1, 1));
            let releases = [Release { key: all.key, lease }, Release { key: user.key, lease }];
            assert_eq!(fallback.release(&[releases[first]]), [true]);
            assert_eq!((look(&all), look(&shared)), if first == 0 { (2, 1) } else { (1, 2) });
            assert_eq!(fallback.release(&[releases[1 - first]]), [true]);
            assert_eq!((look(&all), look(&shared)), (2, 2));
        }
        // Given back because of a refusal elsewhere.
        let taken: Vec<Refund> = fallback.decide(&request(&all, &user)).into_iter().map(|(_, refund)| refund).collect();
        fallback.refund(&taken);
        assert_eq!((look(&all), look(&shared)), (2, 2));
        // Refused here: nothing is held, so nothing can end.
        let full = held("full", 1);
        assert!(decide(&fallback, &CounterCall { lease: Some(LeaseId::new([8; 16])), ..full.clone() }).allowed);
        assert!(!fallback.decide(&request(&full, &user))[0].0.allowed);
        assert_eq!(fallback.shared_leases.end(lease, user.key), user.key);
    }

    #[test]
    fn all_or_nothing_and_back() {
        let (fallback, _) = fallback(1);
        let (one, mut other) = (call(10, MINUTE, 1), call(1, MINUTE, 1));
        other.key = counter_key(&HashSecret::built_in(), Tag::of_rule(&HashSecret::built_in(), "d", "o", &[]), "o", &[]);
        let both = [LocalCall { call: &one, generosity: 1.0, overflow: None }, LocalCall { call: &other, generosity: 1.0, overflow: None }];
        let first = fallback.decide(&both);
        assert!(first.iter().all(|(reply, _)| reply.allowed));
        assert!(!fallback.decide(&both)[1].0.allowed);
        assert_eq!(decide(&fallback, &CounterCall { cost: 0, ..one.clone() }).remaining, 9);
        fallback.refund(&[first[0].1.clone()]);
        assert_eq!(decide(&fallback, &CounterCall { cost: 0, ..one }).remaining, 10);
    }

    #[test]
    fn a_policy_escalates_after_its_time() {
        let escalate = Some(Escalation { after: Span::from_secs(5), to: FailureMode::Closed });
        let policy = FailurePolicy { escalate, ..FailurePolicy::default() };
        assert_eq!(mode(&policy, Duration::from_millis(4_999)), FailureMode::Local);
        assert_eq!(mode(&policy, Duration::from_secs(5)), FailureMode::Closed);
        assert_eq!(mode(&FailurePolicy::default(), MINUTE), FailureMode::Local);
    }
}
