//! What Postgres and Redis have in common: a program that serves once its probe answers.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::sync::Mutex;

use crate::child::Child;
use crate::error::Error;
use crate::program::{Program, log_tail};

/// How long a server may take until it answers: recovery after a crash on a busy machine included.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How long a server may take to end in order before it is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(4);

/// Asks a server whether it serves.
pub(crate) trait Probe {
    /// True once the process `pid` answers requests (a stranger on the same port does not count).
    async fn answers(&self, pid: u32) -> bool;
}

/// A supervised server at a fixed address.
#[derive(Debug)]
pub(crate) struct Server<P> {
    program: Program,
    probe: P,
    child: Mutex<Child>,
}

impl<P: Probe> Server<P> {
    pub(crate) async fn start(program: Program, probe: P) -> Result<Self, Error> {
        let child = run(&program, &probe).await?;
        Ok(Self { program, probe, child: Mutex::new(child) })
    }

    pub(crate) fn probe(&self) -> &P {
        &self.probe
    }

    /// The main process's id, also after it has ended.
    pub(crate) async fn id(&self) -> u32 {
        self.child.lock().await.id()
    }

    /// Kills it with all its processes, as a crash would.
    pub(crate) async fn kill(&self) {
        self.child.lock().await.kill().await;
    }

    /// Freezes it with all its processes: connections stay open and nothing answers.
    pub(crate) async fn pause(&self) {
        self.child.lock().await.signal_tree(Signal::SIGSTOP);
    }

    pub(crate) async fn resume(&self) {
        self.child.lock().await.signal_tree(Signal::SIGCONT);
    }

    pub(crate) async fn stop(&self) {
        self.child.lock().await.stop(STOP_PATIENCE).await;
    }

    /// Stops it if it runs, and starts it again at the same address.
    pub(crate) async fn restart(&self) -> Result<(), Error> {
        let mut child = self.child.lock().await;
        child.stop(STOP_PATIENCE).await;
        *child = run(&self.program, &self.probe).await?;
        Ok(())
    }
}

/// Starts the program and waits until it serves.
async fn run(program: &Program, probe: &impl Probe) -> Result<Child, Error> {
    let child = Child::spawn(program)?;
    let start = Instant::now();
    let failed = |reason: String| Error::Failed { program: program.name(), reason, log: log_tail(&program.log) };
    loop {
        if let Some(status) = child.ended() {
            return Err(failed(format!("it ended at once with {status}")));
        }
        if probe.answers(child.id()).await {
            return Ok(child);
        }
        if start.elapsed() > START_PATIENCE {
            return Err(failed(format!("no answer within {} s", START_PATIENCE.as_secs())));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Starts a server on a free port, and on another one when the port is taken before the server gets it.
pub(crate) async fn on_free_port<S, F: Future<Output = Result<S, Error>>>(
    free: impl Fn() -> std::io::Result<u16>,
    start: impl Fn(u16) -> F,
) -> Result<S, Error> {
    const TRIES: usize = 5;
    let mut tries = 0;
    loop {
        let port = free().map_err(|source| Error::System { doing: "find a free port".into(), source })?;
        tries += 1;
        match start(port).await {
            Err(Error::Failed { log, .. }) if tries < TRIES && log.contains("Address already in use") => {}
            outcome => return outcome,
        }
    }
}
