//! How a server of a shard is reached: one multiplexed connection with short timeouts, over TCP, TLS or a Unix socket.
//!
//! The address is looked up anew for every connection: a name may lead elsewhere by then, and sentinels may have promoted a replica.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisError};
use secrecy::ExposeSecret as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout_at};
use weir_core::name::Name;

use super::address::{Host, Login};
use super::resolver::Resolver;
use super::settings::{LimiterSettings, ShardConfig};
use super::tls::TlsFiles;

/// How long sent bytes may stay unacknowledged before the kernel gives the connection up. Our own timeouts give it up sooner; this one
/// frees the socket.
const USER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection may be silent before the kernel asks whether the other side is still there, and how often it asks then.
const KEEPALIVE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// Makes connections to the servers of one shard.
#[derive(Debug, Clone)]
pub(super) struct Dialer {
    login: Login,
    sentinel_login: Login,
    database: u16,
    tls: Option<TlsFiles>,
    resolver: Arc<dyn Resolver>,
    timeout: Duration,
}

/// Where a connection leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Peer {
    Socket,
    /// The host that was asked for, and the address that answered.
    Tcp(Host, SocketAddr),
}

/// A connection, authenticated and ready.
#[derive(Debug, Clone)]
pub(super) struct Link {
    pub(super) connection: MultiplexedConnection,
    pub(super) peer: Peer,
}

/// What a connection is to lead to.
#[derive(Debug)]
pub(super) enum Target {
    Socket(String),
    Server(Host),
    /// The primary that the sentinels know by this name; the one that answered last is asked first.
    Sentinel {
        sentinels: Vec<Host>,
        primary: Name,
        first: AtomicUsize,
    },
}

/// Why there is no connection. Holds no secrets.
#[derive(Debug)]
pub(super) enum DialError {
    Timeout,
    /// A host cannot be reached.
    Host(Host, io::Error),
    Socket(io::Error),
    /// The server refuses us.
    Redis(RedisError),
    /// No sentinel answers; what the last of them said.
    Sentinels(Box<DialError>),
    /// The sentinels answer, and know no such primary.
    UnknownPrimary(Name),
    /// Nodes answer, and none has a map of a cluster.
    NoMap,
}

