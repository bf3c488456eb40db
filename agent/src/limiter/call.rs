//! One call on its way to a shard, and what came of it.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use weir_core::counter::CounterCall;
use weir_core::decision::Cause;
use weir_core::key::{HashSecret, Tag, counter_key};
use weir_core::limit::{Algorithm, Bound, MAX_UNITS};

use super::address::Host;
use super::batch::{Refunds, Waiting};
use super::breaker::Failure;
use super::cluster::Redirect;
use super::script::{self, Decoded, ServerClock};
use super::slots::{self, slot_of};
use super::store::StoreError;
use super::work::{Operation, Work};

/// How many keys a probe tries for one in a node's slots. The next one tries others, so that none of them takes long.
const PROBE_KEYS: u32 = 256;

/// What a call carries.
#[derive(Debug)]
pub(super) enum Job {
    /// Requests to decide.
    Checks(Vec<Waiting>),
    /// Units to give back, and leases to end, for which nobody waits.
    Refunds(Refunds),
    /// What is done besides, for some who wait.
    Operation(Operation),
    /// A call of the agent's own, to see whether the shard can count.
    Probe(CounterCall),
}

/// A call about to be sent.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) job: Job,
    /// The script goes with it, in the same packet, since the server may not have it.
    pub(super) load: bool,
    /// The node is told that the call knows of a slot's move.
    pub(super) asking: bool,
    /// How often it was sent before.
    pub(super) resent: u8,
    /// How often the script had been loaded when it was sent.
    pub(super) loads: u64,
    pub(super) timeout: Duration,
}

/// A call that is over.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) call: Call,
    pub(super) took: Duration,
    pub(super) result: Result<Said, Fault>,
}

/// What a server said to a call.
#[derive(Debug)]
pub(super) enum Said {
    /// To requests.
    Decided(Decoded),
    /// To everything else: units given back, counters cleared.
    Did(Vec<u64>),
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
    pub(super) async fn send(self, mut connection: MultiplexedConnection, clock: &ServerClock) -> Done {
        let start = Instant::now();
        // Around everything, so that it covers waiting for the connection's own queue too.
        let result = match tokio::time::timeout(self.timeout, self.run(&mut connection, clock)).await {
            Ok(result) => result.map_err(Fault::Store),
            Err(_) => Err(Fault::Timeout),
        };
        Done { call: self, took: start.elapsed(), result }
    }

    async fn run(&self, connection: &mut MultiplexedConnection, clock: &ServerClock) -> Result<Said, StoreError> {
        let command = self.job.command(clock.now_us());
        let reply: Vec<u8> = if self.load || self.asking {
            let mut all = redis::pipe();
            if self.load {
                all.cmd("SCRIPT").arg("LOAD").arg(script::source());
            }
            if self.asking {
                all.cmd("ASKING");
            }
            all.add_command(command);
            let replies = connection.send_packed_commands(&all, 0, all.len()).await?;
            // The first error says more than what comes of it.
            let replies = replies.into_iter().map(redis::Value::extract_error).collect::<Result<Vec<_>, _>>()?;
            redis::from_redis_value(replies.into_iter().next_back().unwrap_or_default()).map_err(redis::RedisError::from)?
        } else {
            command.query_async(connection).await?
        };
        let said = self.job.read(&reply)?;
        if let Said::Decided(decoded) = &said {
            clock.heard(decoded.time_us);
        }
        Ok(said)
    }
}

impl Job {
    /// The agent's own question: one unit of a counter that is no request's, in a slot that `owned` says is the node's own. A write, since
    /// a server that only reads cannot count; its key is gone after some seconds. `number` says which key is tried first, and then where to
    /// go on: with one that was found. Where none is, the node says whose the slot is, which is a sign of life as well.
    pub(super) fn probe(owned: impl Fn(u16) -> bool, number: &AtomicU32) -> Self {
        let secret = HashSecret::built_in();
        let key = |number: u32| counter_key(&secret, Tag::of_rule(&secret, "weir", &format!("probe {number}"), &[]), "probe", &[]);
        let first = number.load(Ordering::Relaxed);
        let tried = (0..PROBE_KEYS).map(|turn| first.wrapping_add(turn));
        let found = tried.map(|number| (number, key(number))).find(|(_, key)| owned(slot_of(key.tag())));
        let (next, key) = found.unwrap_or_else(|| (first.wrapping_add(PROBE_KEYS), key(first)));
        number.store(next, Ordering::Relaxed);
        let bound =
            Bound { algorithm: Algorithm::FixedWindow, limit: MAX_UNITS, capacity: MAX_UNITS, window_us: 1_000_000, calendar: None };
        Self::Probe(CounterCall::check(key, bound, 1))
    }

