use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_core::clock::Clock;
use weir_core::counter::{CounterCall, CounterReply};
use weir_core::key::{CounterKey, HashSecret, Tag, counter_key};
use weir_core::limit::{Algorithm, Bound};
use weir_core::subject::Subject;

use super::{FULL_TABLE, MemoryStore};

const SECOND: u64 = 1_000_000;

struct ManualClock {
    started: Instant,
    elapsed: Mutex<Duration>,
}

impl ManualClock {
    fn new() -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), elapsed: Mutex::new(Duration::ZERO) })
    }

    fn advance(&self, us: u64) {
        *self.elapsed.lock() += Duration::from_micros(us);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Instant {
        self.started + *self.elapsed.lock()
    }

    fn wall(&self) -> Duration {
        Duration::from_secs(1_795_996_800)
    }
}

fn key(subject: &str) -> CounterKey {
    let secret = HashSecret::built_in();
    counter_key(&secret, Tag::of_subject(&secret, "default", &Subject::parse(subject).unwrap()), "rule", &[])
}

fn bucket(limit: u64, window_us: u64) -> Bound {
    Bound { algorithm: Algorithm::TokenBucket, limit, capacity: limit, window_us, calendar: None }
}

fn check(store: &MemoryStore, subject: &str, bound: Bound) -> CounterReply {
    store.check_now(&[&[CounterCall::check(key(subject), bound, 1)]])[0][0]
}

/// Whether the store still knows that something was consumed.
fn remembers(store: &MemoryStore, subject: &str, bound: Bound) -> bool {
    let call = CounterCall::check(key(subject), bound, 0);
    store.check_now(&[&[call]])[0][0].remaining < bound.capacity
}

#[test]
fn the_table_is_bounded_and_counts_what_it_forgets() {
    let store = MemoryStore::new(10, ManualClock::new());
    for n in 0..25 {
        assert!(check(&store, &format!("user{n}"), bucket(5, 60 * SECOND)).allowed);
    }
    assert_eq!((store.len(), store.evictions()), (10, 15));
}

#[test]
fn expired_counters_go_first() {
    let clock = ManualClock::new();
    let store = MemoryStore::new(10, clock.clone());
    for n in 0..5 {
        check(&store, &format!("short{n}"), bucket(100, SECOND));
        check(&store, &format!("long{n}"), bucket(100, 6_000 * SECOND));
    }
    clock.advance(3 * SECOND);
    for n in 0..5 {
        check(&store, &format!("new{n}"), bucket(100, 6_000 * SECOND));
    }
    assert_eq!((store.len(), store.evictions()), (10, 0));
    assert!((0..5).all(|n| remembers(&store, &format!("long{n}"), bucket(100, 6_000 * SECOND))));
}

/// A client cannot have its exhausted counter forgotten by inventing subjects.
#[test]
fn exhausted_counters_stay_while_idle_ones_go() {
    let store = MemoryStore::new(100, ManualClock::new());
    let bound = bucket(2, 600 * SECOND);
    for n in 0..20 {
        let subject = format!("blocked{n}");
        assert!(
            check(&store, &subject, bound).allowed && check(&store, &subject, bound).allowed && !check(&store, &subject, bound).allowed
        );
    }
    for n in 0..5_000 {
        check(&store, &format!("flood{n}"), bound);
    }
    assert!((0..20).all(|n| !check(&store, &format!("blocked{n}"), bound).allowed));
    assert_eq!((store.len(), store.evictions()), (100, 4_920));
}

#[test]
fn where_all_are_exhausted_the_first_to_recover_goes() {
    let store = MemoryStore::new(3, ManualClock::new());
    for (subject, window) in [("a", 30), ("b", 10), ("c", 20)] {
        assert!(check(&store, subject, bucket(1, window * SECOND)).allowed);
    }
    check(&store, "d", bucket(1, 60 * SECOND));
    assert!(!remembers(&store, "b", bucket(1, 10 * SECOND)));
    assert!(remembers(&store, "a", bucket(1, 30 * SECOND)) && remembers(&store, "c", bucket(1, 20 * SECOND)));
}

#[test]
fn used_counters_stay_while_idle_ones_go() {
    let store = MemoryStore::new(50, ManualClock::new());
    let bound = bucket(1_000, 600 * SECOND);
    for n in 0..1_000 {
        check(&store, "busy", bound);
        check(&store, &format!("once{n}"), bound);
    }
    assert_eq!(check(&store, "busy", bound).remaining, 0);
    assert!(!check(&store, "busy", bound).allowed);
}

