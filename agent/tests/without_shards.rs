//! BB-12: what each failure policy does without its shard, on every surface an agent of its own has.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod served;

use std::convert::Infallible;

use bytes::Bytes;
use futures::future::join_all;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use served::{Served, settings};
use tower::{Layer as _, ServiceExt as _, service_fn};
use weir_agent::limiter::ShardConfig;
use weir_agent::middleware::LayerSettings;
use weir_agent::settings::Counters;

/// An agent whose only shard is not there, with a limit of 3 per minute: more than a minute is never counted without a shard.
async fn lonely(mode: &str) -> Served {
    let rules = format!(
        r#"{{ domain: default, tiers: [{{ name: free, default: true }}], rules: [{{ name: three, key: [], algorithm: sliding_window, limits: {{ "*": {{ limit: 3, window: 60s }} }}, on_failure: {{ mode: {mode} }} }}] }}"#
    );
    let mut settings = settings(&rules);
    let address = format!("redis://127.0.0.1:{}", weir_testbed::free_port().unwrap()).parse().unwrap();
    let shard = ShardConfig::new("s1".parse().unwrap(), address);
    settings.counters = Counters::Shards(vec![shard]);
    Served::start(settings).await
}

/// What a surface said: its status, and the reason in its body.
type Said = (u16, Option<String>);

fn reason(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    body["reason"].as_str().map(str::to_owned)
}

async fn by_check(served: &Served) -> Said {
    let answer = served.decide(&json!({})).await;
    assert!(answer["degraded"]["mode"].is_string(), "{answer}");
    (answer["status"].as_u64().unwrap().try_into().unwrap(), reason(answer.to_string().as_bytes()))
}

async fn by_authz(served: &Served) -> Said {
    let answer = served.send(Method::GET, "/authz", &[], "").await;
    (answer.status.as_u16(), reason(&answer.body))
}

async fn by_tower(served: &Served) -> Said {
    let inner = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())));
    let service = served.agent.layer(LayerSettings::default()).unwrap().layer(inner);
    let answer = service.oneshot(Request::new(())).await.unwrap();
    (answer.status().as_u16(), reason(&answer.into_body().collect().await.unwrap().to_bytes()))
}

/// The decisions of the rule by outcome, those that happened.
fn outcomes(served: &Served) -> Vec<(String, u64)> {
    let text = served.agent.metrics_text();
    let series = |line: &str| {
        let line = line.strip_prefix(r#"weir_decisions_total{domain="default",rule="three",tier="free",outcome=""#)?;
        let (outcome, count) = line.split_once("\"} ")?;
        Some((outcome.to_owned(), count.parse().ok()?))
    };
    let mut outcomes: Vec<_> = text.lines().filter_map(series).collect();
    outcomes.sort();
    outcomes
}

#[tokio::test(flavor = "multi_thread")]
async fn bb_12_each_mode_on_each_surface() {
    for (mode, allowed, refusal, expected) in [
        ("local", 3, Some((429, "limited")), vec![("degraded_allowed", 3), ("degraded_denied", 97)]),
        ("open", 100, None, vec![("degraded_allowed", 100)]),
        ("closed", 0, Some((503, "unavailable")), vec![("unavailable", 100)]),
    ] {
        for surface in ["check", "authz", "tower"] {
            let served = lonely(mode).await;
            let ask = || async {
                match surface {
                    "check" => by_check(&served).await,
                    "authz" => by_authz(&served).await,
                    _ => by_tower(&served).await,
                }
            };
            let said = join_all((0..100).map(|_| ask())).await;
            let (passed, refused): (Vec<Said>, Vec<Said>) = said.into_iter().partition(|(status, _)| *status == 200);
            assert_eq!(passed.len(), allowed, "{mode} {surface}: {refused:?}");
            let refusal = refusal.map(|(status, reason)| (status, Some(reason.to_owned())));
            assert!(refused.iter().all(|said| Some(said) == refusal.as_ref()), "{mode} {surface}: {refused:?}");
            let expected: Vec<_> = expected.iter().map(|(outcome, count)| ((*outcome).to_owned(), *count)).collect();
            assert_eq!(outcomes(&served), expected, "{mode} {surface}");
            served.stop().await;
        }
    }
}
