use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::error::{Doing, Error};
use crate::folder::Folder;
use crate::owner::Owner;
use crate::port::loopback;
use crate::program::Program;
use crate::resp::{self, Reply, command};
use crate::server::{Probe, Server, on_free_port};
use crate::tools;

/// In a lasting folder: the name of the program that made the data.
const MADE_BY: &str = "made-by";

/// Which of the two servers that speak the Redis protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flavor {
    /// `redis-server`
    #[default]
    Redis,
    /// `valkey-server`
    Valkey,
}

impl Flavor {
    /// The flavors there are, for tests that run on each.
    pub const ALL: [Self; 2] = [Self::Redis, Self::Valkey];

    /// A flavor that this machine has: enough where one is as good as the other. One of the system is preferred to one that `make setup` fetched.
    ///
    /// # Errors
    /// It has neither.
    pub fn available() -> Result<Self, Error> {
        let system = Self::ALL.into_iter().find(|flavor| tools::system_program(flavor.program()).is_some());
        // Of those that can be fetched, Valkey is the newer one.
        let fetched = [Self::Valkey, Self::Redis].into_iter().find(|flavor| tools::fetched_program(flavor.program()).is_some());
        system.or(fetched).map_or_else(|| tools::program("redis-server or valkey-server").map(|_| Self::Redis), Ok)
    }

    /// The flavor that made the data in this folder, which the other may not be able to read; for a new folder, an [available](Self::available) one.
    ///
    /// # Errors
    /// It is not on this machine.
    pub fn for_data(folder: &Path) -> Result<Self, Error> {
        let made_by = std::fs::read_to_string(folder.join(MADE_BY)).unwrap_or_default();
        match Self::ALL.into_iter().find(|flavor| flavor.program() == made_by.trim()) {
            Some(flavor) => tools::program(flavor.program()).map(|_| flavor),
            None => Self::available(),
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Redis => "redis-server",
            Self::Valkey => "valkey-server",
        }
    }
}

/// How to run a private Redis or Valkey.
#[derive(Debug, Clone, Default)]
pub struct RedisSettings {
    /// Which server.
    pub flavor: Flavor,
    /// Folder for the data, kept when the server stops. `None`: a temporary folder, and nothing is ever saved.
    pub data: Option<PathBuf>,
    /// Listen on a Unix socket instead of a free port of 127.0.0.1.
    pub unix: bool,
    /// Password of the default user; letters and digits, as it becomes part of an address.
    pub password: Option<String>,
    /// Further directives as in redis.conf: `("maxmemory", "10mb")`.
    pub extra: Vec<(String, String)>,
}

/// A private Redis or Valkey server, stopped and (if temporary) removed when dropped.
#[derive(Debug)]
pub struct Redis {
    server: Server<RedisProbe>,
    folder: Folder,
    _sockets: Folder,
}

#[derive(Debug, Clone)]
enum Address {
    Port(u16),
    Socket(PathBuf),
}

/// What the program is run as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Server,
    Sentinel,
}

/// A node of a cluster listens on a second port, this much above the first.
const BUS: u16 = 10_000;

