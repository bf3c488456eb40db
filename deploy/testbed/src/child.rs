//! Supervised child processes: none outlives the process that started it, however that one ends.
//!
//! The kernel is asked to signal the child when its parent dies (`PR_SET_PDEATHSIG`), which also covers a parent that is killed outright. That
//! request is bound to the *thread* that forked, so all children are forked by one thread of ours that lives as long as the process.
#![allow(unsafe_code, reason = "pre_exec is unsafe; the closure only makes two system calls, both async-signal-safe")]

use std::convert::Infallible;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, getpid, getppid};
use tokio::sync::watch;

use crate::error::{Doing, Error};
use crate::program::{Program, log_tail};
use crate::tree;

/// How long a dropped child may take to end after its abandon signal before it is killed.
const LAST_CALL: Duration = Duration::from_secs(5);

/// A running child process. Dropping it ends it, and waits until it is gone.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    program: Program,
    exit: watch::Receiver<Option<ExitStatus>>,
    /// Disconnected once the child is reaped; lets `Drop` wait without a runtime.
    gone: Mutex<mpsc::Receiver<Infallible>>,
}

impl Child {
    /// Starts the program.
    ///
    /// # Errors
    /// The log file cannot be written, or the program cannot be run (not there, not allowed, no right to change users).
    pub fn spawn(program: &Program) -> Result<Self, Error> {
        let command = command(program).doing(|| format!("open the log {}", program.log.display()))?;
        let mut running = fork(command).doing(|| format!("run {}", program.path.display()))?;
        let pid = Pid::from_raw(running.id().cast_signed());
        let (report, exit) = watch::channel(None);
        let (alive, gone) = mpsc::channel();
        let waiter = move || {
            let _alive: mpsc::Sender<Infallible> = alive;
            while waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(Errno::EINTR) {}
            // Reaped under the write lock: `signal` holds the read lock, so it never hits a process that got the pid of ours.
            report.send_modify(|status| *status = Some(running.wait().unwrap_or_default()));
        };
        thread::Builder::new().name(format!("wait-{pid}")).spawn(waiter).doing(|| "start a thread".into())?;
        Ok(Self { pid, program: program.clone(), exit, gone: Mutex::new(gone) })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.pid.as_raw().cast_unsigned()
    }

    /// How the child ended, or `None` while it runs.
    pub fn ended(&self) -> Option<ExitStatus> {
        *self.exit.borrow()
    }

    /// The last lines it printed.
    pub fn log_tail(&self) -> String {
        log_tail(&self.program.log)
    }

    /// Sends a signal to the child alone; does nothing when it has ended.
    pub fn signal(&self, signal: Signal) {
        let exit = self.exit.borrow();
        if exit.is_none() {
            let _ = kill(self.pid, signal);
        }
    }

    /// Sends a signal to the child and all its descendants.
    pub fn signal_tree(&self, signal: Signal) {
        let exit = self.exit.borrow();
        if exit.is_none() {
            tree::signal(self.pid, signal);
        }
    }

    /// Waits until the child has ended.
    pub async fn wait(&self) -> ExitStatus {
        let mut exit = self.exit.clone();
        let ended = exit.wait_for(Option::is_some).await.map(|status| *status);
        ended.ok().flatten().unwrap_or_default()
    }

    /// Asks for an orderly end, and kills the child and its descendants when that takes longer than `patience`.
    pub async fn stop(&self, patience: Duration) -> ExitStatus {
        self.signal(self.program.stop);
        self.signal_tree(Signal::SIGCONT);
        match tokio::time::timeout(patience, self.wait()).await {
            Ok(status) => status,
            Err(_) => self.kill().await,
        }
    }

    /// Kills the child and its descendants at once.
    pub async fn kill(&self) -> ExitStatus {
        self.signal_tree(Signal::SIGKILL);
        self.wait().await
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.ended().is_some() {
            return;
        }
        self.signal(self.program.abandon);
        self.signal_tree(Signal::SIGCONT);
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if gone.recv_timeout(LAST_CALL) == Err(mpsc::RecvTimeoutError::Timeout) {
            self.signal_tree(Signal::SIGKILL);
            let _ = gone.recv();
        }
    }
}

/// The command, ready to fork.
fn command(program: &Program) -> io::Result<Command> {
    let log = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&program.log)?;
    let mut command = Command::new(&program.path);
    command.args(&program.args).env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path))).envs(program.env.iter().cloned());
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0).current_dir("/");
    if let Some(owner) = program.owner {
        command.uid(owner.uid).gid(owner.gid);
    }
    let (parent, abandon) = (getpid(), program.abandon);
    let bind_to_parent = move || {
        prctl::set_pdeathsig(abandon)?;
        // The parent may have died before the line above, and then nobody would ever signal us.
        if getppid() == parent { Ok(()) } else { Err(io::Error::from(Errno::ESRCH)) }
    };
    // SAFETY: between fork and exec only prctl and getppid are called: async-signal-safe, no allocation, no lock.
    unsafe { command.pre_exec(bind_to_parent) };
    Ok(command)
}

/// A command to fork, and where to say how that went.
type Order = (Command, mpsc::Sender<io::Result<std::process::Child>>);

/// The thread that forks all children: it ends with the process.
static FORKER: LazyLock<Option<mpsc::Sender<Order>>> = LazyLock::new(|| {
    let (orders, inbox) = mpsc::channel::<Order>();
    let work = move || {
        for (mut command, reply) in inbox {
            let _ = reply.send(command.spawn());
        }
    };
    thread::Builder::new().name("forker".into()).spawn(work).ok().map(|_| orders)
});

fn fork(command: Command) -> io::Result<std::process::Child> {
    let gone = || io::Error::other("the thread that starts processes is not there");
    let (reply, answer) = mpsc::channel();
    FORKER.as_ref().ok_or_else(gone)?.send((command, reply)).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}
