//! Without a shard: what each surface answers, and that metrics tell the four kinds of refusal and degradation apart.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod served;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use http::{Method, Request, Response};
use http_body_util::Full;
use serde_json::json;
use served::{Served, settings, until};
use tower::{Layer as _, ServiceExt as _, service_fn};
use weir_agent::limiter::ShardConfig;
use weir_agent::middleware::LayerSettings;
use weir_agent::settings::Counters;
use weir_testbed::{Flavor, Mode, Proxy, Redis};

const LIMIT: usize = 3;
const CALLS: usize = 100;

/// How requests reach the agent.
#[derive(Debug, Clone, Copy)]
enum Surface {
    Check,
    Authz,
    Tower,
}

/// The statuses of [`CALLS`] requests at once.
async fn statuses(served: &Served, surface: Surface) -> BTreeMap<u16, usize> {
    let one = async || match surface {
        Surface::Check => {
            let answer = served.decide(&json!({})).await;
            let (status, reason) = (answer["status"].as_u64().unwrap(), answer["reason"].as_str().unwrap().to_owned());
            let expected = ["ok", "limited", "unavailable"][[200, 429, 503].iter().position(|known| *known == status).unwrap()];
            assert_eq!(reason, expected);
            u16::try_from(status).unwrap()
        }
        Surface::Authz => served.send(Method::GET, "/authz", &[], "").await.status.as_u16(),
        Surface::Tower => {
            let service = service_fn(async |_: Request<Full<Bytes>>| Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())));
            let service = served.agent.layer(LayerSettings::default()).unwrap().layer(service);
            service.oneshot(Request::new(Full::default())).await.unwrap().status().as_u16()
        }
    };
    let mut counts = BTreeMap::new();
    for status in join_all((0..CALLS).map(|_| one())).await {
        *counts.entry(status).or_default() += 1;
    }
    counts
}

