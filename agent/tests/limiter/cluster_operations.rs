//! Every algorithm and every operation on a Redis Cluster, through the agent's own routing: while all is well, while slots move, and after nodes have
//! lost the script.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use weir_agent::limiter::store::{Refund, Release};
use weir_agent::limiter::{LimitQuery, Limiter, LimiterSettings};
use weir_core::calendar::{Calendar, CalendarUnit, Zone};
use weir_core::counter::{Action, CounterCall};
use weir_core::decision::Cause;
use weir_core::failure::FailureMode;
use weir_core::limit::{Algorithm, Bound};
use weir_testbed::{Cluster, Flavor, await_until, slot_of};

use crate::support::*;

const LIMIT: u64 = 10;

/// What each subject is limited by: every algorithm, and a fixed window that follows a calendar.
fn limits(subject: &str) -> Vec<LimitQuery> {
    let calendar = Calendar { unit: CalendarUnit::Month, zone: Zone::new("Europe/Zurich").expect("a zone") };
    let month = bound(Algorithm::FixedWindow, LIMIT, MINUTE * 60 * 24 * 31);
    let mut bounds: Vec<(&str, Bound)> =
        Algorithm::ALL.iter().map(|algorithm| (algorithm.as_str(), bound(*algorithm, LIMIT, MINUTE * 600))).collect();
    bounds.push(("monthly", Bound { calendar: Some(calendar), ..month }));
    let limit = |(rule, bound): (&str, Bound)| LimitQuery {
        call: CounterCall::check(key(subject, rule), bound, 4),
        on_failure: policy(FailureMode::Closed),
        overflow: None,
    };
    bounds.into_iter().map(limit).collect()
}

fn deadline() -> Instant {
    Instant::now() + LONG
}

fn subjects(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| format!("user-{n}")).collect()
}

fn units(query: &LimitQuery) -> u64 {
    query.call.units()
}

/// What is left of each limit, asked in one request.
async fn left(limiter: &Limiter, subject: &str) -> Vec<u64> {
    let looks: Vec<LimitQuery> = limits(subject).iter().map(peek).collect();
    let answers = decide(limiter, &looks).await;
    assert!(answers.iter().all(|answer| answer.degraded.is_none()), "{answers:?}");
    answers.iter().map(|answer| answer.reply.remaining).collect()
}

/// Consumes of every limit of a subject at once; returns the lease.
async fn consume(limiter: &Limiter, subject: &str) -> Release {
    let queries: Vec<LimitQuery> = limits(subject).iter().map(leased).collect();
    let answers = decide(limiter, &queries).await;
    assert!(is_admitted(&queries, &answers) && answers.iter().all(|answer| answer.degraded.is_none()), "{answers:?}");
    let held = queries.iter().find_map(|query| Some(Release { key: query.call.key, lease: query.call.lease? }));
    held.expect("one of them is a lease")
}

/// Gives one unit back to each limit of a subject that counts units, and ends its lease.
async fn undo(limiter: &Limiter, subject: &str, lease: Release) {
    let counted = limits(subject).into_iter().filter(|query| query.call.bound.algorithm != Algorithm::Concurrency);
    let refunds: Vec<Refund> =
        counted.map(|query| Refund { key: query.call.key, bound: query.call.bound, units: 1, time_us: 0, lease: None }).collect();
    assert_eq!(limiter.refund(refunds.clone(), deadline()).await, vec![Ok(1); refunds.len()]);
    assert_eq!(limiter.release(&[lease, lease], deadline()).await, [Ok(true), Ok(false)]);
}

/// Consumes that are not asked for.
async fn record(limiter: &Limiter, subject: &str) {
    let recorded = limits(subject).into_iter().filter(|query| query.call.bound.algorithm != Algorithm::Concurrency);
    let recorded: Vec<LimitQuery> = recorded
        .map(|query| LimitQuery { call: CounterCall { action: Action::Record, shadow: true, cost: 2, ..query.call.clone() }, ..query })
        .collect();
    let answers = limiter.decide(&recorded, deadline()).await;
    assert!(answers.iter().flatten().all(|answer| answer.degraded.is_none()) && answers.iter().all(Option::is_some), "{answers:?}");
}

/// After `consume`, `undo` and `record`: 10 - 4 + 1 - 2 of what counts units, and no lease.
fn expected(subject: &str) -> Vec<u64> {
    limits(subject).iter().map(|query| if query.call.bound.algorithm == Algorithm::Concurrency { LIMIT } else { 5 }).collect()
}

