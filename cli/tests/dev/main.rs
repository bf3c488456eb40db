//! `weir dev` as a user runs it: a process of its own, on free ports, in a folder of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod banner;
mod process;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::process::Command;
use weir_testbed::{Flavor, Postgres, Redis, await_until, free_port};

use crate::banner::shell;
use crate::process::{Dev, STOP, command, folder, ports, servers_of};

/// How long events may take to be in the analytics.
const ARRIVAL: Duration = Duration::from_secs(20);
/// How long the users of `--traffic` may take to reach a limit.
const TRAFFIC: Duration = Duration::from_secs(30);

const CREATED: StatusCode = StatusCode::CREATED;
const REFUSED: StatusCode = StatusCode::TOO_MANY_REQUESTS;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_it_limits_stops_in_time_leaves_nothing_and_keeps_its_data() {
    let (folder, ports) = (folder(), ports());
    let dev = Dev::start(&mut command(folder.path(), ports), ports).await;
    assert_ne!(servers_of(folder.path()), Vec::<String>::new(), "private servers run");
    let (allowed, denied) = what_it_prints_is_true(&dev).await;
    assert_eq!(dev.uploads(6, "bea").await, [CREATED, CREATED, CREATED, CREATED, CREATED, REFUSED]);
    summary_is(&dev, allowed + 5, denied + 1).await;
    let revision = raise_search_to_60(&dev).await;
    the_command_line_lists_the_agents(&dev).await;
    let tokens = std::fs::read_to_string(folder.path().join("tokens.json")).unwrap();
    assert!(tokens.contains(dev.banner.variable("WEIR_TOKEN")), "the admin's token is kept");
    assert!(dev.signal(Signal::SIGINT).await.success());
    assert_eq!(servers_of(folder.path()), Vec::<String>::new(), "after Ctrl-C");

    let mut dev = Dev::start(&mut command(folder.path(), ports), ports).await;
    assert_eq!(std::fs::read_to_string(folder.path().join("tokens.json")).unwrap(), tokens, "the same tokens");
    assert_eq!(dev.get("/v1/rules/search").await["limits"]["*"]["limit"], 60, "seeded once");
    assert_eq!(dev.get("/v1/revisions?page_size=1").await["items"][0]["revision"].as_u64(), Some(revision));
    assert_eq!(dev.upload("bea").await.status(), REFUSED, "what was consumed is remembered");

    dev.child.start_kill().unwrap();
    dev.child.wait().await.unwrap();
    let gone = await_until(STOP, async || servers_of(folder.path()).is_empty()).await;
    assert!(gone, "after SIGKILL: {:?}", servers_of(folder.path()));
}

/// Does what a reader of the banner would; how many of its requests pass, and how many do not.
async fn what_it_prints_is_true(dev: &Dev) -> (u64, u64) {
    let http = Client::new();
    let (page, code) = dev.banner.row("dashboard").split_once("/sign-in#code=").unwrap();
    assert_eq!((page, dev.banner.variable("WEIR_URL")), (dev.url().as_str(), dev.url().as_str()));
    let sign_in = async || http.post(format!("{page}/v1/session")).json(&json!({ "code": code })).send().await.unwrap().status();
    assert_eq!((sign_in().await, sign_in().await), (StatusCode::OK, StatusCode::UNAUTHORIZED), "a link works once");
    let dashboard = http.get(page).send().await.unwrap();
    assert!(dashboard.status().is_success() && dashboard.text().await.unwrap().contains("<div id=\"root\">"));
    assert_eq!(dev.get("/v1/rules").await["items"].as_array().map(Vec::len), Some(3));
    let shards = dev.get("/v1/shards").await;
    let shown: Vec<_> =
        shards["items"].as_array().unwrap().iter().map(|s| (s["name"].as_str().unwrap(), s["address"].as_str().unwrap())).collect();
    assert_eq!(shown, ["shard-1", "shard-2", "shard-3"].map(|name| (name, dev.banner.row(name))));

    let [search, uploads, upload, agent] = dev.banner.commands().try_into().unwrap();
    let answer = shell(&search).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("ratelimit: \"search\";r=49;"), "{answer}");
    assert_eq!(shell(&uploads).await, "201\n201\n201\n201\n201\n429\n");
    let answer = shell(&upload).await;
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("retry-after: "), "{answer}");
    let answer: Value = serde_json::from_str(&shell(&agent).await).unwrap();
    assert_eq!((&answer["allowed"], &answer["rule"]), (&json!(false), &json!("upload")), "the same counter: {answer}");
    assert_eq!(dev.banner.row("agents"), dev.agents().join(", "));
    for agent in dev.agents() {
        let question = json!({ "subject": "user:cleo", "tier": "paid", "method": "GET", "path": "/" });
        let answer: Value = http.post(format!("{agent}/v1/check")).json(&question).send().await.unwrap().json().await.unwrap();
        assert_eq!((&answer["allowed"], &answer["limit"]), (&json!(true), &json!(1000)), "{answer}");
    }
    (1 + 5 + 2, 1 + 1 + 1)
}