impl Target {
    /// Where this led was of no use: the next attempt asks another sentinel first, since this one may not know what the others do.
    pub(super) fn suspect(&self) {
        if let Self::Sentinel { first, .. } = self {
            first.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Dialer {
    /// For the servers of this shard; a connection must be ready within the settings' time.
    pub(super) fn new(shard: &ShardConfig, settings: &LimiterSettings) -> Self {
        Self {
            login: shard.login.clone(),
            sentinel_login: shard.sentinel_login.clone(),
            database: shard.address.database,
            tls: shard.address.tls.then(|| settings.tls.clone()),
            resolver: settings.resolver.clone(),
            timeout: settings.connect_timeout,
        }
    }

    /// One connection, authenticated and ready.
    ///
    /// # Errors
    /// The server cannot be reached, refuses the credentials, or takes too long.
    pub(super) async fn dial(&self, target: &Target) -> Result<Link, DialError> {
        let deadline = Instant::now() + self.timeout;
        let dialling = async {
            match target {
                Target::Socket(path) => {
                    let stream = UnixStream::connect(path).await.map_err(DialError::Socket)?;
                    Ok(Link { connection: self.greet(stream, &self.login, self.database).await?, peer: Peer::Socket })
                }
                Target::Server(host) => self.dial_host(host, &self.login, self.database, deadline).await,
                Target::Sentinel { sentinels, primary, first } => {
                    let host = self.primary(sentinels, primary, first, deadline).await?;
                    self.dial_host(&host, &self.login, self.database, deadline).await
                }
            }
        };
        timeout_at(deadline, dialling).await.unwrap_or(Err(DialError::Timeout))
    }

    /// Whether a new connection would lead elsewhere than this one, because the name has another address by now or the sentinels have another
    /// primary. No answer is none: then everything stays.
    pub(super) async fn leads_elsewhere(&self, target: &Target, peer: &Peer) -> bool {
        let Peer::Tcp(host, address) = peer else { return false };
        let deadline = Instant::now() + self.timeout;
        let host = match target {
            Target::Sentinel { sentinels, primary, first } => match self.primary(sentinels, primary, first, deadline).await {
                Ok(host) => host,
                Err(_) => return false,
            },
            _ => host.clone(),
        };
        let resolved = timeout_at(deadline, self.resolver.resolve(&host.name, host.port)).await;
        matches!(resolved, Ok(Ok(addresses)) if !addresses.is_empty() && !addresses.contains(address))
    }

    /// Where the sentinels say that the primary is: the first answer counts.
    async fn primary(&self, sentinels: &[Host], name: &Name, first: &AtomicUsize, deadline: Instant) -> Result<Host, DialError> {
        let unknown = || DialError::UnknownPrimary(name.clone());
        let (start, mut failed, mut answered) = (first.load(Ordering::Relaxed), unknown(), false);
        for turn in 0..sentinels.len() {
            let index = (start + turn) % sentinels.len();
            let share = share(deadline, sentinels.len() - turn);
            let asking = async {
                let mut link = self.dial_host(&sentinels[index], &self.sentinel_login, 0, share).await?;
                let mut question = redis::cmd("SENTINEL");
                question.arg("GET-MASTER-ADDR-BY-NAME").arg(name.as_str());
                question.query_async::<Option<(String, u16)>>(&mut link.connection).await.map_err(DialError::Redis)
            };
            match timeout_at(share, asking).await.unwrap_or(Err(DialError::Timeout)) {
                Ok(Some((name, port))) => {
                    first.store(index, Ordering::Relaxed);
                    return Ok(Host { name, port });
                }
                Ok(None) => answered = true,
                Err(error) => failed = DialError::Sentinels(Box::new(error)),
            }
        }
        Err(if answered { unknown() } else { failed })
    }

    /// Tries the addresses of a host in turn.
    async fn dial_host(&self, host: &Host, login: &Login, database: u16, deadline: Instant) -> Result<Link, DialError> {
        let of_host = |error: io::Error| DialError::Host(host.clone(), error);
        let addresses = self.resolver.resolve(&host.name, host.port).await.map_err(of_host)?;
        let mut failed = of_host(io::Error::new(io::ErrorKind::NotFound, "it has no address"));
        for (tried, address) in addresses.iter().enumerate() {
            let dialling = self.dial_address(host, *address, login, database);
            match timeout_at(share(deadline, addresses.len() - tried), dialling).await {
                Ok(Ok(connection)) => return Ok(Link { connection, peer: Peer::Tcp(host.clone(), *address) }),
                Ok(Err(error)) => failed = error,
                Err(_) => failed = of_host(io::ErrorKind::TimedOut.into()),
            }
        }
        Err(failed)
    }

    async fn dial_address(
        &self,
        host: &Host,
        address: SocketAddr,
        login: &Login,
        database: u16,
    ) -> Result<MultiplexedConnection, DialError> {
        let of_host = |error: io::Error| DialError::Host(host.clone(), error);
        let stream = TcpStream::connect(address).await.map_err(of_host)?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE_INTERVAL);
        let socket = SockRef::from(&stream);
        socket.set_tcp_nodelay(true).map_err(of_host)?;
        socket.set_tcp_keepalive(&keepalive).map_err(of_host)?;
        socket.set_tcp_user_timeout(Some(USER_TIMEOUT)).map_err(of_host)?;
        match &self.tls {
            None => self.greet(stream, login, database).await,
            Some(tls) => self.greet(tls.connect(&host.name, stream).await.map_err(of_host)?, login, database).await,
        }
    }

    /// Says who we are.
    async fn greet<S>(&self, stream: S, login: &Login, database: u16) -> Result<MultiplexedConnection, DialError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut info = RedisConnectionInfo::default().set_db(database.into()).set_lib_name("weir-agent", env!("CARGO_PKG_VERSION"));
        if let Some(username) = &login.username {
            info = info.set_username(username);
        }
        if let Some(password) = &login.password {
            info = info.set_password(password.expose_secret());
        }
        // Each call has a timeout of its own around everything, waiting for the connection's queue included; the library's would not
        // cover that.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let greeted = MultiplexedConnection::new_with_config(&info, stream, config).await;
        let (connection, driver) = greeted.map_err(DialError::Redis)?;
        // Ends with the last clone of the connection.
        tokio::spawn(driver);
        Ok(connection)
    }
}

/// A share of what is left until `deadline`, for the next of so many attempts.
fn share(deadline: Instant, attempts: usize) -> Instant {
    let now = Instant::now();
    now + deadline.saturating_duration_since(now) / u32::try_from(attempts.max(1)).unwrap_or(u32::MAX)
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("connecting took too long"),
            Self::Host(host, error) => write!(f, "{host}: {error}"),
            Self::Socket(error) => error.fmt(f),
            Self::Redis(error) => error.fmt(f),
            Self::Sentinels(error) => write!(f, "no sentinel answers: {error}"),
            Self::UnknownPrimary(name) => write!(f, "the sentinels know no primary called {name}"),
            Self::NoMap => f.write_str("no node knows who owns the slots of a cluster"),
        }
    }
}