/// All that can be done to the counters of these subjects, with their counts looked at in between.
async fn everything(limiter: &Limiter, subjects: &[String]) {
    for subject in subjects {
        let lease = consume(limiter, subject).await;
        let consumed: Vec<u64> = limits(subject).iter().map(|query| LIMIT - units(query)).collect();
        assert_eq!(left(limiter, subject).await, consumed, "{subject}");
        undo(limiter, subject, lease).await;
        record(limiter, subject).await;
        assert_eq!(left(limiter, subject).await, expected(subject), "{subject}");
    }
    // In one call each node clears its own.
    let keys: Vec<_> = subjects.iter().flat_map(|subject| limits(subject)).map(|query| query.call.key).collect();
    let concurrency = Algorithm::ALL.iter().position(|algorithm| *algorithm == Algorithm::Concurrency).expect("one of them");
    let cleared: Vec<_> = (0..keys.len()).map(|n| Ok(n % (Algorithm::ALL.len() + 1) != concurrency)).collect();
    assert_eq!(limiter.reset(&keys, deadline()).await, cleared);
    for subject in subjects {
        assert_eq!(left(limiter, subject).await, vec![LIMIT; Algorithm::ALL.len() + 1], "{subject}");
    }
}

async fn start(flavor: Flavor) -> (Cluster, Arc<Limiter>) {
    let cluster = Cluster::start(flavor, 3).await.expect("starts");
    let address = format!("redis+cluster://{}", cluster.addrs().expect("TCP"));
    let limiter = limiter_with(patient(), [address.as_str()]).await;
    (cluster, limiter)
}

async fn owner_of(cluster: &Cluster, subject: &str) -> (u16, usize) {
    let slot = slot_of(key(subject, "r").as_bytes());
    (slot, cluster.owner(slot).await.expect("somebody's"))
}

#[tokio::test(flavor = "multi_thread")]
async fn exact_everything_on_a_cluster() {
    for flavor in Flavor::ALL {
        let (cluster, limiter) = start(flavor).await;
        everything(&limiter, &subjects(0..12)).await;
        // A node that loses the script gets it again with the call that finds out: a check, a refund, a release, a reset.
        for node in cluster.nodes() {
            node.ask(&["SCRIPT", "FLUSH"]).await.expect("flushed");
        }
        everything(&limiter, &subjects(12..24)).await;
        let lease = consume(&limiter, "user-30").await;
        for node in cluster.nodes() {
            node.ask(&["SCRIPT", "FLUSH"]).await.expect("flushed");
        }
        undo(&limiter, "user-30", lease).await;
        assert_eq!(metric(&limiter, "weir_shard_lost_refunds_total{shard=\"s0\"}"), 0.0);
    }
}

/// With what README says that a user needs on a cluster, and no more; also where slots move.
#[tokio::test(flavor = "multi_thread")]
async fn exact_as_an_acl_user_on_a_cluster() {
    let cluster = Cluster::start(Flavor::available().expect("a server"), 3).await.expect("starts");
    let needed =
        ["~{*", "+evalsha", "+script|load", "+client", "+time", "+@read", "+@write", "-@dangerous", "+info", "+asking", "+cluster|slots"];
    for node in cluster.nodes() {
        node.ask(&[&["ACL", "SETUSER", "weir", "on", ">other"][..], &needed[..]].concat()).await.expect("set");
    }
    let address = format!("redis+cluster://weir:other@{}", cluster.addrs().expect("TCP"));
    let limiter = limiter_with(patient(), [address.as_str()]).await;
    everything(&limiter, &subjects(0..6)).await;
    let subject = "user-7";
    let (slot, owner) = owner_of(&cluster, subject).await;
    cluster.begin_move(slot, (owner + 1) % 3).await.expect("begins");
    // The node that the slot goes to is asked to make it.
    let one = &limits(subject)[0];
    let answer = decide(&limiter, std::slice::from_ref(one)).await.remove(0);
    assert_eq!((answer.degraded, answer.reply.remaining), (None, LIMIT - 4));
    cluster.finish_move(slot, (owner + 1) % 3).await.expect("ends");
    assert_eq!(remaining(&limiter, one).await, LIMIT - 4);
}

/// Slots that have moved since the agent last heard: every operation follows to where they are, and counts once.
#[tokio::test(flavor = "multi_thread")]
async fn exact_operations_follow_slots_that_moved() {
    let (cluster, limiter) = start(Flavor::available().expect("a server")).await;
    for subject in subjects(0..6) {
        let lease = consume(&limiter, &subject).await;
        let (slot, owner) = owner_of(&cluster, &subject).await;
        let move_on = async |by: usize| {
            let to = (owner + by) % 3;
            cluster.begin_move(slot, to).await.expect("begins");
            cluster.finish_move(slot, to).await.expect("ends");
            cluster.settled().await.expect("they agree");
        };
        move_on(1).await;
        undo(&limiter, &subject, lease).await;
        move_on(2).await;
        record(&limiter, &subject).await;
        move_on(3).await;
        assert_eq!(left(&limiter, &subject).await, expected(&subject), "{subject}");
        move_on(4).await;
        let keys: Vec<_> = limits(&subject).iter().map(|query| query.call.key).collect();
        assert!(limiter.reset(&keys, deadline()).await.iter().all(Result::is_ok));
        assert_eq!(left(&limiter, &subject).await, vec![LIMIT; keys.len()], "{subject}");
    }
    assert_eq!(metric(&limiter, "weir_shard_lost_refunds_total{shard=\"s0\"}"), 0.0);
}

