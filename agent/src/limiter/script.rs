//! The one script that changes a counter in Redis: sent with a packed batch, answered with packed replies.
//!
//! `EVALSHA` knows a script by the SHA-1 of its source, and a server forgets scripts on restart, failover and `SCRIPT FLUSH`. It then
//! answers `NOSCRIPT` without having run anything, so [`run`] loads the script and sends the call once more. A connection that loads the
//! script first ([`load`]) spares the first call that detour.

mod packing;
mod unpacking;

use std::sync::LazyLock;

use redis::aio::ConnectionLike;
use weir_core::counter::{CounterCall, CounterReply};

use super::store::{CounterStore, Refund, StoreError};

pub use packing::{encode, encode_refunds};
pub use unpacking::{decode, decode_refunds};

/// The most limits, and the most refunds, that one call carries.
pub const MAX_CALLS: usize = 255;

const SOURCE: &str = concat!(
    include_str!("../../../lua/state.lua"),
    include_str!("../../../lua/token_bucket.lua"),
    include_str!("../../../lua/sliding_window.lua"),
    include_str!("../../../lua/fixed_window.lua"),
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

/// Decides a batch of requests in one round trip (three if the server has lost the script).
///
/// # Errors
/// [`StoreError`]. The call may have counted all the same: it must not be sent again.
pub async fn run<C: ConnectionLike + Send>(connection: &mut C, requests: &[&[CounterCall]]) -> Result<Vec<Vec<CounterReply>>, StoreError> {
    if requests.iter().all(|request| request.is_empty()) {
        return Ok(vec![Vec::new(); requests.len()]);
    }
    let reply = send(connection, &encode(requests)).await?;
    decode(requests, &reply)
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
}

impl<C> RedisStore<C> {
    /// Counts over `connection`.
    pub const fn new(connection: C) -> Self {
        Self { connection }
    }
}

impl<C: ConnectionLike + Clone + Send + Sync> CounterStore for RedisStore<C> {
    async fn check(&self, requests: &[&[CounterCall]]) -> Result<Vec<Vec<CounterReply>>, StoreError> {
        run(&mut self.connection.clone(), requests).await
    }

    async fn refund(&self, refunds: &[Refund]) -> Result<Vec<u64>, StoreError> {
        run_refunds(&mut self.connection.clone(), refunds).await
    }
}
