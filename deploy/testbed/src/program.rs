use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use crate::owner::Owner;

/// A program to run under supervision: what to run, as whom, and how it is asked to end.
///
/// It starts with an empty environment (but for PATH and what [`env`](Self::env) adds), without standard input, and in a process group of its
/// own, so that Ctrl-C in a terminal reaches only the parent, which then stops its children in order.
#[derive(Debug, Clone)]
pub struct Program {
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) owner: Option<Owner>,
    pub(crate) log: PathBuf,
    pub(crate) stop: Signal,
    pub(crate) abandon: Signal,
}

impl Program {
    /// A program by its path; its output (both streams) goes to the file `log`, which is emptied first.
    pub fn new(path: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            args: Vec::new(),
            env: Vec::new(),
            owner: None,
            log: log.into(),
            stop: Signal::SIGTERM,
            abandon: Signal::SIGKILL,
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds several arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Runs the program as another user; needs the right to change users, so root.
    #[must_use]
    pub fn owner(mut self, owner: Option<Owner>) -> Self {
        self.owner = owner;
        self
    }

    /// The signal that asks for an orderly end (SIGTERM unless set).
    #[must_use]
    pub fn stop_signal(mut self, signal: Signal) -> Self {
        self.stop = signal;
        self
    }

    /// The signal sent when nobody waits any longer: the parent died, or dropped its handle (SIGKILL unless set). A program with children of its
    /// own needs one on which it ends them too.
    #[must_use]
    pub fn abandon_signal(mut self, signal: Signal) -> Self {
        self.abandon = signal;
        self
    }

    /// The program's name, for messages.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().map_or_else(|| self.path.display().to_string(), |name| name.to_string_lossy().into_owned())
    }
}

/// The last lines of a log file, at most 4 KiB: what an error message shows.
pub(crate) fn log_tail(path: &Path) -> String {
    const MOST: u64 = 4096;
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MOST)))?;
        let mut bytes = Vec::new();
        file.take(MOST).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    };
    read().unwrap_or_default()
}
