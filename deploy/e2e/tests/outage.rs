//! What stops while the product runs: the control plane, a shard.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::time::{Duration, Instant};

use serde_json::json;
use weir_e2e::{Answer, Node, Plan, Product, closed};
use weir_testbed::await_until;

/// The budget of the fault tests, and what a busy test machine may add.
const BUDGET: Duration = Duration::from_millis(50);
const MARGIN: Duration = Duration::from_millis(100);
/// The budget of an agent that shall count exactly on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);
/// In which service is as before.
const RECOVERY: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_the_data_plane_outlives_the_control_plane() {
    let mut product = Product::start(Plan { rules: closed(), ..Plan::default() }).await.unwrap();
    product.stop_control_plane().await;
    let upload = async |product: &Product, index: usize| {
        let answer = product.nodes[index].ask("user:ada", "free", "POST", "/api/upload").await.unwrap();
        assert!(!answer.degraded(), "{}", answer.body);
        answer
    };
    for turn in 0..5 {
        assert!(upload(&product, turn % 2).await.allowed());
    }
    product.restart_agent(0).await.unwrap();
    assert!(product.nodes[0].revision() > 0, "the restarted agent has the rules from its disk");
    product.nodes[0].agent.settled().await;
    let refused = upload(&product, 0).await;
    assert!(!refused.allowed(), "it counts on the same shards with the same keys: {}", refused.body);
    product.start_control_plane().await.unwrap();
    let revision = product.api.edit_rule("upload", |rule| rule["limits"]["*"]["limit"] = json!(6)).await.unwrap();
    let back = await_until(Duration::from_secs(30), async || product.nodes.iter().all(|node| node.revision() == revision));
    assert!(back.await, "agents reconnect by themselves");
    assert!(upload(&product, 1).await.allowed());
    product.stop().await.unwrap();
}

/// A subject whose counters are on that shard, by asking for one welcome page after the other.
async fn subject_on(node: &Node, shard: &str, prefix: &str) -> String {
    for number in 0.. {
        let subject = format!("user:{prefix}-{number}");
        let answer = node.ask(&subject, "free", "GET", "/").await.unwrap();
        assert!(!answer.degraded(), "{}", answer.body);
        if answer.shard() == shard {
            return subject;
        }
    }
    unreachable!()
}

/// An agent whose degraded answers are counted.
struct Watched<'a> {
    node: &'a Node,
    degraded: Cell<u64>,
}

impl Watched<'_> {
    /// Asks once for the welcome page and says how long it took.
    async fn timed(&self, subject: &str) -> (Answer, Duration) {
        let start = Instant::now();
        let answer = self.node.ask(subject, "free", "GET", "/").await.unwrap();
        self.degraded.set(self.degraded.get() + u64::from(answer.degraded()));
        (answer, start.elapsed())
    }

    /// `weir_degraded_decisions_total` of the only rule asked for, over all causes.
    fn counted(&self) -> u64 {
        let metrics = self.node.agent.metrics_text();
        let of_rule = |line: &&str| line.starts_with("weir_degraded_decisions_total{") && line.contains("rule=\"per-user\"");
        metrics.lines().filter(of_rule).map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }
}