    fn command(&self, server_us: u64) -> redis::Cmd {
        match self {
            Self::Checks(batch) => script::encode(&requests(batch), server_us),
            Self::Refunds(Refunds { refunds, .. }) | Self::Operation(Operation { work: Work::Refunds(refunds), .. }) => {
                script::encode_refunds(refunds)
            }
            Self::Operation(Operation { work: Work::Resets(keys), .. }) => script::encode_resets(keys),
            Self::Probe(call) => script::encode(&[std::slice::from_ref(call)], server_us),
        }
    }

    fn read(&self, reply: &[u8]) -> Result<Said, StoreError> {
        match self {
            Self::Checks(batch) => script::decode(&requests(batch), reply).map(Said::Decided),
            Self::Refunds(Refunds { refunds, .. }) | Self::Operation(Operation { work: Work::Refunds(refunds), .. }) => {
                script::decode_refunds(refunds, reply).map(Said::Did)
            }
            Self::Operation(Operation { work: Work::Resets(keys), .. }) => {
                script::decode_done(keys.len(), reply).map(|done| Said::Did(done.into_iter().map(u64::from).collect()))
            }
            Self::Probe(call) => script::decode(&[std::slice::from_ref(call)], reply).map(Said::Decided),
        }
    }
}

fn requests(batch: &[Waiting]) -> Vec<&[CounterCall]> {
    batch.iter().map(|waiting| waiting.calls.as_slice()).collect()
}

impl Fault {
    /// The server does not have the script: it ran nothing, and the call may be sent again.
    pub(super) fn is_unknown_script(&self) -> bool {
        matches!(self, Self::Store(StoreError::Redis(error)) if script::is_unknown_script(error))
    }

    /// Where the node of a cluster at `asked` says to go instead; it counted nothing.
    pub(super) fn redirect(&self, asked: &Host) -> Option<Redirect> {
        let Self::Store(StoreError::Redis(error)) = self else { return None };
        let place = || error.redirect_node().and_then(|(place, slot)| Some((slot, slots::redirected(place, asked)?)));
        match error.code()? {
            "MOVED" => place().map(|(slot, host)| Redirect::Moved(slot, host)),
            "ASK" => place().map(|(_, host)| Redirect::Ask(host)),
            "TRYAGAIN" => Some(Redirect::TryAgain),
            _ => None,
        }
    }

    /// What happened, and what to do about it where the server is one of a cluster and the shard's address does not say so (`node`:
    /// which, if it does).
    pub(super) fn explained(&self, node: Option<&Host>) -> String {
        match self {
            Self::Store(StoreError::Redis(error)) if node.is_none() && error.code() == Some("MOVED") => {
                format!("{self}: the server is one node of a Redis Cluster, so the shard's address must begin with redis+cluster://")
            }
            _ => self.to_string(),
        }
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
            Self::Store(StoreError::Redis(error)) if matches!(error.code(), Some("ERR" | "NOSCRIPT")) => Failure::Call,
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_probe_looks_for_a_slot_of_the_node_a_little_at_a_time() {
        let (number, tried) = (AtomicU32::new(0), Cell::new(0));
        let probe = |owned: &dyn Fn(u16) -> bool| {
            let job = Job::probe(
                |slot| {
                    tried.set(tried.get() + 1);
                    owned(slot)
                },
                &number,
            );
            let Job::Probe(call) = job else { panic!("a probe") };
            slot_of(call.key.tag())
        };
        probe(&|_| false);
        assert_eq!(tried.replace(0), PROBE_KEYS);
        let few = |slot: u16| slot < 50;
        let found = (0..64).map(|_| probe(&few)).find(|slot| few(*slot));
        assert!(found.is_some() && tried.replace(0) < 64 * PROBE_KEYS);
        assert_eq!((Some(probe(&few)), tried.get()), (found, 1), "what was found is kept");
    }
}
