use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, postgres::PgConnectOptions};

use crate::error::{Doing, Error};
use crate::folder::Folder;
use crate::owner::Owner;
use crate::port::loopback;
use crate::program::Program;
use crate::server::{Probe, Server, on_free_port};
use crate::tools::{self, PostgresPrograms};

mod data;

/// The superuser that the server is made with.
const USER: &str = "postgres";
/// The port that names the Unix socket when there is no TCP.
const SOCKET_PORT: u16 = 5432;

/// How to run a private Postgres.
#[derive(Debug, Clone, Default)]
pub struct PostgresSettings {
    /// Folder for the data, kept when the server stops. `None`: a temporary folder, with durability switched off.
    pub data: Option<PathBuf>,
    /// Also listen on a free port of 127.0.0.1, with a random password (a [`Proxy`](crate::Proxy) needs that). Otherwise only a Unix socket in a
    /// folder that nobody else may enter.
    pub tcp: bool,
    /// Further settings as in postgresql.conf: `("max_connections", "20")`.
    pub extra: Vec<(String, String)>,
}

/// A private Postgres server, stopped and (if temporary) removed when dropped.
#[derive(Debug)]
pub struct Postgres {
    server: Server<PostgresProbe>,
    access: Access,
    folder: Folder,
    /// The socket is in a folder of its own, since the path of a lasting data folder may be too long for it (107 bytes).
    _sockets: Folder,
}

/// What it takes to connect.
#[derive(Debug, Clone)]
struct Access {
    socket: PathBuf,
    port: u16,
    password: String,
    tcp: bool,
}

impl Postgres {
    /// A fresh server for a test: temporary, on a Unix socket.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn temporary() -> Result<Self, Error> {
        Self::start(PostgresSettings::default()).await
    }

    /// Starts a server and waits until it answers.
    ///
    /// # Errors
    /// No suitable Postgres on the machine, the folder cannot be used, or the server fails; the message has the end of its log.
    pub async fn start(settings: PostgresSettings) -> Result<Self, Error> {
        if settings.tcp {
            on_free_port(crate::free_port, |port| Self::start_on(settings.clone(), port)).await
        } else {
            Self::start_on(settings, SOCKET_PORT).await
        }
    }

    async fn start_on(settings: PostgresSettings, port: u16) -> Result<Self, Error> {
        let owner = Owner::for_servers();
        let folder = settings.data.as_ref().map_or_else(|| Folder::temporary(owner), |data| Folder::lasting(data, owner))?;
        let sockets = Folder::temporary(owner)?;
        let data = folder.join("data");
        let made_by = std::fs::read_to_string(data.join("PG_VERSION")).ok().and_then(|version| tools::major(&version));
        let programs = tools::postgres(made_by)?;
        if made_by.is_none() {
            data::prepare(&programs, &folder, owner, settings.data.is_some()).await?;
        }
        let password = std::fs::read_to_string(folder.join("password")).doing(|| format!("read {}", folder.join("password").display()))?;
        let access = Access { socket: sockets.place("s")?, port, password, tcp: settings.tcp };
        let program = serve(&programs, &folder, &access, &settings, owner);
        let server = start_after_predecessor(program, &access).await?;
        Ok(Self { server, access, folder, _sockets: sockets })
    }

    /// Address of the maintenance database, for the superuser: over TCP if that was asked for, else over the socket.
    pub fn url(&self) -> String {
        self.url_of(USER)
    }

    /// Address of a database.
    pub fn url_of(&self, database: &str) -> String {
        self.access.url(database, None)
    }

    /// Address of a database through something that forwards to [`addr`](Self::addr), such as a [`Proxy`](crate::Proxy).
    pub fn url_through(&self, proxy: SocketAddr, database: &str) -> String {
        self.access.url(database, Some(proxy))
    }

    /// The TCP address.
    ///
    /// # Errors
    /// The server was started without TCP.
    pub fn addr(&self) -> Result<SocketAddr, Error> {
        if self.access.tcp { Ok(loopback(self.access.port)) } else { Err(Error::NoTcp { program: "Postgres" }) }
    }

    /// Makes an empty database and gives its address.
    ///
    /// # Errors
    /// Postgres refuses: it exists already, or the server is down.
    pub async fn create_database(&self, name: &str) -> Result<String, Error> {
        let failed = |source| Error::Database { doing: format!("create the database {name}"), source };
        let mut connection = self.access.connect().await.map_err(failed)?;
        let statement = format!("CREATE DATABASE \"{}\"", name.replace('"', "\"\""));
        sqlx::query(AssertSqlSafe(statement)).execute(&mut connection).await.map_err(failed)?;
        connection.close().await.map_err(failed)?;
        Ok(self.url_of(name))
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

    /// Freezes it with all its processes: connections stay open and nothing answers.
    pub async fn pause(&self) {
        self.server.pause().await;
    }

    /// Ends a pause.
    pub async fn resume(&self) {
        self.server.resume().await;
    }

    /// Stops it if it runs, and starts it at the same address with the same data.
    ///
    /// # Errors
    /// It does not start again.
    pub async fn restart(&self) -> Result<(), Error> {
        self.server.restart().await
    }

    /// Stops it in order: connections are cut and the data is complete on disk; killed if that takes longer than four seconds.
    pub async fn stop(&self) {
        self.server.stop().await;
    }
}

