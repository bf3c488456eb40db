//! Supervised children: how they end, and what is seen of them.
#![allow(clippy::expect_used, reason = "a test may panic")]

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use weir_testbed::{Child, Program, await_until};

const PATIENCE: Duration = Duration::from_secs(10);

/// A shell script as a child, in a folder for its log.
fn script(folder: &tempfile::TempDir, text: &str) -> Program {
    Program::new("/bin/sh", folder.path().join("log")).args(["-c", text])
}

async fn says(child: &Child, word: &str) -> bool {
    await_until(PATIENCE, async || child.log_tail().contains(word)).await
}

#[tokio::test]
async fn ends_with_its_own_status_and_leaves_its_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = script(&folder, "echo \"$GREETING\"; echo \"[$HOME]\" >&2; read line; exit 7").env("GREETING", "hello");
    let child = Child::spawn(&program).expect("runs");
    assert_eq!(child.wait().await.code(), Some(7), "there is no standard input to wait for");
    assert_eq!(child.ended().and_then(|status| status.code()), Some(7));
    assert_eq!(child.log_tail(), "hello\n[]", "both streams, and nothing of our own environment");
    child.signal(Signal::SIGKILL);
}

#[tokio::test]
async fn stops_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let child = Child::spawn(&script(&folder, "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done")).expect("runs");
    assert!(says(&child, "ready").await);
    assert_eq!(child.stop(PATIENCE).await.code(), Some(3));
    assert!(child.log_tail().ends_with("bye"));
}

#[tokio::test]
async fn is_killed_with_its_children_when_it_does_not_stop() {
    let folder = tempfile::tempdir().expect("a folder");
    let child = Child::spawn(&script(&folder, "trap '' TERM; sleep 600 & echo \"below $!\"; wait")).expect("runs");
    assert!(says(&child, "below ").await);
    let below: u32 = child.log_tail().trim_start_matches("below ").parse().expect("a pid");
    let start = Instant::now();
    let status = child.stop(Duration::from_millis(100)).await;
    assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
    assert!(start.elapsed() < PATIENCE);
    let gone = || !std::fs::read_to_string(format!("/proc/{below}/cmdline")).unwrap_or_default().contains("sleep");
    assert!(await_until(PATIENCE, async || gone()).await, "its child ended too");
}

#[tokio::test]
async fn ends_when_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let child = Child::spawn(&script(&folder, "trap '' TERM INT HUP; echo ready; while :; do sleep 0.01; done")).expect("runs");
    assert!(says(&child, "ready").await);
    let process = format!("/proc/{}", child.id());
    drop(child);
    assert!(!std::fs::exists(process).expect("readable"));
}

#[test]
fn a_child_outlives_the_thread_that_asked_for_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = script(&folder, "echo ready; exec sleep 600");
    let child = std::thread::spawn(move || Child::spawn(&program).expect("runs")).join().expect("no panic");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    assert!(runtime.block_on(says(&child, "ready")));
    assert_eq!(child.ended(), None);
    assert_eq!(runtime.block_on(child.kill()).signal(), Some(Signal::SIGKILL as i32));
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = Child::spawn(&Program::new("/no/such/program", folder.path().join("log"))).expect_err("not there").to_string();
    assert_eq!(error, "cannot run /no/such/program: No such file or directory (os error 2)");
}