/// While a slot is half moved: counters that are not there yet are made where it goes to; a request of which some counters are here and some there
/// waits, is not counted while it cannot be, and is exact afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn exact_a_slot_that_is_half_moved() {
    let (cluster, limiter) = start(Flavor::available().expect("a server")).await;
    for subject in subjects(0..4) {
        let (slot, owner) = owner_of(&cluster, &subject).await;
        let to = (owner + 1) % 3;
        let all: Vec<LimitQuery> = limits(&subject).iter().map(leased).collect();
        // One of them is here.
        assert!(decide(&limiter, &all[..1]).await[0].reply.allowed);
        cluster.begin_move(slot, to).await.expect("begins");
        // New ones are made there, and those that are here are still counted here.
        for query in &all[1..3] {
            let answer = decide(&limiter, std::slice::from_ref(query)).await.remove(0);
            assert_eq!((answer.degraded, answer.reply.remaining), (None, LIMIT - 4));
        }
        assert_eq!(remaining(&limiter, &all[0]).await, LIMIT - 4);
        // All together they are nowhere.
        let mixed: Vec<LimitQuery> = all[..4].iter().map(leased).collect();
        let (asked, moved) =
            futures::join!(limiter.decide(&mixed, Instant::now() + BUDGET), async { cluster.finish_move(slot, to).await.expect("ends") });
        let () = moved;
        cluster.settled().await.expect("they agree");
        let counted = asked.iter().flatten().all(|answer| answer.degraded.is_none() && answer.reply.allowed);
        let nothing = asked.iter().flatten().all(|answer| answer.degraded.is_some());
        assert!(counted || nothing, "{asked:?}");
        let more = if counted { 4 } else { 0 };
        for (place, query) in all[..3].iter().enumerate() {
            let counts = async || remaining(&limiter, query).await == LIMIT - 4 - more;
            assert!(await_until(RECOVERY, counts).await, "{subject}, limit {place}: {}", remaining(&limiter, query).await);
        }
    }
}

/// A budget of 50 ms while slots move under load: no check is late, and next to none is degraded: only where nodes sent it on to each other, since
/// one of them had not heard yet whose the slot is.
#[tokio::test(flavor = "multi_thread")]
async fn fault_resharding_within_the_budget() {
    let cluster = Cluster::start(Flavor::available().expect("a server"), 3).await.expect("starts");
    let address = format!("redis+cluster://{}", cluster.addrs().expect("TCP"));
    let limiter = limiter_with(LimiterSettings::default(), [address.as_str()]).await;
    let questions: Vec<LimitQuery> = (0..24).map(|n| query(key(&format!("user-{n}"), "r"), 1_000_000)).collect();
    for question in &questions {
        assert_eq!(in_time(&limiter, question).await.degraded, None);
    }
    let asked = Cell::new(0usize);
    let moving = async {
        // Each once, and with time for the nodes to hear of it: whoever hurries them makes them lose slots.
        for question in &questions {
            let slot = slot_of(question.call.key.as_bytes());
            let to = (cluster.owner(slot).await.expect("somebody's") + 1) % 3;
            cluster.begin_move(slot, to).await.expect("begins");
            // Some are decided while it is on its way.
            let before = asked.get();
            while asked.get() < before + questions.len() {
                tokio::task::yield_now().await;
            }
            cluster.finish_move(slot, to).await.expect("ends");
            cluster.settled().await.expect("they agree");
        }
    };
    let mut moving = std::pin::pin!(moving);
    let mut lost = Vec::new();
    'load: loop {
        for question in &questions {
            tokio::select! {
                biased;
                answer = in_time(&limiter, question) => {
                    asked.set(asked.get() + 1);
                    lost.extend(answer.degraded.map(|degraded| degraded.cause));
                }
                () = &mut moving => break 'load,
            }
        }
    }
    let asked = asked.get();
    assert!(asked > 500, "{asked}");
    assert!(lost.iter().all(|cause| *cause == Cause::Error) && lost.len() <= asked / 50, "{lost:?} of {asked}");
}
