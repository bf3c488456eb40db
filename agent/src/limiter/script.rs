//! The one script that changes a counter in Redis: its source, its packed arguments and its packed reply.
//!
//! `EVALSHA` knows a script by the SHA-1 of its source, and a server forgets scripts on restart, failover and `SCRIPT FLUSH`. It then
//! answers `NOSCRIPT` without having run anything, so [`run`] loads the script and sends the call once more. A connection that loads the
//! script first ([`load`]) spares the first call that detour.

use redis::aio::ConnectionLike;
use weir_core::counter::{CounterCall, CounterReply};

use super::store::{CounterStore, Refund, StoreError};

/// The most limits that one call carries.
pub const MAX_CALLS: usize = 1024;

/// The driver script, as loaded into a server.
#[must_use]
pub fn source() -> &'static str {
    todo!()
}

/// The SHA-1 of [`source`], in hexadecimal.
#[must_use]
pub fn sha1() -> &'static str {
    todo!()
}

/// The `EVALSHA` command for a batch of requests; [`decode`] reads its reply.
#[must_use]
pub fn encode(_requests: &[&[CounterCall]]) -> redis::Cmd {
    todo!()
}

/// Reads the reply to [`encode`]d `requests`.
///
/// # Errors
/// [`StoreError::Reply`] unless every byte is what the script can have said.
pub fn decode(_requests: &[&[CounterCall]], _reply: &[u8]) -> Result<Vec<Vec<CounterReply>>, StoreError> {
    todo!()
}

/// Loads the script into the server behind `connection`.
///
/// # Errors
/// [`StoreError::Redis`] as the server or the connection says.
pub async fn load<C: ConnectionLike + Send>(_connection: &mut C) -> Result<(), StoreError> {
    todo!()
}

/// Decides a batch of requests in one round trip (three if the server has lost the script).
///
/// # Errors
/// [`StoreError`]; see [`StoreError::may_have_counted`] before sending anything again.
pub async fn run<C: ConnectionLike + Send>(
    _connection: &mut C,
    _requests: &[&[CounterCall]],
) -> Result<Vec<Vec<CounterReply>>, StoreError> {
    todo!()
}

/// Gives units back in one round trip; see [`CounterStore::refund`].
///
/// # Errors
/// [`StoreError`] if the server did not answer.
pub async fn run_refunds<C: ConnectionLike + Send>(_connection: &mut C, _refunds: &[Refund]) -> Result<Vec<u64>, StoreError> {
    todo!()
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
