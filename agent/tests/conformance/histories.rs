//! Long random histories: whatever happens to limits, windows, algorithms and clocks, the script and the models say the same.

use std::ops::Range;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use weir_agent::limiter::store::{Refund, Release};
use weir_core::calendar::CalendarUnit;
use weir_core::counter::{Action, CounterCall};
use weir_core::key::CounterKey;
use weir_core::limit::{Algorithm, Bound, MAX_UNITS};
use weir_testbed::Flavor;

use crate::calls::{DAY, HOUR, MINUTE, SECOND, calendar as calendar_of, key_of, lease};
use crate::clocked::Clocked;

/// One event of a history, on counters named by small numbers.
#[derive(Debug, Clone)]
enum Event {
    /// Time passes; or the clock is set back.
    Clock(i64),
    /// A batch of requests.
    Check(Vec<Vec<Call>>),
    /// What was consumed `ago` microseconds before goes back; nobody knows when, if `None`.
    Refund { call: Call, ago: Option<u64> },
    /// Counters are cleared.
    Reset(Vec<u8>),
    /// A lease ends.
    Release { counter: u8, lease: u8 },
    /// Another hand writes something under a counter's key.
    Garbage { counter: u8, text: &'static [u8] },
}

#[derive(Debug, Clone)]
struct Call {
    counter: u8,
    bound: Bound,
    cost: u64,
    shadow: bool,
    action: Action,
    lease: Option<u8>,
    may_create: bool,
}

impl Call {
    fn of(&self, case: u64) -> CounterCall {
        CounterCall {
            shadow: self.shadow,
            action: self.action,
            lease: self.lease.map(|number| lease(number.into())),
            may_create: self.may_create,
            ..CounterCall::check(key(case, self.counter), self.bound, self.cost)
        }
    }
}

/// Nothing of the lengths that states of ours have: what is in those may be read by chance.
const GARBAGE: [&[u8]; 4] = [b"hello", b"", b"17", b"{\"count\":3}"];

fn bound() -> impl Strategy<Value = Bound> {
    let algorithm = prop::sample::select(Algorithm::ALL.to_vec());
    let small = prop_oneof![Just(0u64), 1..=20u64, 90..=110u64];
    let large = prop_oneof![1_000..2_000_000u64, Just(1 << 32), Just(1 << 37), (1 << 37)..MAX_UNITS, Just(MAX_UNITS)];
    let units = prop_oneof![6 => small, 1 => large].boxed();
    let window = prop::sample::select(vec![SECOND, SECOND + 1_000, 7 * SECOND, MINUTE, HOUR, DAY, 366 * DAY]);
    let zones = ["UTC", "Europe/Zurich", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia"];
    let calendar = (prop::sample::select(CalendarUnit::ALL.to_vec()), prop::sample::select(zones.to_vec()));
    (algorithm, units.clone(), prop::option::of(units), window, prop::option::of(calendar)).prop_map(
        |(algorithm, limit, burst, window_us, unit_and_zone)| {
            let limit = limit.min(algorithm.max_limit());
            if let (Algorithm::FixedWindow, Some((unit, zone))) = (algorithm, unit_and_zone) {
                return calendar_of(limit, unit, zone);
            }
            let capacity = match algorithm {
                Algorithm::TokenBucket => burst.unwrap_or(limit).max(1),
                _ => limit,
            };
            Bound { algorithm, limit, capacity, window_us, calendar: None }
        },
    )
}

fn call(bounds: Vec<Bound>) -> impl Strategy<Value = Call> {
    let cost = prop_oneof![8 => Just(1u64), 2 => 0..=5u64, 1 => 0..=120u64, 1 => 0..=MAX_UNITS];
    let action = prop_oneof![8 => Just(Action::Check), 1 => Just(Action::Peek), 1 => Just(Action::Record)];
    let weighted = prop::bool::weighted;
    (0..4u8, prop::sample::select(bounds), cost, weighted(0.2), action, prop::option::weighted(0.95, 0..30u8), weighted(0.9)).prop_map(
        |(counter, bound, cost, shadow, action, lease, may_create)| Call { counter, bound, cost, shadow, action, lease, may_create },
    )
}

/// One to three limits, on different counters.
fn request(bounds: Vec<Bound>) -> impl Strategy<Value = Vec<Call>> {
    prop::collection::vec(call(bounds), 1..=3).prop_map(|mut calls| {
        calls.sort_by_key(|call| call.counter);
        calls.dedup_by_key(|call| call.counter);
        calls
    })
}

fn event(bounds: Vec<Bound>) -> impl Strategy<Value = Event> {
    let second = i64::try_from(SECOND).expect("it fits");
    let clock = prop_oneof![
        4 => 1..=40i64,
        6 => 1..=2 * second,
        4 => 1..=100 * second,
        2 => 1..=200_000 * second,
        1 => 1..=4_000_000 * second,
        1 => -20 * second..=-1,
        1 => -4_000 * second..=-1,
        1 => -2_000_000 * second..=-1,
    ];
    prop_oneof![
        8 => clock.prop_map(Event::Clock),
        16 => prop::collection::vec(request(bounds.clone()), 1..=6).prop_map(Event::Check),
        2 => (call(bounds), prop::option::of(0..=70 * SECOND)).prop_map(|(call, ago)| Event::Refund { call, ago }),
        1 => prop::collection::vec(0..4u8, 1..=2).prop_map(Event::Reset),
        2 => (0..4u8, 0..30u8).prop_map(|(counter, lease)| Event::Release { counter, lease }),
        1 => (0..4u8, prop::sample::select(GARBAGE.to_vec())).prop_map(|(counter, text)| Event::Garbage { counter, text }),
    ]
}

/// Few bounds per history, so that counters are used under one for a while before another comes.
fn history(events: Range<usize>) -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(bound(), 1..=4).prop_flat_map(move |bounds| prop::collection::vec(event(bounds), events.clone()))
}

fn key(case: u64, counter: u8) -> CounterKey {
    key_of(&format!("case{case}"), &format!("counter{counter}"))
}

/// Plays a history on both and compares every reply.
async fn replay(case: u64, history: &[Event], model: &mut Clocked, server: &mut Clocked) -> Result<(), TestCaseError> {
    let mut now: u64 = 400 * DAY;
    for (place, event) in history.iter().enumerate() {
        match event {
            Event::Clock(us) if *us < 0 && !server.can_step_back() => {}
            Event::Clock(us) => now = now.saturating_add_signed(*us),
            Event::Check(requests) => {
                let requests: Vec<Vec<CounterCall>> =
                    requests.iter().map(|calls| calls.iter().map(|call| call.of(case)).collect()).collect();
                let requests: Vec<&[CounterCall]> = requests.iter().map(Vec::as_slice).collect();
                let (said, meant) = (server.check_batch(now, &requests).await, model.check_batch(now, &requests).await);
                prop_assert_eq!(said, meant, "event {} at {}", place, now);
            }
            Event::Refund { call, ago } => {
                let time_us = ago.map_or(0, |ago| crate::calls::START + now.saturating_sub(ago));
                let call = call.of(case);
                let refund = Refund { key: call.key, bound: call.bound, units: call.units(), time_us, lease: call.lease };
                let refund = std::slice::from_ref(&refund);
                let (said, meant) = (server.refund(now, refund).await, model.refund(now, refund).await);
                prop_assert_eq!(said, meant, "event {} at {}", place, now);
            }
            Event::Reset(counters) => {
                let keys: Vec<CounterKey> = counters.iter().map(|counter| key(case, *counter)).collect();
                let (said, meant) = (server.reset(now, &keys).await, model.reset(now, &keys).await);
                prop_assert_eq!(said, meant, "event {} at {}", place, now);
            }
            Event::Garbage { .. } if !server.can_step_back() => {}
            Event::Garbage { counter, text } => {
                server.spoil(&key(case, *counter), text).await;
                model.spoil(&key(case, *counter), text).await;
            }
            Event::Release { counter, lease: number } => {
                let release = [Release { key: key(case, *counter), lease: lease((*number).into()) }];
                let (said, meant) = (server.release(now, &release).await, model.release(now, &release).await);
                prop_assert_eq!(said, meant, "event {} at {}", place, now);
            }
        }
    }
    Ok(())
}

/// How many histories, and of how many events.
#[derive(Debug, Clone)]
struct Size {
    cases: u32,
    events: Range<usize>,
}

impl Size {
    const fn usual(cases: u32) -> Self {
        Self { cases, events: 1..60 }
    }

