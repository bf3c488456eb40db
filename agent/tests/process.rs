//! `weir-agent` as a process: it starts, says what is wrong with its settings, and stops when told.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod served;

use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

use served::{PATIENCE, until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

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
    let check = || agent(&["--rules", rules.to_str().unwrap(), "--check-config"]).output().unwrap();
    assert!(check().status.success());
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
