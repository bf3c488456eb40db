//! Opens the agent's sockets: TCP, which beyond loopback needs a token, and Unix.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use tokio::net::{TcpListener, UnixListener, UnixStream};

use crate::settings::ListenSettings;

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
        let tcp = match settings.tcp {
            Some(address) if !address.ip().to_canonical().is_loopback() && settings.token.is_none() => {
                return Err(ListenError::NoToken(address));
            }
            Some(address) => Some(TcpListener::bind(address).await.map_err(|error| ListenError::Tcp(address, error))?),
            None => None,
        };
        let unix = match &settings.unix {
            Some(path) => Some(bind_unix(path).await.map_err(|error| ListenError::Unix(path.clone(), error))?),
            None => None,
        };
        Ok(Self { tcp, unix, token: settings.token.clone() })
    }

    /// The TCP address, with the port that the system chose if 0 was asked for.
    #[must_use]
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(|listener| listener.local_addr().ok())
    }
}

/// Binds beside the path and renames, so that nobody can connect before the mode is set and a file left by a crash is replaced; but not
/// one that another process still serves.
async fn bind_unix(path: &Path) -> io::Result<Socket> {
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
    let listener = UnixListener::bind(&temporary)?;
    std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(SOCKET_MODE))?;
    std::fs::rename(&temporary, path)?;
    Ok(Socket { listener, path: path.to_owned() })
}