/// How many of eight uploads an agent with time lets through once it has the shard back.
async fn uploads_after_recovery(node: &Node, probe: &str, fresh: &str) -> usize {
    let back = await_until(RECOVERY, async || !node.ask(probe, "free", "GET", "/").await.unwrap().degraded()).await;
    assert!(back, "the agent with time has the shard back as soon");
    let mut passed = 0;
    for _ in 0..8 {
        let answer = node.ask(fresh, "free", "POST", "/api/upload").await.unwrap();
        assert!(!answer.degraded(), "{}", answer.body);
        passed += usize::from(answer.allowed());
    }
    passed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_a_shard_is_stopped_paused_and_restarted() {
    let product = Product::start(Plan { agents: 1, budget: BUDGET, rules: closed(), ..Plan::default() }).await.unwrap();
    let patient = product.join("patient", PATIENCE).await.unwrap();
    let (here, elsewhere) = (subject_on(&patient, "shard-1", "here").await, subject_on(&patient, "shard-2", "elsewhere").await);
    let watched = Watched { node: &product.nodes[0], degraded: Cell::new(0) };
    for trouble in ["paused", "killed"] {
        let fresh = subject_on(&patient, "shard-1", trouble).await;
        match trouble {
            "paused" => product.redis[0].pause().await,
            _ => product.redis[0].kill().await,
        }
        for _ in 0..20 {
            let (answer, took) = watched.timed(&here).await;
            assert!(took < BUDGET + MARGIN, "{trouble}: {took:?}");
            assert!(answer.degraded(), "{trouble}: every decision without the shard is marked");
            assert!(!watched.timed(&elsewhere).await.0.degraded(), "{trouble}: the other shards are not touched");
        }
        match trouble {
            "paused" => product.redis[0].resume().await,
            _ => product.redis[0].restart().await.unwrap(),
        }
        let exact = await_until(RECOVERY, async || !watched.timed(&here).await.0.degraded()).await;
        assert!(exact, "{trouble}: decided by the shard again within {RECOVERY:?}");
        assert_eq!(uploads_after_recovery(&patient, &here, &fresh).await, 5, "{trouble}: exact again");
        assert_eq!(watched.counted(), watched.degraded.get(), "{trouble}: counted as often as it was said");
    }
    patient.stop().await.unwrap();
    product.stop().await.unwrap();
}

/// Half of it is each agent's part of a limit of 30.
const LIMIT: u64 = 30;

/// A limit that is counted locally without its shard, once with a window in which all of it may come at once, once with a longer one.
const LOCAL: &str = r#"
domain: default
tiers: [{ name: free, default: true }]
rules:
  - name: by-minute
    match: { path: /minute }
    key: [subject]
    limits: { "*": { limit: 30, window: 60s } }
    on_failure: { mode: local }
  - name: by-hour
    match: { path: /hour }
    key: [subject]
    limits: { "*": { limit: 30, window: 1h } }
    on_failure: { mode: local }
"#;

/// How many of 100 requests to each node pass.
async fn hundred_each(nodes: &[Node], subject: &str, path: &str) -> Vec<u64> {
    let mut passed = vec![0; nodes.len()];
    for _ in 0..100 {
        for (node, passed) in nodes.iter().zip(&mut passed) {
            *passed += u64::from(node.ask(subject, "free", "GET", path).await.unwrap().allowed());
        }
    }
    passed
}

/// Units of the rule by minute that come back in `took`.
fn refill(took: Duration) -> u64 {
    took.as_secs() * LIMIT / 60 + 1
}

/// BB-13: the agents share a limit by the number that the control plane told them, and the shard's return is one more capacity at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_bb_13_agents_share_a_limit_without_its_shard() {
    let product = Product::start(Plan { shards: 1, rules: LOCAL.to_owned(), ..Plan::default() }).await.unwrap();
    product.redis[0].kill().await;
    let mut number = 0;
    let shared = await_until(Duration::from_secs(20), async || {
        number += 1;
        hundred_each(&product.nodes, &format!("user:{number}"), "/minute").await.iter().all(|passed| *passed < LIMIT)
    });
    assert!(shared.await, "each agent knows that there are two");

    let start = Instant::now();
    let away: u64 = hundred_each(&product.nodes, "user:ada", "/minute").await.iter().sum();
    assert!(away >= LIMIT && away <= LIMIT + refill(start.elapsed()), "{away} passed without the shard");
    // A local bucket holds a minute of its refill, but one unit at least.
    assert_eq!(hundred_each(&product.nodes, "user:ada", "/hour").await, [1, 1]);

    product.redis[0].restart().await.unwrap();
    let back = await_until(RECOVERY, async || {
        let (one, other) = (&product.nodes[0], &product.nodes[1]);
        let ask = async |node: &Node| node.ask("user:probe", "free", "GET", "/minute").await.unwrap();
        !ask(one).await.degraded() && !ask(other).await.degraded()
    });
    assert!(back.await, "decided by the shard again within {RECOVERY:?}");
    let again: u64 = hundred_each(&product.nodes, "user:ada", "/minute").await.iter().sum();
    let bound = 2 * LIMIT + refill(start.elapsed());
    assert!(again >= LIMIT, "the shard came back empty, so all of the limit is there: {again}");
    assert!(away + again <= bound, "at most one further capacity at recovery: {away} and {again}, not {bound}");
    product.stop().await.unwrap();
}
