//! Opens the agent's sockets: TCP, which beyond loopback needs a token, and Unix.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use tokio::net::{TcpListener, UnixListener, UnixStream};

use crate::settings::{ListenSettings, Permissions};

/// Read and write for the owner and the group.
const SOCKET_MODE: u32 = 0o660;

/// Why the agent cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// A public address without a token would let anybody use up anybody's limits.
    #[error("{0} is beyond loopback: set a listen token, or listen on 127.0.0.1 or on a Unix socket")]
    NoToken(SocketAddr),
    /// The TCP address cannot be used.
    #[error("cannot listen on {0}: {1}")]
    Tcp(SocketAddr, io::Error),
    /// Operations that change counters are named for a TCP listener that anybody on this machine may ask.
    #[error(
        "tcp_operations needs a listen token: whoever may call these operations can lift any limit; set one, or name them in socket_operations"
    )]
    OperationsNeedToken,
    /// What a listener is to serve or whose it is, is set, but the listener is not.
    #[error("{setting} is set, but nothing listens there: set {listener} too")]
    NoListener {
        /// The setting.
        setting: &'static str,
        /// The one that it goes with.
        listener: &'static str,
    },
    /// The path cannot be used.
    #[error("cannot listen on {0}: {1}")]
    Unix(PathBuf, io::Error),
}

/// The open sockets.
#[derive(Debug, Default)]
pub struct Listeners {
    pub(super) tcp: Option<TcpListener>,
    pub(super) unix: Option<Socket>,
    pub(super) token: Option<SecretString>,
    pub(super) tcp_operations: Permissions,
    pub(super) socket_operations: Permissions,
}

/// A Unix socket whose file goes with it.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) listener: UnixListener,
    path: PathBuf,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Listeners {
    /// Opens what the settings name.
    ///
    /// # Errors
    /// [`ListenError`]; nothing stays open.
    pub async fn open(settings: &ListenSettings) -> Result<Self, ListenError> {
        check(settings)?;
        let tcp = match settings.tcp {
            Some(address) => Some(TcpListener::bind(address).await.map_err(|error| ListenError::Tcp(address, error))?),
            None => None,
        };
        let unix = match &settings.unix {
            Some(path) => {
                Some(bind_unix(path, settings.socket_group.as_deref()).await.map_err(|error| ListenError::Unix(path.clone(), error))?)
            }
            None => None,
        };
        let ListenSettings { tcp_operations, socket_operations, .. } = *settings;
        Ok(Self { tcp, unix, token: settings.token.clone(), tcp_operations, socket_operations })
    }

    /// The TCP address, with the port that the system chose if 0 was asked for.
    #[must_use]
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(|listener| listener.local_addr().ok())
    }
}

/// Whether these settings may be listened by.
///
/// # Errors
/// [`ListenError`] says why not.
pub fn check(settings: &ListenSettings) -> Result<(), ListenError> {
    match settings.tcp {
        Some(address) if !address.ip().to_canonical().is_loopback() && settings.token.is_none() => {
            return Err(ListenError::NoToken(address));
        }
        Some(_) if !settings.tcp_operations.is_empty() && settings.token.is_none() => return Err(ListenError::OperationsNeedToken),
        None if !settings.tcp_operations.is_empty() => {
            return Err(ListenError::NoListener { setting: "tcp_operations", listener: "listen" });
        }
        _ => {}
    }
    let of_socket = [("socket_operations", !settings.socket_operations.is_empty()), ("socket_group", settings.socket_group.is_some())];
    match of_socket.into_iter().find(|(_, set)| *set && settings.unix.is_none()) {
        Some((setting, _)) => Err(ListenError::NoListener { setting, listener: "socket" }),
        None => Ok(()),
    }
}

/// Binds beside the path and renames, so that nobody can connect before the mode is set and a file left by a crash is replaced; but not
/// one that another process still serves.
async fn bind_unix(path: &Path, group: Option<&str>) -> io::Result<Socket> {
    if UnixStream::connect(path).await.is_ok() {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process serves this socket"));
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file of another kind"));
        }
        _ => {}
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let temporary = path.with_file_name(name);
    let _ = std::fs::remove_file(&temporary);
    let group = group.map(group_id).transpose()?;
    let listener = UnixListener::bind(&temporary)?;
    let owned = group.map_or(Ok(()), |group| chown(&temporary, None, Some(group)).map_err(|error| of_group(&error)));
    let placed = owned
        .and_then(|()| std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(SOCKET_MODE)))
        .and_then(|()| std::fs::rename(&temporary, path));
    if let Err(error) = placed {
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    Ok(Socket { listener, path: path.to_owned() })
}

fn of_group(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("socket_group: {error}"))
}

/// The group of this name or number.
fn group_id(group: &str) -> io::Result<u32> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("socket_group: there is no group {group:?}"));
    Ok(nix::unistd::Group::from_name(group)?.ok_or_else(unknown)?.gid.as_raw())
}
