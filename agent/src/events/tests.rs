use std::time::{Duration, Instant};

use http::HeaderMap;
use weir_core::decision::{Cause, Degraded, LimitDecision, LimitMode, Reason, Source};
use weir_core::failure::FailureMode;
use weir_core::key::{CounterKey, HashSecret, Tag, counter_key};
use weir_core::limit::Algorithm;
use weir_core::name::Name;
use weir_core::subject::Subject;
use weir_proto::v1;

use super::*;

/// A clock that stands still at a given second.
struct Still(AtomicU64);

impl Clock for Still {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wall(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

struct Bench {
    recorder: Recorder,
    spool: Arc<Spool>,
    clock: Arc<Still>,
    headers: HeaderMap,
}

impl Bench {
    fn new(spool_bytes: usize, samples_per_second: usize) -> Self {
        let clock = Arc::new(Still(AtomicU64::new(1_000)));
        let spool = Arc::new(Spool::new("a", "boot", spool_bytes));
        let settings = EventSettings { samples_per_second, spool_bytes };
        let recorder = Recorder::new(&settings, 64, clock.clone(), Some(spool.clone()));
        Self { recorder, spool, clock, headers: HeaderMap::new() }
    }

    fn record(&self, subject: &str, decision: &Decision) {
        self.record_cost(subject, decision, 1);
    }

    fn record_cost(&self, subject: &str, decision: &Decision, cost: u64) {
        self.recorder.record(&self.request(subject, cost), decision);
    }

    fn request<'a>(&'a self, subject: &'a str, cost: u64) -> Request<'a> {
        Request {
            domain: "default",
            subject: Subject::parse(subject),
            tier: None,
            method: Some("GET"),
            host: None,
            path: Some("/a?secret=1"),
            headers: &self.headers,
            client_ip: None,
            descriptors: &[],
            cost,
            limits: None,
        }
    }

    fn tick(&self) {
        self.clock.0.fetch_add(1, Ordering::Relaxed);
        self.recorder.flush(false);
    }

    async fn batch(&self, after: u64) -> v1::EventBatch {
        tokio::time::timeout(Duration::from_secs(5), self.spool.after(after)).await.unwrap()
    }
}

fn limit(rule: &str, mode: LimitMode, reason: Reason) -> LimitDecision {
    LimitDecision {
        rule: Name::new(rule).unwrap(),
        algorithm: Algorithm::TokenBucket,
        limit: Some(5),
        window_us: 60_000_000,
        remaining: 0,
        reset_after_us: 0,
        retry_after_us: (reason == Reason::Limited).then_some(1_500),
        reason,
        mode,
        source: Source::AnyTier,
        degraded: None,
        shard: Some(Name::new("s1").unwrap()),
        key: Some(key()),
        cost: 1,
        position: 0,
    }
}

fn key() -> CounterKey {
    let secret = HashSecret::built_in();
    counter_key(&secret, Tag::of_rule(&secret, "default", "r", &[]), "r", &[])
}

/// The same, where the rule takes the cost from a header.
fn costing(cost: u64, mut decision: Decision) -> Decision {
    decision.limits.iter_mut().for_each(|limit| limit.cost = cost);
    decision
}

fn decision(reason: Reason, limits: Vec<LimitDecision>) -> Decision {
    let strictest = limits.iter().position(|l| l.mode == LimitMode::Enforce);
    let tier = Some(Name::new("free").unwrap());
    Decision { reason, strictest, degraded: None, tier, revision: 1, domain: "default".into(), limits }
}

fn allowed() -> Decision {
    decision(Reason::Ok, vec![limit("r", LimitMode::Enforce, Reason::Ok), limit("other", LimitMode::Enforce, Reason::Ok)])
}

fn denied() -> Decision {
    decision(Reason::Limited, vec![limit("r", LimitMode::Enforce, Reason::Limited)])
}

fn degraded(mut decision: Decision) -> Decision {
    decision.degraded = Some(Degraded { mode: FailureMode::Local, cause: Cause::Timeout });
    decision.limits[0].degraded = decision.degraded;
    decision
}

fn rows(batch: &v1::EventBatch) -> Vec<(String, v1::Outcome, u64, u64, String)> {
    let mut rows: Vec<_> = batch.aggregates.iter().map(|a| (a.rule.clone(), a.outcome(), a.requests, a.units, a.cause.clone())).collect();
    rows.sort();
    rows
}

#[tokio::test]
async fn each_request_is_counted_once_under_the_rule_that_decided_it() {
    let bench = Bench::new(1 << 20, 8);
    for _ in 0..3 {
        bench.record("1", &costing(2, allowed()));
    }
    bench.record("1", &denied());
    bench.record("1", &degraded(allowed()));
    bench.record("1", &degraded(denied()));
    bench.record("1", &degraded(decision(Reason::Unavailable, vec![limit("r", LimitMode::Enforce, Reason::Unavailable)])));
    bench.record("1", &decision(Reason::Ok, vec![]));
    // A look is no traffic.
    bench.record_cost("1", &denied(), 0);
    bench.tick();
    let batch = bench.batch(0).await;
    let (none, timeout) = (String::new(), "timeout".to_owned());
    let expected = [
        (String::new(), v1::Outcome::Allowed, 1, 1, none.clone()),
        ("r".to_owned(), v1::Outcome::Allowed, 3, 6, none.clone()),
        ("r".to_owned(), v1::Outcome::Denied, 1, 1, none),
        ("r".to_owned(), v1::Outcome::DegradedAllowed, 1, 1, timeout.clone()),
        ("r".to_owned(), v1::Outcome::DegradedDenied, 1, 1, timeout.clone()),
        ("r".to_owned(), v1::Outcome::Unavailable, 1, 1, timeout),
    ];
    assert_eq!(rows(&batch), expected);
    assert_eq!((batch.agent.as_str(), batch.boot.as_str(), batch.sequence, batch.dropped), ("a", "boot", 1, 0));
    assert!(batch.aggregates.iter().all(|a| a.second == 1_000 && a.tier == "free"));
    // What is unavailable through no fault of the subject is not among the denials.
    assert_eq!(batch.denials.len(), 2);
    assert_eq!((batch.denials[0].path.as_str(), batch.denials[0].retry_after_ms), ("/a", 2));
}

/// What the rule took is what is counted, whatever the request said of itself; and a denial names the counter that it met.
#[tokio::test]
async fn units_are_those_of_the_rule_and_denials_name_their_counter() {
    let bench = Bench::new(1 << 20, 8);
    bench.record("1", &costing(5, denied()));
    bench.record("1", &costing(7, decision(Reason::Ok, vec![limit("s", LimitMode::Shadow, Reason::Limited)])));
    bench.tick();
    let batch = bench.batch(0).await;
    let units: Vec<(String, v1::Outcome, u64)> =
        rows(&batch).into_iter().map(|(rule, outcome, _, units, _)| (rule, outcome, units)).collect();
    let expected = [("r", v1::Outcome::Denied, 5), ("s", v1::Outcome::Allowed, 7), ("s", v1::Outcome::ShadowDenied, 7)];
    assert_eq!(units, expected.map(|(rule, outcome, units)| (rule.to_owned(), outcome, units)));
    let mut denials: Vec<_> = batch.denials.iter().map(|denial| (denial.cost, denial.key.as_str())).collect();
    denials.sort_unstable();
    assert_eq!(denials, [(5, key().as_str()), (7, key().as_str())]);
}

/// BB-41: in shadow mode everything passes and each would-be denial is counted; enforced, the same traffic is denied as often; and in
/// each view the total is allowed plus denied.
#[tokio::test]
async fn bb_41_would_be_denials_are_counted_like_denials() {
    let bench = Bench::new(1 << 20, 8);
    let shadow = |reason| decision(Reason::Ok, vec![limit("r", LimitMode::Shadow, reason)]);
    for i in 0..100 {
        bench.record("1", &shadow(if i < 5 { Reason::Ok } else { Reason::Limited }));
    }
    bench.tick();
    let none = String::new();
    let dry = bench.batch(0).await;
    let expected =
        [("r".to_owned(), v1::Outcome::Allowed, 100, 100, none.clone()), ("r".to_owned(), v1::Outcome::ShadowDenied, 95, 95, none.clone())];
    assert_eq!(rows(&dry), expected);
    let stands_for: f64 = dry.denials.iter().map(|d| d.weight).sum();
    assert!((stands_for - 95.0).abs() < 1e-6 && dry.denials.iter().all(|d| d.outcome() == v1::Outcome::ShadowDenied));
    for i in 0..100 {
        bench.record("1", &if i < 5 { allowed() } else { denied() });
    }
    bench.tick();
    let enforced = rows(&bench.batch(1).await);
    let expected = [("r".to_owned(), v1::Outcome::Allowed, 5, 5, none.clone()), ("r".to_owned(), v1::Outcome::Denied, 95, 95, none)];
    assert_eq!(enforced, expected);
}

/// BB-44: with nobody to take the batches, memory stays under its cap, the oldest go first, and every lost request is counted.
#[tokio::test]
async fn bb_44_a_dead_consumer_costs_bounded_memory_and_exact_drop_counts() {
    let limit = 64 << 10;
    let bench = Bench::new(limit, 16);
    let mut recorded = 0;
    for second in 0..500 {
        for i in 0..40 {
            bench.record(&format!("user-{second}-{i}"), &denied());
            recorded += 1;
        }
        bench.tick();
        assert!(bench.spool.waiting().1 <= limit);
    }
    let mut waiting = 0;
    let mut reported = 0;
    let mut sequence = 0;
    for _ in 0..bench.spool.waiting().0 {
        let batch = bench.batch(sequence).await;
        assert!(batch.sequence > sequence);
        sequence = batch.sequence;
        waiting += batch.aggregates.iter().map(|a| a.requests).sum::<u64>();
        reported += batch.dropped;
    }
    assert_eq!(sequence, 500, "the newest is kept");
    assert!(bench.recorder.dropped() > 0);
    assert_eq!(waiting + bench.recorder.dropped(), recorded);
    // Those batches were made before the later losses: once they are taken, the next one tells of the rest.
    for taken in 1..=500 {
        bench.spool.acknowledge(taken);
    }
    bench.record("last", &denied());
    bench.tick();
    let last = bench.batch(500).await;
    assert_eq!((last.sequence, reported + last.dropped), (501, bench.recorder.dropped()));
}

#[tokio::test]
async fn the_heaviest_denied_subjects_are_found_among_many() {
    let bench = Bench::new(64 << 20, 4);
    bench.tick();
    for round in 0..1_000 {
        bench.record("abuser", &denied());
        bench.record("abuser", &denied());
        bench.record("abuser", &allowed());
        for i in 0..20 {
            bench.record(&format!("one-off-{round}-{i}"), &denied());
        }
    }
    bench.clock.0.fetch_add(9, Ordering::Relaxed);
    bench.tick();
    let mut sequence = 0;
    let subjects = loop {
        let batch = bench.batch(sequence).await;
        sequence = batch.sequence;
        if !batch.subjects.is_empty() {
            break batch.subjects;
        }
    };
    let first = &subjects[0];
    assert_eq!((first.subject.as_str(), first.rule.as_str(), first.seconds), ("user:abuser", "r", 10));
    assert!(first.denied >= 2_000 && first.denied - first.error <= 2_000, "{first:?}");
    assert_eq!(first.allowed, 1_000);
    assert!(subjects.len() <= 200 * bench.recorder.ledgers.len(), "{}", subjects.len());
}

#[tokio::test]
async fn subjects_cannot_break_a_line() {
    let bench = Bench::new(1 << 20, 4);
    bench.record("a\r\nb\u{7}", &denied());
    bench.tick();
    assert_eq!(bench.batch(0).await.denials[0].subject, "user:a\\r\\nb\\u{7}");
    for end in ["x", "y"] {
        bench.record(&format!("{}{end}", "\u{fc}".repeat(400)), &denied());
    }
    bench.tick();
    let subjects: Vec<_> = bench.batch(1).await.denials.into_iter().map(|denial| denial.subject).collect();
    assert!(subjects.len() == 2 && subjects[0] != subjects[1] && subjects.iter().all(|s| s.len() <= 256), "{subjects:?}");
}

#[tokio::test]
async fn what_is_acknowledged_is_forgotten() {
    let bench = Bench::new(1 << 20, 4);
    for _ in 0..3 {
        bench.record("1", &denied());
        bench.tick();
    }
    bench.spool.acknowledge(2);
    bench.spool.acknowledge(2);
    bench.spool.acknowledge(9);
    assert_eq!(bench.spool.waiting().0, 2);
    assert_eq!(bench.batch(1).await.sequence, 3);
    bench.spool.acknowledge(1);
    bench.spool.acknowledge(3);
    assert_eq!(bench.spool.waiting(), (0, 0));
    tokio::time::timeout(Duration::from_secs(5), bench.spool.emptied()).await.unwrap();
}

#[test]
fn without_a_spool_decisions_are_only_numbered() {
    let recorder = Recorder::default();
    let headers = HeaderMap::new();
    let request = Request {
        domain: "default",
        subject: None,
        tier: None,
        method: None,
        host: None,
        path: None,
        headers: &headers,
        client_ip: None,
        descriptors: &[],
        cost: 1,
        limits: None,
    };
    recorder.record(&request, &denied());
    recorder.flush(true);
    assert_eq!((recorder.recorded(), recorder.dropped()), (1, 0));
}

/// A batch that a server would not read would be sent for ever.
#[tokio::test]
async fn a_busy_second_is_cut_into_batches_that_servers_read() {
    use prost::Message as _;

    let bench = Bench::new(64 << 20, 2_000);
    let long = "\u{7}".repeat(weir_core::subject::MAX_ID_LENGTH);
    for i in 0..3_000 {
        bench.record(
            &format!("{i}{}", &long[4..]),
            &decision(Reason::Limited, vec![limit(&format!("r{i}"), LimitMode::Enforce, Reason::Limited)]),
        );
    }
    bench.recorder.flush(true);
    let (mut sequence, mut counted) = (0, 0);
    for _ in 0..bench.spool.waiting().0 {
        let batch = bench.batch(sequence).await;
        assert!(batch.encoded_len() < 4 << 20, "{}", batch.encoded_len());
        sequence = batch.sequence;
        counted += batch.aggregates.iter().map(|row| row.requests).sum::<u64>();
    }
    assert!(sequence > 1);
    assert_eq!(counted + bench.recorder.dropped(), 3_000);
}

/// Units whose cost was known late are traffic of their rule, and no further request.
#[tokio::test]
async fn what_is_recorded_counts_as_units() {
    let bench = Bench::new(1 << 20, 4);
    let mut passed = decision(Reason::Ok, vec![limit("r", LimitMode::Enforce, Reason::Ok)]);
    bench.record("1", &passed);
    passed.limits[0].cost = 40;
    bench.recorder.consumed(&bench.request("1", 40), &passed);
    bench.tick();
    let rows = bench.batch(0).await.aggregates;
    assert_eq!(rows.iter().map(|row| (row.rule.as_str(), row.requests, row.units)).collect::<Vec<_>>(), [("r", 1, 41)]);
    assert_eq!(bench.recorder.recorded(), 1);
}
