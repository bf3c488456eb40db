//! What an agent tells of its shards while something is wrong with them, and what rules that escalate answer meanwhile.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod served;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};
use served::{PATIENCE, Served, settings};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use weir_agent::limiter::ShardConfig;
use weir_agent::settings::{AgentSettings, Counters};
use weir_testbed::{Flavor, Redis, await_until};

fn with_shard(rules: &str, address: &str) -> AgentSettings {
    let mut settings = settings(rules);
    settings.counters = Counters::Shards(vec![ShardConfig::new("a".parse().unwrap(), address.parse().unwrap())]);
    settings
}

/// A server's first line that says its version, as a server of this major version would say it in as many bytes.
fn aged(line: &[u8], major: &str) -> Vec<u8> {
    const NAME: &[u8] = b"redis_version:";
    let Some(version) = line.strip_prefix(NAME) else { return line.to_vec() };
    let digits = version.iter().position(|byte| *byte == b'.').unwrap();
    [NAME, format!("{major:0>digits$}").as_bytes(), &version[digits..]].concat()
}

/// Passes everything on, but makes the server behind it say that it is of this major version. Every reply ends with a line's end.
async fn aging(server: SocketAddr, major: &'static str) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let relay = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            connections.spawn(async move {
                let (mut asks, mut is_told) = client.into_split();
                let (says, mut is_asked) = TcpStream::connect(server).await?.into_split();
                let mut says = BufReader::new(says);
                let told = async {
                    let mut line = Vec::new();
                    while says.read_until(b'\n', &mut line).await? > 0 {
                        is_told.write_all(&aged(&line, major)).await?;
                        line.clear();
                    }
                    Ok::<_, std::io::Error>(())
                };
                tokio::select! {
                    over = tokio::io::copy(&mut asks, &mut is_asked) => over.map(drop),
                    over = told => over,
                }
            });
        }
    });
    (address, relay)
}

/// The warnings of the only shard, as `/readyz` has them.
async fn warnings(served: &Served) -> Vec<Value> {
    served.get("/readyz").await.json()["shards"][0]["warnings"].as_array().unwrap().clone()
}

/// A server older than any that is tested is told of, and counts all the same.
#[tokio::test]
async fn an_old_server_is_told_of() {
    const RULES: &str = "{ domain: default, rules: [{ name: r, key: [], limits: { '*': { limit: 5, window: 1h } } }] }";
    const SERIES: &str = "weir_shard_warnings{shard=\"a\",code=\"old_server\"}";
    let server = Redis::temporary(Flavor::Redis).await.unwrap();
    for (major, is_old) in [("5", true), ("9", false)] {
        let (address, relay) = aging(server.addr().unwrap(), major).await;
        let served = Served::start(with_shard(RULES, &format!("redis://{address}"))).await;
        assert_eq!(served.decide(&json!({})).await["degraded"], Value::Null);
        let found: Vec<Value> = warnings(&served).await.into_iter().filter(|warning| warning["code"] == "old_server").collect();
        let metrics = String::from_utf8(served.get("/metrics").await.body.to_vec()).unwrap();
        let series = metrics.lines().find_map(|line| line.strip_prefix(SERIES)).map(str::trim);
        if is_old {
            let text = found[0].to_string();
            assert!(text.contains("Redis 5.") && text.contains("6.2"), "{text}");
            assert_eq!((found.len(), series), (1, Some("1")), "{metrics}");
        } else {
            assert_eq!((found, series.is_none_or(|value| value == "0")), (vec![], true), "{metrics}");
        }
        served.stop().await;
        relay.abort();
    }
}

/// What a question about a rule got: its status, its reason, and in which mode it was degraded.
async fn said(served: &Served, rule: &str) -> (u64, String, Option<String>) {
    let answer = served.decide(&json!({ "path": format!("/{rule}") })).await;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    (answer["status"].as_u64().unwrap(), text(&answer["reason"]).unwrap(), text(&answer["degraded"]["mode"]))
}

/// BB-12: a rule that escalates answers over HTTP as its mode says, after a second as what it escalates to, and from its shard once that is back.
#[tokio::test(flavor = "multi_thread")]
async fn fault_bb_12_escalation_over_http() {
    const STEPS: [(&str, &str); 6] =
        [("local", "closed"), ("local", "open"), ("closed", "open"), ("closed", "local"), ("open", "local"), ("open", "closed")];
    let rule = |(mode, to): &(&str, &str)| {
        format!(
            "{{ name: {mode}-{to}, match: {{ path: /{mode}-{to} }}, key: [], algorithm: sliding_window, on_failure: {{ mode: {mode}, escalate: {{ after: 1s, to: {to} }} }}, limits: {{ '*': {{ limit: 100000, window: 1h }} }} }}"
        )
    };
    let server = Redis::temporary(Flavor::available().unwrap()).await.unwrap();
    let rules = format!("{{ domain: default, rules: [{}] }}", STEPS.iter().map(rule).collect::<Vec<_>>().join(", "));
    let mut settings = with_shard(&rules, &server.url());
    settings.budget = Duration::from_millis(50);
    settings.authz.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let served = Served::start(settings).await;
    let all_said = async || {
        let mut all = Vec::new();
        for (mode, to) in STEPS {
            all.push(said(&served, &format!("{mode}-{to}")).await);
        }
        all
    };
    let degraded = |modes: [&str; 6]| {
        modes.map(|mode| {
            let (status, reason) = if mode == "closed" { (503, "unavailable") } else { (200, "ok") };
            (status, reason.to_owned(), Some(mode.to_owned()))
        })
    };
    let normal = std::array::from_fn::<_, 6, _>(|_| (200, "ok".to_owned(), None));
    assert!(await_until(PATIENCE, async || all_said().await == normal).await);

    server.kill().await;
    let killed = Instant::now();
    assert!(await_until(PATIENCE, async || all_said().await == degraded(STEPS.map(|step| step.0))).await, "{:?}", all_said().await);
    assert!(await_until(PATIENCE, async || all_said().await == degraded(STEPS.map(|step| step.1))).await, "{:?}", all_said().await);
    assert!(killed.elapsed() >= Duration::from_secs(1), "escalated after {:?}", killed.elapsed());
    for (mode, to) in STEPS {
        let answer = served.send(Method::GET, "/authz", &[("x-forwarded-uri", &format!("/{mode}-{to}"))], "").await;
        assert_eq!(answer.status, if to == "closed" { 503 } else { 200 }, "{mode}, then {to}");
    }

    server.restart().await.unwrap();
    assert!(await_until(Duration::from_secs(5), async || all_said().await == normal).await, "{:?}", all_said().await);
    served.stop().await;
}