impl Access {
    fn url(&self, database: &str, proxy: Option<SocketAddr>) -> String {
        let Self { socket, port, password, tcp } = self;
        match proxy {
            Some(proxy) => format!("postgres://{USER}:{password}@{proxy}/{database}"),
            None if *tcp => format!("postgres://{USER}:{password}@127.0.0.1:{port}/{database}"),
            None => format!("postgres://{USER}@localhost:{port}/{database}?host={}", socket.display()),
        }
    }

    /// Always over the socket, where only our own server can be.
    async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        let options = PgConnectOptions::new_without_pgpass().socket(&self.socket).port(self.port).username(USER).database(USER);
        options.disable_statement_logging().connect().await
    }
}

/// The server itself, as a child to supervise.
fn serve(programs: &PostgresPrograms, folder: &Folder, access: &Access, settings: &PostgresSettings, owner: Option<Owner>) -> Program {
    let temporary = settings.data.is_none();
    let mut options = vec![
        ("listen_addresses", if access.tcp { "127.0.0.1" } else { "" }.to_owned()),
        ("port", access.port.to_string()),
        ("unix_socket_directories", access.socket.display().to_string()),
        ("unix_socket_permissions", "0700".into()),
        ("max_connections", "200".into()),
        // Compiling queries costs more than our short statements take, and not every build has it.
        ("jit", "off".into()),
        ("timezone", "UTC".into()),
        ("log_timezone", "UTC".into()),
    ];
    if temporary {
        options.extend(["fsync", "synchronous_commit", "full_page_writes"].map(|setting| (setting, "off".to_owned())));
        // In the data folder, so that a killed server leaves nothing behind in /dev/shm.
        options.push(("dynamic_shared_memory_type", "mmap".into()));
        options.push(("shared_buffers", "32MB".into()));
    }
    let extra = settings.extra.iter().map(|(name, value)| (name.as_str(), value.clone()));
    let options: Vec<String> =
        options.into_iter().chain(extra).flat_map(|(name, value)| ["-c".to_owned(), format!("{name}={value}")]).collect();
    Program::new(programs.bin.join("postgres"), folder.join("postgres.log"))
        .owner(owner)
        .env("LC_ALL", "C")
        .arg("-D")
        .arg(folder.join("data"))
        .args(options)
        .stop_signal(Signal::SIGINT)
        .abandon_signal(if temporary { Signal::SIGQUIT } else { Signal::SIGINT })
}

/// Starts the server; if a predecessor whose parent was killed still shuts down on the same data, waits for that.
async fn start_after_predecessor(program: Program, access: &Access) -> Result<Server<PostgresProbe>, Error> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let start = Instant::now();
    loop {
        let outcome = Server::start(program.clone(), PostgresProbe { access: access.clone() }).await;
        match outcome {
            Err(Error::Failed { log, .. }) if log.contains("postmaster.pid\" already exists") && start.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            outcome => return outcome,
        }
    }
}

#[derive(Debug)]
struct PostgresProbe {
    access: Access,
}

impl Probe for PostgresProbe {
    async fn answers(&self, _pid: u32) -> bool {
        match self.access.connect().await {
            Ok(connection) => connection.close().await.is_ok(),
            Err(_) => false,
        }
    }
}
