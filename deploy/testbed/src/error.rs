use std::path::PathBuf;

/// Why a server could not be started or reached.
///
/// None of these is worth a retry by the caller: what may succeed on a second try (a port taken meanwhile, a predecessor that is still shutting
/// down) has been tried again already.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No usable program of this kind on the machine.
    #[error("{program} not found: looked in {looked_in}; `make setup` gets it")]
    NotFound {
        /// What was looked for, with its version if that matters.
        program: String,
        /// Where it was looked for.
        looked_in: String,
    },
    /// The program ran and failed; `log` is the end of what it printed.
    #[error("{program} failed: {reason}{}", tail(log))]
    Failed {
        /// The program's name.
        program: String,
        /// What was seen from outside.
        reason: String,
        /// The last lines of its log.
        log: String,
    },
    /// The operating system refused something.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was attempted.
        doing: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Another process uses this folder.
    #[error("{} is in use by another process", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// A database statement failed.
    #[error("cannot {doing}: {source}")]
    Database {
        /// What was attempted.
        doing: String,
        /// Postgres' answer.
        source: sqlx::Error,
    },
    /// The server has no TCP address, since it was started on a Unix socket.
    #[error("{program} listens on a Unix socket only")]
    NoTcp {
        /// The server's name.
        program: &'static str,
    },
}

fn tail(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("; its last words:\n{log}") }
}

/// Names what was attempted when the system refuses it.
pub(crate) trait Doing<T> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Into<std::io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::System { doing: doing(), source: source.into() })
    }
}
