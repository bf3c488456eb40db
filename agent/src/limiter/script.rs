//! The one script that changes a counter in Redis: sent with a packed batch, answered with packed replies.
//!
//! `EVALSHA` knows a script by the SHA-1 of its source, and a server forgets scripts on restart, failover and `SCRIPT FLUSH`. It then
//! answers `NOSCRIPT` without having run anything, so [`run`] loads the script and sends the call once more. A connection that loads the
//! script first ([`load`]) spares the first call that detour.

mod clock;
mod packing;
mod unpacking;

use std::sync::{Arc, LazyLock};

use redis::aio::ConnectionLike;
use weir_core::counter::{CounterCall, CounterReply};

use weir_core::key::CounterKey;

use super::store::{CounterStore, Refund, Release, StoreError};

pub use clock::ServerClock;
pub use packing::{encode, encode_refunds, encode_resets};
pub use unpacking::{Decoded, decode, decode_done, decode_refunds};

/// The most limits, and the most refunds, that one call carries.
pub const MAX_CALLS: usize = 255;

const SOURCE: &str = concat!(
    include_str!("../../../lua/batch.lua"),
    include_str!("../../../lua/short.lua"),
    include_str!("../../../lua/state.lua"),
    include_str!("../../../lua/token_bucket.lua"),
    include_str!("../../../lua/sliding_window.lua"),
    include_str!("../../../lua/fixed_window.lua"),
    include_str!("../../../lua/sliding_log.lua"),
    include_str!("../../../lua/concurrency.lua"),
    include_str!("../../../lua/driver.lua"),
);

static SHA1: LazyLock<String> = LazyLock::new(|| redis::Script::new(SOURCE).get_hash().to_owned());

/// The script, as loaded into a server.
#[must_use]
pub const fn source() -> &'static str {
    SOURCE
}

/// The SHA-1 of [`source`], in hexadecimal.
#[must_use]
pub fn sha1() -> &'static str {
    &SHA1
}

/// Whether the server does not know the script: nothing has run, and after [`load`] the same call may be sent again.
#[must_use]
pub fn is_unknown_script(error: &redis::RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}

/// Loads the script into the server behind `connection`.
///
/// # Errors
/// [`StoreError::Redis`] as the server or the connection says.
pub async fn load<C: ConnectionLike + Send>(connection: &mut C) -> Result<(), StoreError> {
    redis::cmd("SCRIPT").arg("LOAD").arg(SOURCE).exec_async(connection).await?;
    Ok(())
}

/// Decides a batch of requests in one round trip (three if the server has lost the script). Requests under calendar windows take another one if
/// the server's clock is not what `clock` says, which is corrected then.
///
/// # Errors
/// [`StoreError`]. The call may have counted all the same: it must not be sent again.
pub async fn run<C: ConnectionLike + Send>(
    connection: &mut C,
    clock: &ServerClock,
    requests: &[&[CounterCall]],
) -> Result<Vec<Vec<CounterReply>>, StoreError> {
    let mut replies: Vec<Option<Vec<CounterReply>>> = requests.iter().map(|request| request.is_empty().then(Vec::new)).collect();
    for _ in 0..2 {
        let missing: Vec<usize> = (0..requests.len()).filter(|place| replies[*place].is_none()).collect();
        if missing.is_empty() {
            break;
        }
        let batch: Vec<&[CounterCall]> = missing.iter().map(|place| requests[*place]).collect();
        let decoded = decode(&batch, &send(connection, &encode(&batch, clock.now_us())).await?)?;
        clock.heard(decoded.time_us);
        for (place, reply) in missing.into_iter().zip(decoded.replies) {
            replies[place] = reply;
        }
    }
    replies.into_iter().map(|reply| reply.ok_or(StoreError::Reply("its clock jumps"))).collect()
}

/// Gives units back in one round trip; see [`CounterStore::refund`].
///
/// # Errors
/// [`StoreError`] if the server did not answer.
pub async fn run_refunds<C: ConnectionLike + Send>(connection: &mut C, refunds: &[Refund]) -> Result<Vec<u64>, StoreError> {
    if refunds.is_empty() {
        return Ok(Vec::new());
    }
    let reply = send(connection, &encode_refunds(refunds)).await?;
    decode_refunds(refunds, &reply)
}

async fn send<C: ConnectionLike + Send>(connection: &mut C, command: &redis::Cmd) -> Result<Vec<u8>, StoreError> {
    match command.query_async(connection).await {
        Err(error) if is_unknown_script(&error) => {
            load(connection).await?;
            Ok(command.query_async(connection).await?)
        }
        answer => Ok(answer?),
    }
}

/// One Redis or Valkey server as a counter store, over a connection that can be cloned.
#[derive(Debug, Clone)]
pub struct RedisStore<C> {
    connection: C,
    clock: Arc<ServerClock>,
}

impl<C> RedisStore<C> {
    /// Counts over `connection`.
    pub fn new(connection: C) -> Self {
        Self { connection, clock: Arc::default() }
    }
}

impl<C: ConnectionLike + Clone + Send + Sync> CounterStore for RedisStore<C> {
    async fn check(&self, requests: &[&[CounterCall]]) -> Result<Vec<Vec<CounterReply>>, StoreError> {
        run(&mut self.connection.clone(), &self.clock, requests).await
    }

    async fn refund(&self, refunds: &[Refund]) -> Result<Vec<u64>, StoreError> {
        run_refunds(&mut self.connection.clone(), refunds).await
    }

    async fn reset(&self, keys: &[CounterKey]) -> Result<Vec<bool>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        decode_done(keys.len(), &send(&mut self.connection.clone(), &encode_resets(keys)).await?)
    }

    async fn release(&self, releases: &[Release]) -> Result<Vec<bool>, StoreError> {
        let ended: Vec<Refund> = releases.iter().map(|release| Refund::from(*release)).collect();
        Ok(run_refunds(&mut self.connection.clone(), &ended).await?.into_iter().map(|ended| ended > 0).collect())
    }
}
