//! Nothing survives its parent, however the parent ends.
//!
//! Each test starts this test program again as the parent, lets that start servers, and then ends it without a chance to clean up.
#![allow(clippy::expect_used, reason = "a test may panic")]

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::{Connection, PgConnection};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use weir_testbed::{Flavor, Postgres, PostgresSettings, Redis, RedisSettings, await_until};

const PATIENCE: Duration = Duration::from_secs(20);
/// Set for the parent process: a folder for lasting servers, or empty for temporary ones; with `paused:` in front, the servers are frozen.
const ROLE: &str = "TESTBED_ORPHANS_ROLE";
const READY: &str = "started: ";

#[tokio::test]
#[ignore = "what the parent process of the other tests does"]
async fn parent_process() {
    let role = std::env::var(ROLE).expect("started by the other tests");
    let (paused, folder) = role.strip_prefix("paused:").map_or((false, role.as_str()), |folder| (true, folder));
    let place = |name: &str| (!folder.is_empty()).then(|| std::path::Path::new(folder).join(name));
    let postgres = Postgres::start(PostgresSettings { data: place("pg"), ..PostgresSettings::default() }).await.expect("starts");
    let redis = Redis::start(RedisSettings { data: place("redis"), ..RedisSettings::default() }).await.expect("starts");
    let valkey = Redis::temporary(Flavor::Valkey).await.expect("starts");
    // A backend in the middle of something: Postgres has processes of its own.
    let mut connection = PgConnection::connect(&postgres.url()).await.expect("connects");
    let _ = tokio::time::timeout(Duration::from_millis(100), sqlx::query("SELECT pg_sleep(600)").execute(&mut connection)).await;
    if paused {
        postgres.pause().await;
        redis.pause().await;
        valkey.pause().await;
    }
    let servers = [postgres.id().await, redis.id().await, valkey.id().await];
    let folders = [postgres.folder(), redis.folder()].map(|folder| folder.display().to_string());
    let line = format!("\n{READY}{} {}\n", servers.map(|id| id.to_string()).join(" "), folders.join(" "));
    std::io::stdout().write_all(line.as_bytes()).expect("read by the test");
    std::future::pending::<()>().await;
}

struct Family {
    parent: tokio::process::Child,
    /// All processes below the parent.
    below: Vec<i32>,
    folders: Vec<String>,
}

async fn family(role: &str) -> Family {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["parent_process", "--exact", "--ignored", "--nocapture"]).env(ROLE, role).stdout(Stdio::piped()).kill_on_drop(true);
    let mut parent = command.spawn().expect("runs");
    let mut lines = BufReader::new(parent.stdout.take().expect("piped")).lines();
    let ready = async {
        loop {
            let line = lines.next_line().await.expect("readable").expect("the parent says that it is ready");
            if let Some(words) = line.strip_prefix(READY) {
                return words.to_owned();
            }
        }
    };
    let words = tokio::time::timeout(PATIENCE * 3, ready).await.expect("in time");
    let words: Vec<&str> = words.split(' ').collect();
    let servers: Vec<i32> = words[..3].iter().map(|id| id.parse().expect("a pid")).collect();
    let below: Vec<i32> = servers.iter().flat_map(|server| [vec![*server], children(*server)].concat()).collect();
    assert!(below.len() >= 3 + 4, "Postgres has children: {below:?}");
    Family { parent, below, folders: words[3..].iter().map(ToString::to_string).collect() }
}

/// The processes whose parent is `pid`.
fn children(pid: i32) -> Vec<i32> {
    let is_child = |stat: &str| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.split_whitespace().nth(1) == Some(&pid.to_string()));
    let processes = std::fs::read_dir("/proc").expect("readable").flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(|child: &i32| std::fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(|stat| is_child(&stat))).collect()
}

/// Waits until none of them is left.
async fn all_gone(pids: &[i32]) -> bool {
    await_until(PATIENCE, async || pids.iter().all(|pid| kill(Pid::from_raw(*pid), None).is_err() || is_zombie(*pid))).await
}

/// Dead, but whoever adopted it has not looked yet.
fn is_zombie(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z')))
}

#[tokio::test]
async fn a_killed_parent_leaves_no_process() {
    let mut family = family("").await;
    family.parent.kill().await.expect("killed");
    assert!(all_gone(&family.below).await, "{:?}", family.below);
    for folder in family.folders {
        std::fs::remove_dir_all(folder).expect("what a killed parent cannot remove, others can");
    }
}

#[tokio::test]
async fn frozen_servers_end_with_their_parent() {
    let mut family = family("paused:").await;
    family.parent.kill().await.expect("killed");
    assert!(all_gone(&family.below).await, "{:?}", family.below);
    for folder in family.folders {
        std::fs::remove_dir_all(folder).expect("removable");
    }
}

#[tokio::test]
async fn lasting_data_survives_a_killed_parent() {
    let place = tempfile::tempdir().expect("a folder");
    let path = place.path().to_str().expect("UTF-8");
    let mut first = family(path).await;
    first.parent.kill().await.expect("killed");
    // At once, while the old Postgres still shuts down.
    let mut second = family(path).await;
    assert_eq!(second.folders, first.folders);
    assert!(all_gone(&first.below).await, "{:?}", first.below);
    kill(Pid::from_raw(second.parent.id().expect("runs").cast_signed()), Signal::SIGTERM).expect("runs");
    second.parent.wait().await.expect("ended");
    assert!(all_gone(&second.below).await, "{:?}", second.below);
    for folder in second.folders {
        std::fs::remove_dir_all(folder).expect("removable");
    }
}