impl Redis {
    /// A fresh server for a test: temporary, on a free port.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn temporary(flavor: Flavor) -> Result<Self, Error> {
        Self::start(RedisSettings { flavor, ..RedisSettings::default() }).await
    }

    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// The program is not on the machine, the folder cannot be used, or the server fails; the message has the end of its log.
    pub async fn start(settings: RedisSettings) -> Result<Self, Error> {
        if settings.unix {
            Self::start_on(settings, None, Role::Server).await
        } else {
            on_free_port(crate::free_port, |port| Self::start_on(settings.clone(), Some(port), Role::Server)).await
        }
    }

    /// Starts a sentinel; what it watches is in the settings' directives.
    pub(crate) async fn start_sentinel(settings: RedisSettings) -> Result<Self, Error> {
        on_free_port(crate::free_port, |port| Self::start_on(settings.clone(), Some(port), Role::Sentinel)).await
    }

    /// Starts a node of a cluster, whose bus has a free port too.
    pub(crate) async fn start_node(flavor: Flavor, extra: Vec<(String, String)>) -> Result<Self, Error> {
        let settings = RedisSettings { flavor, extra, ..RedisSettings::default() };
        on_free_port(|| crate::port::free_port_pair(BUS), |port| Self::start_on(settings.clone(), Some(port), Role::Server)).await
    }

    async fn start_on(settings: RedisSettings, port: Option<u16>, role: Role) -> Result<Self, Error> {
        let owner = Owner::for_servers();
        let path = tools::program(settings.flavor.program())?;
        let folder = settings.data.as_ref().map_or_else(|| Folder::temporary(owner), |data| Folder::lasting(data, owner))?;
        let sockets = Folder::temporary(owner)?;
        let address = match port {
            Some(port) => Address::Port(port),
            None => Address::Socket(sockets.place("s")?.join("redis.sock")),
        };
        let data = folder.place("data")?;
        if let Some(wanted) = &settings.data {
            std::fs::write(wanted.join(MADE_BY), settings.flavor.program()).doing(|| format!("write to {}", wanted.display()))?;
        }
        // In a file, since other users can read a command line, and it may have a password.
        // A sentinel writes to it, so its folder must be the server's own.
        let config = folder.write("data/redis.conf", &directives(&settings, &address, &data))?;
        let program = Program::new(path, folder.join("redis.log"))
            .owner(owner)
            .arg(config)
            .args((role == Role::Sentinel).then_some("--sentinel"))
            .stop_signal(Signal::SIGTERM)
            .abandon_signal(if settings.data.is_none() { Signal::SIGKILL } else { Signal::SIGTERM });
        let server = Server::start(program, RedisProbe { address, password: settings.password.clone() }).await?;
        Ok(Self { server, folder, _sockets: sockets })
    }

    /// Its address as clients write it: `redis://127.0.0.1:port` or `unix:///path`, with the password if there is one.
    pub fn url(&self) -> String {
        let RedisProbe { address, password } = self.server.probe();
        match address {
            Address::Port(port) => url(loopback(*port), password.as_deref()),
            Address::Socket(path) => {
                let password = password.as_ref().map(|password| format!("?pass={password}")).unwrap_or_default();
                format!("unix://{}{password}", path.display())
            }
        }
    }

    /// Its address through something that forwards to [`addr`](Self::addr), such as a [`Proxy`](crate::Proxy).
    pub fn url_through(&self, proxy: SocketAddr) -> String {
        url(proxy, self.server.probe().password.as_deref())
    }

    /// The TCP address.
    ///
    /// # Errors
    /// The server was started on a Unix socket.
    pub fn addr(&self) -> Result<SocketAddr, Error> {
        match &self.server.probe().address {
            Address::Port(port) => Ok(loopback(*port)),
            Address::Socket(_) => Err(Error::NoTcp { program: "Redis" }),
        }
    }

    /// Runs a command.
    ///
    /// # Errors
    /// The server refuses it or does not answer within ten seconds, or it listens on a Unix socket.
    pub async fn ask(&self, words: &[&str]) -> Result<Reply, Error> {
        resp::ask(self.addr()?, self.server.probe().password.as_deref(), words).await
    }

    /// The folder with the data: for a lasting server not always where it was asked to be, since the servers' user must be able to reach it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The id of the main process.
    pub async fn id(&self) -> u32 {
        self.server.id().await
    }

    /// Kills it with all its processes, as a crash would.
    pub async fn kill(&self) {
        self.server.kill().await;
    }

    /// Freezes it: connections stay open and nothing answers.
    pub async fn pause(&self) {
        self.server.pause().await;
    }

    /// Ends a pause; requests that came meanwhile are carried out.
    pub async fn resume(&self) {
        self.server.resume().await;
    }

    /// Stops it if it runs, and starts it at the same address: empty if temporary, else with its data.
    ///
    /// # Errors
    /// It does not start again, for instance because its port was taken meanwhile.
    pub async fn restart(&self) -> Result<(), Error> {
        self.server.restart().await
    }

    /// Stops it in order; killed if that takes longer than four seconds.
    pub async fn stop(&self) {
        self.server.stop().await;
    }
}

fn url(address: SocketAddr, password: Option<&str>) -> String {
    let password = password.map(|password| format!(":{password}@")).unwrap_or_default();
    format!("redis://{password}{address}")
}

/// The configuration file.
fn directives(settings: &RedisSettings, address: &Address, data: &Path) -> String {
    let mut lines = vec![("dir", data.display().to_string()), ("save", String::new()), ("databases", "16".into())];
    lines.push(("appendonly", if settings.data.is_some() { "yes" } else { "no" }.into()));
    match address {
        Address::Port(port) => lines.extend([("bind", "127.0.0.1".into()), ("port", port.to_string())]),
        Address::Socket(path) => {
            lines.extend([("port", "0".into()), ("unixsocket", path.display().to_string()), ("unixsocketperm", "700".into())]);
        }
    }
    lines.extend(settings.password.iter().map(|password| ("requirepass", password.clone())));
    let extra = settings.extra.iter().map(|(name, value)| (name.as_str(), value.clone()));
    lines
        .into_iter()
        .chain(extra)
        .map(|(name, value)| format!("{name} \"{}\"\n", value.replace('\\', "\\\\").replace('"', "\\\"")))
        .collect()
}

#[derive(Debug)]
struct RedisProbe {
    address: Address,
    password: Option<String>,
}

impl Probe for RedisProbe {
    async fn answers(&self, pid: u32) -> bool {
        let talk = async {
            match &self.address {
                Address::Port(port) => self.is_ready(TcpStream::connect(loopback(*port)).await?, pid).await,
                Address::Socket(path) => self.is_ready(UnixStream::connect(path).await?, pid).await,
            }
        };
        matches!(tokio::time::timeout(Duration::from_secs(1), talk).await, Ok(Ok(true)))
    }
}

impl RedisProbe {
    /// It is our process that answers, and it has loaded its data.
    async fn is_ready(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin, pid: u32) -> std::io::Result<bool> {
        let login = self.password.as_ref().map(|password| command(&["AUTH", password])).unwrap_or_default();
        let questions = [login, command(&["INFO", "server"]), command(&["PING"])].concat();
        stream.write_all(questions.as_bytes()).await?;
        let (mut answers, mut packet) = (String::new(), [0; 4096]);
        let ours = format!("process_id:{pid}\r\n");
        while !(answers.contains(&ours) && answers.contains("+PONG\r\n")) {
            let read = stream.read(&mut packet).await?;
            if read == 0 || answers.contains("-LOADING") {
                return Ok(false);
            }
            answers.push_str(&String::from_utf8_lossy(&packet[..read]));
        }
        Ok(true)
    }
}
