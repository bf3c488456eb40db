//! A `weir dev` of our own: started, asked over HTTP, signalled; and what it left behind.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::{Client, Method, Response, StatusCode};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use weir_testbed::free_port;

use crate::banner::Banner;

const START: Duration = Duration::from_secs(60);
/// In which it has stopped, servers and all.
pub(crate) const STOP: Duration = Duration::from_secs(5);

/// A running one.
pub(crate) struct Dev {
    pub(crate) child: Child,
    pub(crate) banner: Banner,
    http: Client,
    ports: [u16; 5],
}

/// The ports as flags: HTTP, gRPC, two agents, gateway.
pub(crate) fn ports() -> [u16; 5] {
    std::array::from_fn(|_| free_port().unwrap())
}

/// A folder that the servers' user can reach, so that their command lines name it.
pub(crate) fn folder() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::Builder::new().prefix("weir-dev-").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// `weir dev` as typed, with servers of its own.
pub(crate) fn command(data: &Path, [http, grpc, first, second, gateway]: [u16; 5]) -> Command {
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

/// Command lines that name `data`: the servers of the `weir dev` of this folder.
pub(crate) fn servers_of(data: &Path) -> Vec<String> {
    let needle = data.to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit()))
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(&needle) && !line.contains(" dev --data "))
        .collect()
}

impl Dev {
    /// Starts it and waits for all that it says.
    pub(crate) async fn start(command: &mut Command, ports: [u16; 5]) -> Self {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = async {
            let mut said = Vec::new();
            while let Some(line) = lines.next_line().await.unwrap() {
                let last = line.contains("Ctrl-C stops everything");
                said.push(line);
                if last {
                    return said;
                }
            }
            panic!("weir dev ended after it said {said:?}");
        };
        let banner = Banner(tokio::time::timeout(START, said).await.expect("started in time"));
        // A provider may be installed already; any is the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { child, banner, http: Client::new(), ports }
    }

    /// One call of the admin API as the admin of the banner: the status and the JSON body.
    pub(crate) async fn call(&self, method: Method, path: &str, if_match: Option<&str>, body: Option<&Value>) -> (StatusCode, Value) {
        let mut request = self.http.request(method, format!("{}{path}", self.url())).bearer_auth(self.banner.variable("WEIR_TOKEN"));
        if let Some(etag) = if_match {
            request = request.header("if-match", etag);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.unwrap();
        (response.status(), response.json().await.unwrap_or_default())
    }

    /// Reads from the admin API.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call(Method::GET, path, None, None).await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        body
    }

    /// Where dashboard and admin API are.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// Where the agents are.
    pub(crate) fn agents(&self) -> [String; 2] {
        [self.ports[2], self.ports[3]].map(|port| format!("http://127.0.0.1:{port}"))
    }

    /// The statuses of so many uploads through the gateway.
    pub(crate) async fn uploads(&self, count: usize, user: &str) -> Vec<StatusCode> {
        let mut statuses = Vec::new();
        for _ in 0..count {
            statuses.push(self.upload(user).await.status());
        }
        statuses
    }

    /// One upload through the gateway.
    pub(crate) async fn upload(&self, user: &str) -> Response {
        let url = format!("http://127.0.0.1:{}/api/upload", self.ports[4]);
        self.http.post(url).header("x-user-id", user).send().await.unwrap()
    }

    /// Sends a signal; how it ended, in time.
    pub(crate) async fn signal(mut self, signal: Signal) -> ExitStatus {
        let pid = Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap());
        kill(pid, signal).unwrap();
        tokio::time::timeout(STOP, self.child.wait()).await.expect("stopped within five seconds").unwrap()
    }
}