/// Decisions by outcome, as metrics have them.
async fn outcomes(served: &Served) -> BTreeMap<String, usize> {
    let text = String::from_utf8(served.get("/metrics").await.body.to_vec()).unwrap();
    let of = |line: &str| {
        let (labels, count) = line.strip_prefix("weir_decisions_total{")?.rsplit_once("} ")?;
        let outcome = labels.split("outcome=\"").nth(1)?.split('"').next()?;
        Some((outcome.to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(of).collect()
}

/// BB-12: a failing store is neither "over limit" nor "allow everything": the share, marked; everything, marked; or nothing, for a reason of
/// its own. On every surface, for every algorithm that can stand in.
#[tokio::test]
async fn bb_12_each_failure_mode_is_answered_and_counted_apart_on_every_surface() {
    for surface in [Surface::Check, Surface::Authz, Surface::Tower] {
        for (mode, answered, counted) in [
            (None, vec![(200, LIMIT), (429, CALLS - LIMIT)], vec![("allowed", LIMIT), ("denied", CALLS - LIMIT)]),
            (
                Some("local"),
                vec![(200, LIMIT), (429, CALLS - LIMIT)],
                vec![("degraded_allowed", LIMIT), ("degraded_denied", CALLS - LIMIT)],
            ),
            (Some("open"), vec![(200, CALLS)], vec![("degraded_allowed", CALLS)]),
            (Some("closed"), vec![(503, CALLS)], vec![("unavailable", CALLS)]),
        ] {
            for algorithm in ["token_bucket", "sliding_window", "sliding_log", "fixed_window", "concurrency"] {
                if algorithm == "concurrency" && matches!(surface, Surface::Tower) {
                    // Each is over before the next, as it should be there.
                    continue;
                }
                let policy = mode.unwrap_or("local");
                let rules = format!(
                    "{{ domain: default, rules: [{{ name: r, key: [], algorithm: {algorithm}, on_failure: {{ mode: {policy} }}, limits: {{ '*': {{ limit: {LIMIT}, window: 1m }} }} }}] }}"
                );
                let mut settings = settings(&rules);
                if mode.is_some() {
                    settings.counters = Counters::Shards(Vec::new());
                }
                let served = Served::start(settings).await;
                let found = statuses(&served, surface).await;
                let told = outcomes(&served).await;
                served.stop().await;
                assert_eq!(found, answered.iter().copied().collect(), "{surface:?} {mode:?} {algorithm}");
                let counted = counted.iter().map(|(outcome, count)| ((*outcome).to_owned(), *count)).collect();
                assert_eq!(told, counted, "{surface:?} {mode:?} {algorithm}");
            }
        }
    }
}

/// Promise 5, by trouble: each rule does what its policy says, whatever its shard does; each degraded decision is marked, and counted as what it
/// was; no trouble of the shard's is ever the client's fault.
#[tokio::test(flavor = "multi_thread")]
async fn promise_5_degradation_is_chosen_visible_and_bounded() {
    const MODES: [&str; 3] = ["local", "open", "closed"];
    let rule = |mode: &&str| {
        let limit = if *mode == "local" { 30 } else { 1_000 };
        format!(
            "{{ name: {mode}, match: {{ path: /{mode} }}, key: [], algorithm: sliding_window, on_failure: {{ mode: {mode} }}, limits: {{ '*': {{ limit: {limit}, window: 1h }} }} }}"
        )
    };
    let server = Redis::temporary(Flavor::available().unwrap()).await.unwrap();
    let proxy = Proxy::start(server.addr().unwrap()).await.unwrap();
    let mut settings = settings(&format!("{{ domain: default, rules: [{}] }}", MODES.iter().map(rule).collect::<Vec<_>>().join(", ")));
    settings.budget = Duration::from_millis(50);
    let address = server.url_through(proxy.addr()).parse().unwrap();
    settings.counters = Counters::Shards(vec![ShardConfig::new("a".parse().unwrap(), address)]);
    let served = Served::start(settings).await;

    let mut told = BTreeMap::new();
    let mut ask = async |mode: &str| {
        let answer = served.decide(&json!({ "path": format!("/{mode}") })).await;
        let (status, allowed) = (answer["status"].as_u64().unwrap(), answer["allowed"] == true);
        let marked = answer["degraded"]["mode"].as_str();
        assert!(marked.is_none_or(|marked| marked == mode), "{answer}");
        let (outcome, expected) = match (marked, allowed) {
            (None, true) => ("allowed", 200),
            // The limit is used up: on the shard, or here.
            (None, false) => ("denied", 429),
            (Some("local" | "open"), true) => ("degraded_allowed", 200),
            (Some("local"), false) => ("degraded_denied", 429),
            (Some("closed"), false) => ("unavailable", 503),
            _ => panic!("{answer}"),
        };
        assert_eq!(status, expected, "{answer}");
        *told.entry((mode.to_owned(), outcome.to_owned())).or_insert(0usize) += 1;
        marked.is_some()
    };
    for trouble in [Mode::Forward, Mode::Refuse, Mode::Blackhole, Mode::Forward, Mode::AcceptSilent, Mode::ResetMidReply, Mode::Forward] {
        proxy.set_mode(trouble).await;
        if trouble == Mode::Forward {
            until("normal service", async || (!ask("closed").await).then_some(())).await;
        }
        let mut degraded = 0;
        for _ in 0..20 {
            for mode in MODES {
                degraded += usize::from(ask(mode).await);
            }
        }
        assert!(trouble == Mode::Forward || degraded > 0, "{trouble:?}");
    }
    let of_local = |outcome: &str| told.get(&("local".to_owned(), outcome.to_owned())).copied().unwrap_or_default();
    let passed_locally = of_local("degraded_allowed");
    let passed = passed_locally + of_local("allowed");
    // A limit of 30 an hour has room for one unit here, and refills by one in two minutes.
    assert!((1..=3).contains(&passed_locally) && passed <= 33, "{passed_locally} of {passed}");
    assert_eq!(counted(&served).await, told);
    for outcome in ["allowed", "denied", "degraded_allowed", "degraded_denied", "unavailable"] {
        assert!(told.keys().any(|(_, seen)| seen == outcome), "{outcome} was not seen: {told:?}");
    }
    served.stop().await;
}

/// Decisions by rule and outcome, as metrics have them.
async fn counted(served: &Served) -> BTreeMap<(String, String), usize> {
    let text = String::from_utf8(served.get("/metrics").await.body.to_vec()).unwrap();
    let of = |line: &str| {
        let (labels, count) = line.strip_prefix("weir_decisions_total{")?.rsplit_once("} ")?;
        let label = |name: &str| Some(labels.split(&format!("{name}=\"")).nth(1)?.split('"').next()?.to_owned());
        Some(((label("rule")?, label("outcome")?), count.parse().ok().filter(|count| *count > 0)?))
    };
    text.lines().filter_map(of).collect()
}
