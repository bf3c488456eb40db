//! `weir-agent` as a process: it starts, says what is wrong with its settings, and stops when told.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod served;

use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use served::{PATIENCE, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use weir_testbed::{Flavor, Redis};

const RULES: &str = r#"{ domain: default, tiers: [{ name: free, default: true }], rules: [{ name: all, key: [], limits: { "*": { limit: 5, window: 1h } } }] }"#;

fn agent(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-agent"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("WEIR_")) {
        command.env_remove(name);
    }
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_mistake_is_said_before_anything_is_opened() {
    let output =
        agent(&["--name", "a b", "--listen", "nowhere"]).env("WEIR_AGENT_BUDGET", "0s").env("WEIR_AGENT_TYPO", "1").output().unwrap();
    let text = text(&output);
    assert!(!output.status.success());
    for part in ["--name", "--listen", "WEIR_AGENT_BUDGET", "WEIR_AGENT_TYPO", "--rules"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

#[test]
fn settings_and_rules_can_be_checked_alone() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    std::fs::write(&rules, RULES).unwrap();
    let check_with = |variables: &[(&str, &str)]| {
        let mut command = agent(&["--rules", rules.to_str().unwrap(), "--check-config"]);
        command.envs(variables.iter().copied()).output().unwrap()
    };
    let check = || check_with(&[]);
    assert!(check().status.success());
    let output = check_with(&[("WEIR_AGENT_AUTHZ_DOMAIN", "shop")]);
    let said = text(&output);
    let operations = text(&check_with(&[("WEIR_AGENT_TCP_OPERATIONS", "refund,reset")]));
    assert!(operations.contains("tcp_operations needs a listen token"), "{operations}");
    assert!(!output.status.success() && said.contains("/authz asks about domain shop, but default is served"), "{said}");
    std::fs::write(&rules, RULES.replace("1h", "1y")).unwrap();
    let output = check();
    assert!(!output.status.success() && text(&output).contains("window"), "{}", text(&output));
}

#[tokio::test]
async fn it_serves_and_ends_cleanly_when_terminated() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    std::fs::write(&rules, RULES).unwrap();
    let socket = folder.path().join("agent.sock");
    let arguments = ["--rules", rules.to_str().unwrap(), "--listen", "127.0.0.1:0", "--socket", socket.to_str().unwrap()];
    let mut running = tokio::process::Command::from(agent(&arguments)).kill_on_drop(true).spawn().unwrap();
    let mut stream = until("the socket", async || UnixStream::connect(&socket).await.ok()).await;
    stream.write_all(b"GET /authz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.to_lowercase().contains("x-ratelimit-remaining: 4"), "{answer}");
    let pid = running.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let status = tokio::time::timeout(PATIENCE, running.wait()).await.unwrap().unwrap();
    assert!(status.success() && !socket.exists());
}

#[test]
fn a_taken_port_is_a_clear_message() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    std::fs::write(&rules, RULES).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = agent(&["--rules", rules.to_str().unwrap(), "--listen", &address]).output().unwrap();
    assert!(!output.status.success() && text(&output).contains(&address), "{}", text(&output));
    assert!(TcpStream::connect(&address).is_ok());
}

/// Asks the agent behind a socket `POST /v1/check`.
async fn check(socket: &Path, question: &Value) -> Value {
    let stream = UnixStream::connect(socket).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = hyper::Request::post("/v1/check").header("host", "x").header("content-type", "application/json");
    let response = sender.send_request(request.body(question.to_string()).unwrap()).await.unwrap();
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

async fn keys_of(redis: &Redis) -> u64 {
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    redis::cmd("DBSIZE").query_async(&mut connection).await.unwrap()
}

/// Two agents with a rules file, shards and a secret, and no control plane, are one limiter.
#[tokio::test]
async fn agents_alone_share_their_limits_on_redis() {
    let folder = tempfile::tempdir().unwrap();
    let (rules, secret) = (folder.path().join("rules.yaml"), folder.path().join("secret"));
    let strict = RULES.replace("key: [],", "key: [subject], algorithm: sliding_window, on_failure: { mode: closed },");
    std::fs::write(&rules, strict).unwrap();
    std::fs::write(&secret, "5a".repeat(32)).unwrap();
    let mut redises = Vec::new();
    for _ in 0..2 {
        redises.push(Redis::temporary(Flavor::available().unwrap()).await.unwrap());
    }
    let shards = ["a", "b"].iter().zip(&redises).map(|(name, redis)| format!("{name}={}", redis.url())).collect::<Vec<_>>();
    let (mut running, mut sockets) = (Vec::new(), Vec::new());
    for (name, variable, value) in
        [("one", "WEIR_AGENT_HASH_SECRET_FILE", secret.to_str().unwrap()), ("two", "WEIR_AGENT_HASH_SECRET", &"5a".repeat(32))]
    {
        let socket = folder.path().join(name);
        let mut command =
            agent(&["--name", name, "--rules", rules.to_str().unwrap(), "--listen", "off", "--socket", socket.to_str().unwrap()]);
        command.args(shards.iter().flat_map(|shard| ["--shard", shard])).env("WEIR_AGENT_BUDGET", "5s").env(variable, value);
        running.push(tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap());
        until("the socket", async || UnixStream::connect(&socket).await.ok()).await;
        sockets.push(socket);
    }
    for subject in ["user:1", "user:2", "user:3"] {
        let mut allowed = 0;
        for turn in 0..12 {
            let answer = check(&sockets[turn % 2], &json!({ "subject": subject })).await;
            assert_eq!(answer["degraded"], Value::Null, "{answer}");
            allowed += u64::from(answer["allowed"] == true);
        }
        assert_eq!(allowed, 5, "{subject}");
    }
    assert!(keys_of(&redises[0]).await + keys_of(&redises[1]).await >= 3, "nothing is counted on the shards");
}

/// BB-08: an agent that is killed in the middle of its work leaves no counter without a TTL on its shard, and those that are there go by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn bb_08_a_killed_agent_leaves_no_counter_that_stays() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    let algorithms = ["token_bucket", "sliding_window", "sliding_log", "fixed_window", "concurrency"];
    let of = |algorithm: &&str| {
        let name = algorithm.replace('_', "-");
        format!("{{ name: {name}, key: [subject], algorithm: {algorithm}, limits: {{ '*': {{ limit: 2, window: 1s }} }} }}")
    };
    std::fs::write(&rules, format!("{{ domain: default, rules: [{}] }}", algorithms.iter().map(of).collect::<Vec<_>>().join(", ")))
        .unwrap();
    let redis = Redis::temporary(Flavor::available().unwrap()).await.unwrap();
    let shard = format!("a={}", redis.url());
    for round in 0..3 {
        let socket = folder.path().join(format!("{round}.sock"));
        let arguments =
            ["--rules", rules.to_str().unwrap(), "--listen", "off", "--socket", socket.to_str().unwrap(), "--shard", shard.as_str()];
        let mut running = tokio::process::Command::from(agent(&arguments)).kill_on_drop(true).spawn().unwrap();
        until("the socket", async || UnixStream::connect(&socket).await.ok()).await;
        let clients: Vec<_> = (0..4).map(|client| tokio::spawn(ask_for_ever(socket.clone(), format!("user:{round}-{client}")))).collect();
        let busy = until("keys", async || Some(expiring(&redis).await).filter(|keys| *keys > 200)).await;
        // With calls on their way.
        running.kill().await.unwrap();
        for client in clients {
            client.abort();
        }
        assert!(expiring(&redis).await >= busy / 2, "they were there");
    }
    // The mark of the secret is none of them, nor is the probe's key for long.
    until("no keys", async || (expiring(&redis).await <= 1).then_some(())).await;
}

/// Asks for one new subject after the other, until the agent is gone.
async fn ask_for_ever(socket: std::path::PathBuf, name: String) {
    let Ok(stream) = UnixStream::connect(&socket).await else { return };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for number in 0.. {
        let request = hyper::Request::post("/v1/check").header("host", "x").header("content-type", "application/json");
        let question = json!({ "subject": format!("{name}-{number}") }).to_string();
        let Ok(response) = sender.send_request(request.body(question).unwrap()).await else { return };
        if response.into_body().collect().await.is_err() {
            return;
        }
    }
}

/// Asserts that every key expires; returns how many there are.
async fn expiring(redis: &Redis) -> usize {
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query_async(&mut connection).await.unwrap();
    for key in &keys {
        let ttl: i64 = redis::cmd("PTTL").arg(key).query_async(&mut connection).await.unwrap();
        assert_ne!(ttl, -1, "{}", String::from_utf8_lossy(key));
    }
    keys.len()
}
