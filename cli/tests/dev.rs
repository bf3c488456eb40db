//! `weir dev` as a user runs it: a process of its own, on free ports, in a folder of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::net::TcpListener;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use weir_testbed::{await_until, free_port};

const START: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(5);

struct Dev {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    gateway: u16,
}

/// The ports as flags: HTTP, gRPC, two agents, gateway.
fn ports() -> [u16; 5] {
    std::array::from_fn(|_| free_port().unwrap())
}

fn command(data: &Path, [http, grpc, first, second, gateway]: [u16; 5]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("dev").arg("--data").arg(data);
    for (flag, value) in [("--http-port", http.to_string()), ("--grpc-port", grpc.to_string()), ("--gateway-port", gateway.to_string())] {
        command.args([flag, &value]);
    }
    command.args(["--agent-ports", &format!("{first},{second}")]);
    command.env_remove("DATABASE_URL").env_remove("WEIR_REDIS_URLS").kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Dev {
    async fn start(data: &Path, ports: [u16; 5]) -> Self {
        let mut child = command(data, ports).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut dev = Self { child, lines, gateway: ports[4] };
        let started = tokio::time::timeout(START, dev.line_with("Weir is running")).await;
        assert!(started.is_ok(), "not running after {START:?}");
        dev
    }

    async fn line_with(&mut self, text: &str) -> String {
        loop {
            match self.lines.next_line().await.unwrap() {
                Some(line) if line.contains(text) => return line,
                Some(_) => {}
                None => panic!("weir dev ended before it said {text:?}"),
            }
        }
    }

    async fn upload(&self) -> reqwest::Response {
        // A provider may be installed already; any is the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = format!("http://127.0.0.1:{}/api/upload", self.gateway);
        reqwest::Client::new().post(url).header("x-user-id", "ada").send().await.unwrap()
    }

    async fn signal(&mut self, signal: Signal) -> ExitStatus {
        let pid = Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap());
        kill(pid, signal).unwrap();
        tokio::time::timeout(STOP, self.child.wait()).await.expect("stopped within five seconds").unwrap()
    }
}

/// Processes whose command line names `data`: its servers.
fn servers_of(data: &Path) -> Vec<String> {
    let needle = data.to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit()))
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(&needle))
        .collect()
}

/// A folder that the servers' user can reach, so that their command lines name it.
fn folder() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::Builder::new().prefix("weir-dev-").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_limits_stops_in_time_leaves_nothing_and_keeps_its_data() {
    let (folder, ports) = (folder(), ports());
    let mut dev = Dev::start(folder.path(), ports).await;
    assert!(!servers_of(folder.path()).is_empty(), "private servers run");
    for _ in 0..5 {
        assert_eq!(dev.upload().await.status(), 201);
    }
    let refused = dev.upload().await;
    assert_eq!(refused.status(), 429);
    assert!(refused.headers().contains_key("retry-after") && refused.headers().contains_key("ratelimit"), "{refused:?}");
    assert!(dev.signal(Signal::SIGINT).await.success());
    assert_eq!(servers_of(folder.path()), Vec::<String>::new(), "after Ctrl-C");

    let before = std::fs::read(folder.path().join("tokens.json")).unwrap();
    let mut dev = Dev::start(folder.path(), ports).await;
    assert_eq!(std::fs::read(folder.path().join("tokens.json")).unwrap(), before, "the same tokens");
    assert_eq!(dev.upload().await.status(), 429, "what was consumed is remembered");

    dev.child.start_kill().unwrap();
    dev.child.wait().await.unwrap();
    let gone = await_until(STOP, async || servers_of(folder.path()).is_empty()).await;
    assert!(gone, "after SIGKILL: {:?}", servers_of(folder.path()));
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
    let output = command(folder.path(), ports()).env("DATABASE_URL", "postgres://nobody@127.0.0.1:1/none").output().await.unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("database"), "{error}");
    assert_eq!(servers_of(folder.path()), Vec::<String>::new());
}
