//! One call on its way to a shard, and what came of it.

use std::fmt;
use std::time::{Duration, Instant};

use redis::ServerErrorKind;
use redis::aio::MultiplexedConnection;
use weir_core::counter::{CounterCall, CounterReply};
use weir_core::decision::Cause;

use super::batch::Waiting;
use super::breaker::Failure;
use super::store::{Refund, StoreError};
use super::{script, session};

/// What a call carries.
#[derive(Debug)]
pub(super) enum Job {
    /// Requests to decide.
    Checks {
        batch: Vec<Waiting>,
        /// How often it was sent before.
        resent: u8,
        /// The script goes with it, in the same packet, since the server has lost it.
        load: bool,
    },
    /// Units to give back.
    Refunds(Vec<Refund>),
    /// A call of the agent's own, to see whether the shard can count.
    Probe {
        /// The script is loaded first.
        load: bool,
    },
}

/// A call about to be sent.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) job: Job,
    /// How often the script had been loaded when it was sent.
    pub(super) loads: u64,
    pub(super) timeout: Duration,
}

/// A call that is over.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) job: Job,
    pub(super) loads: u64,
    pub(super) took: Duration,
    /// The replies to checks; empty for other jobs.
    pub(super) result: Result<Vec<Vec<CounterReply>>, Fault>,
}

/// Why a call has no result.
#[derive(Debug)]
pub(super) enum Fault {
    /// No answer in time. It is not sent again: it may have counted.
    Timeout,
    /// The server or the connection said so.
    Store(StoreError),
}

impl Call {
    /// Sends it over `connection`.
    pub(super) async fn send(self, mut connection: MultiplexedConnection) -> Done {
        let start = Instant::now();
        let result = match tokio::time::timeout(self.timeout, self.job.run(&mut connection)).await {
            Ok(result) => result.map_err(Fault::Store),
            Err(_) => Err(Fault::Timeout),
        };
        Done { job: self.job, loads: self.loads, took: start.elapsed(), result }
    }
}

impl Job {
    async fn run(&self, connection: &mut MultiplexedConnection) -> Result<Vec<Vec<CounterReply>>, StoreError> {
        match self {
            Self::Checks { batch, load, .. } => {
                let requests: Vec<&[CounterCall]> = batch.iter().map(|waiting| waiting.calls.as_slice()).collect();
                let command = script::encode(&requests);
                let reply: Vec<u8> = if *load {
                    let mut both = redis::pipe();
                    both.cmd("SCRIPT").arg("LOAD").arg(script::source()).ignore().add_command(command);
                    let (reply,) = both.query_async(connection).await?;
                    reply
                } else {
                    command.query_async(connection).await?
                };
                script::decode(&requests, &reply)
            }
            Self::Refunds(refunds) => script::run_refunds(connection, refunds).await.map(|_| Vec::new()),
            Self::Probe { load } => {
                if *load {
                    script::load(connection).await?;
                }
                script::run(connection, &[&[session::probe()]]).await
            }
        }
    }
}

impl Fault {
    pub(super) fn is_noscript(&self) -> bool {
        matches!(self, Self::Store(StoreError::Redis(error)) if error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoScript))
    }

    /// What decisions made without this call give as their cause.
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Timeout => Cause::Timeout,
            Self::Store(_) => Cause::Error,
        }
    }

    /// What it says about the shard. An error of the script itself (`ERR`) is this call's; everything else a server says here (`READONLY`
    /// after a failover, `LOADING`, `OOM`, `NOAUTH`, `MISCONF`, ...) is true of every call on this connection, and may be cured by
    /// connecting anew.
    pub(super) fn failure(&self) -> Failure {
        match self {
            Self::Timeout | Self::Store(StoreError::Reply(_)) => Failure::Call,
            Self::Store(StoreError::Redis(error)) if error.code() == Some("ERR") || self.is_noscript() => Failure::Call,
            Self::Store(StoreError::Redis(_)) => Failure::Connection,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("no answer in time"),
            Self::Store(error) => error.fmt(f),
        }
    }
}