/// The analytics have these requests and no others; none was decided without its shard.
async fn summary_is(dev: &Dev, allowed: u64, denied: u64) {
    let mut summary = Value::Null;
    let there = await_until(ARRIVAL, async || {
        summary = dev.get("/v1/analytics/summary").await;
        summary["requests"].as_u64() >= Some(allowed + denied)
    });
    assert!(there.await, "{summary}");
    let totals = ["allowed", "denied", "degraded", "unavailable"].map(|name| summary[name].as_u64().unwrap());
    assert_eq!(totals, [allowed, denied, 0, 0], "{summary}");
}

/// A change by REST; its revision.
async fn raise_search_to_60(dev: &Dev) -> u64 {
    let mut rule = dev.get("/v1/rules/search").await;
    let etag = rule["meta"]["etag"].as_str().unwrap().to_owned();
    rule["limits"]["*"]["limit"] = json!(60);
    let (status, changed) = dev.call(Method::PUT, "/v1/rules/search", Some(&etag), Some(&rule)).await;
    assert_eq!(status, StatusCode::OK, "{changed}");
    changed["meta"]["revision"].as_u64().unwrap()
}

/// `weir agents`, with what the banner says to paste.
async fn the_command_line_lists_the_agents(dev: &Dev) {
    let weir = async |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(args).env("NO_COLOR", "1").kill_on_drop(true);
        let output = command.envs(["WEIR_URL", "WEIR_TOKEN"].map(|name| (name, dev.banner.variable(name)))).output().await.unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let names = ["agent-1", "agent-2", "demo-gateway"];
    let mut table = String::new();
    let current = await_until(ARRIVAL, async || {
        table = weir(&["agents"]).await;
        let is_current = |(name, line): (&str, &str)| line.starts_with(name) && line.contains(" yes ") && line.contains(" current ");
        // The ring and the domain of each.
        let rows = names.into_iter().flat_map(|name| [name, name]);
        table.lines().count() == 7 && rows.zip(table.lines().skip(1)).all(is_current)
    });
    assert!(current.await, "{table}");
    let agents: Vec<Value> = serde_json::from_str(&weir(&["agents", "--json"]).await).unwrap();
    let shown: Vec<_> =
        agents.iter().map(|agent| (agent["name"].as_str().unwrap(), agent["domains"][0]["state"].as_str().unwrap())).collect();
    assert_eq!(shown, names.map(|name| (name, "current")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_traffic_the_analytics_fill_and_it_stops_in_time() {
    let (folder, ports) = (folder(), ports());
    let dev = Dev::start(command(folder.path(), ports).arg("--traffic"), ports).await;
    let mut summary = Value::Null;
    let there = await_until(TRAFFIC, async || {
        summary = dev.get("/v1/analytics/summary").await;
        ["allowed", "denied"].iter().all(|name| summary[name].as_u64() > Some(0))
    });
    assert!(there.await, "{summary}");
    assert!(dev.signal(Signal::SIGINT).await.success());
    assert_eq!(servers_of(folder.path()), Vec::<String>::new(), "after Ctrl-C under traffic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_servers_that_the_environment_names_are_used_and_left_alone() {
    let (folder, ports) = (folder(), ports());
    let postgres = Postgres::temporary().await.unwrap();
    let flavor = Flavor::available().unwrap();
    let redis = [Redis::temporary(flavor).await.unwrap(), Redis::temporary(flavor).await.unwrap()];
    let urls = redis.each_ref().map(Redis::url);
    let mut command = command(folder.path(), ports);
    command.env("DATABASE_URL", postgres.create_database("weir").await.unwrap()).env("WEIR_REDIS_URLS", urls.join(","));
    let dev = Dev::start(&mut command, ports).await;
    assert_eq!(servers_of(folder.path()), Vec::<String>::new(), "no private servers");
    assert!(!folder.path().join("postgres").exists() && !folder.path().join("redis-1").exists());
    let shards = dev.get("/v1/shards").await;
    let addresses: Vec<_> = shards["items"].as_array().unwrap().iter().map(|shard| shard["address"].as_str().unwrap()).collect();
    assert_eq!(addresses, urls);
    assert_eq!(dev.uploads(6, "ada").await, [CREATED, CREATED, CREATED, CREATED, CREATED, REFUSED]);
    assert!(dev.signal(Signal::SIGINT).await.success());
    postgres.create_database("another").await.expect("Postgres still runs");
    for server in &redis {
        tokio::net::TcpStream::connect(server.addr().unwrap()).await.expect("Redis still runs");
    }
}

#[tokio::test]
async fn a_taken_port_is_named_before_anything_starts() {
    let (folder, mut ports) = (folder(), ports());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    ports[3] = taken.local_addr().unwrap().port();
    let start = Instant::now();
    let output = command(folder.path(), ports).output().await.unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(error.contains(&format!("port {} on 127.0.0.1 is taken", ports[3])) && error.contains("--agent-ports"), "{error}");
    assert!(start.elapsed() < STOP && servers_of(folder.path()).is_empty());
}

#[tokio::test]
async fn a_database_that_is_away_is_named_and_nothing_is_left() {
    let folder = folder();
    let away = format!("postgres://nobody@127.0.0.1:{}/none", free_port().unwrap());
    let output = command(folder.path(), ports()).env("DATABASE_URL", away).output().await.unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("database"), "{error}");
    assert_eq!(servers_of(folder.path()), Vec::<String>::new());
}