/// Memory is what is bounded: a log takes that of as many counters as its entries fill, and gives it back.
#[test]
fn long_logs_take_the_place_of_many_counters() {
    let clock = ManualClock::new();
    let store = MemoryStore::new(100, clock.clone());
    let log = Bound { algorithm: Algorithm::SlidingLog, ..bucket(10_000, 600 * SECOND) };
    for n in 0..99 {
        check(&store, &format!("once{n}"), bucket(10, 600 * SECOND));
    }
    let grow = |subject: &str, entries: u64| {
        for _ in 0..entries {
            clock.advance(1);
            assert!(check(&store, subject, log).allowed);
        }
    };
    grow("log", 7);
    assert_eq!((store.len(), store.evictions()), (100, 0));
    grow("log", 393);
    assert_eq!((store.len(), store.evictions()), (50, 50), "fifty and a log that weighs as much as fifty more");
    assert_eq!(check(&store, "log", Bound { capacity: 10_000, ..log }).remaining, 10_000 - 401);
    // Longer than all that is allowed: alone, and still counted.
    grow("log", 1_000);
    assert_eq!(store.len(), 1);
    grow("other", 200);
    assert_eq!((store.len(), check(&store, "log", log).remaining), (1, 10_000 - 1), "the other one took its place, and it started anew");
    clock.advance(700 * SECOND);
    for n in 0..200 {
        check(&store, &format!("new{n}"), bucket(10, 600 * SECOND));
    }
    assert_eq!(store.len(), 100, "what expired weighs nothing");
}

#[test]
fn a_bucket_starts_at_a_given_level_unless_there_is_one() {
    let clock = ManualClock::new();
    let store = MemoryStore::new(10, clock.clone());
    let bound = bucket(10, 10 * SECOND);
    assert!(store.start_bucket(key("a"), &bound, 7));
    assert!(!store.start_bucket(key("a"), &bound, 0));
    assert_eq!(check(&store, "a", bound).remaining, 2);
    store.remove(&key("a"));
    assert_eq!(check(&store, "a", bound).remaining, 9);
    // Once it has expired there is none.
    clock.advance(20 * SECOND);
    assert!(store.start_bucket(key("a"), &bound, 50));
    assert!(!check(&store, "a", bound).allowed);
    assert!(!store.start_bucket(key("b"), &bucket(0, SECOND), 0));
}

/// A cost above this agent's share passes on a full bucket when it is asked with a capacity of that cost, and leaves a debt.
#[test]
fn a_bucket_can_be_in_debt() {
    let clock = ManualClock::new();
    let store = MemoryStore::new(10, clock.clone());
    let share = bucket(10, 10 * SECOND);
    let large = CounterCall::check(key("a"), Bound { capacity: 30, ..share }, 30);
    assert!(store.check_now(&[std::slice::from_ref(&large)])[0][0].allowed);
    let refused = check(&store, "a", share);
    assert_eq!((refused.allowed, refused.remaining, refused.retry_after_us), (false, 0, Some(21 * SECOND)));
    clock.advance(21 * SECOND);
    assert!(!store.check_now(&[std::slice::from_ref(&large)])[0][0].allowed, "not full");
    assert!(check(&store, "a", share).allowed);
}

/// Many tables: the limits of one request may be in several, and requests from several threads never admit more than the limit.
#[test]
fn requests_over_several_tables_are_all_or_nothing() {
    let store = Arc::new(MemoryStore::new(FULL_TABLE * 16, ManualClock::new()));
    let keys: Vec<CounterKey> = (0..8).map(|n| key(&format!("user{n}"))).collect();
    let places: std::collections::BTreeSet<usize> = keys.iter().map(|key| store.place_of(key)).collect();
    assert!(places.len() > 1, "the keys are spread");
    let threads: Vec<_> = (0..4)
        .map(|thread: usize| {
            let (store, mut keys) = (store.clone(), keys.clone());
            keys.rotate_left(thread * 2);
            std::thread::spawn(move || {
                let call = |key: &CounterKey| CounterCall::check(*key, bucket(100, 3_600 * SECOND), 1);
                let calls: Vec<CounterCall> = keys.iter().map(call).collect();
                (0..100).filter(|_| store.check_now(&[&calls])[0].iter().all(|reply| reply.allowed)).count()
            })
        })
        .collect();
    let admitted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(admitted, 100);
    assert!((0..8).all(|n| check(&store, &format!("user{n}"), bucket(100, 3_600 * SECOND)).remaining == 0));
}