    const fn long(cases: u32) -> Self {
        Self { cases, events: 500..3_000 }
    }
}

fn compare_on(server: impl Future<Output = Clocked>, Size { cases, events }: Size) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut server = runtime.block_on(server);
    let mut model = Clocked::model();
    let config = ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(cases),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        source_file: Some(file!()),
        ..ProptestConfig::default()
    };
    let mut case = 0;
    // Every run, those of shrinking included, starts with counters of its own.
    let cell = std::cell::RefCell::new((&mut server, &mut model, &mut case));
    let result = proptest::test_runner::TestRunner::new(config).run(&history(events), |history| {
        let mut cell = cell.borrow_mut();
        let (server, model, case) = &mut *cell;
        **case += 1;
        runtime.block_on(replay(**case, &history, model, server))
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

#[test]
fn redis_and_the_models_agree_on_random_histories() {
    compare_on(Clocked::server(Flavor::Redis), Size::usual(300));
}

#[test]
fn valkey_and_the_models_agree_on_random_histories() {
    compare_on(Clocked::server(Flavor::Valkey), Size::usual(100));
}

#[test]
fn a_cluster_and_the_models_agree_on_random_histories() {
    compare_on(Clocked::cluster(), Size::usual(100));
}

/// The memory store runs the models, behind a table and a monotonic clock.
#[test]
fn the_memory_store_and_the_models_agree_on_random_histories() {
    compare_on(async { Clocked::memory() }, Size::usual(300));
}

#[test]
#[ignore = "a long run"]
fn soak_all_stores_and_the_models_agree_on_long_histories() {
    compare_on(Clocked::server(Flavor::Redis), Size::long(100));
    compare_on(Clocked::server(Flavor::Valkey), Size::long(50));
    compare_on(Clocked::cluster(), Size::long(50));
    compare_on(async { Clocked::memory() }, Size::long(100));
}
