//! Real servers for a test, each with a store on its own clock.

use std::borrow::Borrow;
use std::time::Duration;

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use weir_agent::limiter::script::RedisStore;
use weir_agent::limiter::store::CounterStore as _;
use weir_core::counter::{CounterCall, CounterReply};
use weir_testbed::{Flavor, Redis};

pub(crate) struct Server {
    pub(crate) process: Redis,
    pub(crate) connection: MultiplexedConnection,
    pub(crate) store: RedisStore<MultiplexedConnection>,
}

impl Server {
    pub(crate) async fn start(flavor: Flavor) -> Self {
        let process = Redis::temporary(flavor).await.expect("a server");
        let connection = connect(&process.url()).await;
        Self { process, store: RedisStore::new(connection.clone()), connection }
    }

    /// Redis, then Valkey.
    pub(crate) async fn each() -> [Self; 2] {
        [Self::start(Flavor::Redis).await, Self::start(Flavor::Valkey).await]
    }

    /// Decides one request with one limit.
    pub(crate) async fn check(&self, call: impl Borrow<CounterCall>) -> CounterReply {
        self.check_all(std::slice::from_ref(call.borrow())).await[0]
    }

    /// Decides one request.
    pub(crate) async fn check_all(&self, calls: &[CounterCall]) -> Vec<CounterReply> {
        self.store.check(&[calls]).await.expect("a decision").remove(0)
    }

    /// Sends a command and reads its answer.
    pub(crate) async fn ask<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> T {
        command.query_async(&mut self.connection.clone()).await.expect("an answer")
    }

    pub(crate) async fn ttl_ms(&self, key: &[u8]) -> i64 {
        self.ask(redis::cmd("PTTL").arg(key)).await
    }

    pub(crate) async fn keys(&self) -> Vec<Vec<u8>> {
        self.ask(redis::cmd("KEYS").arg("*")).await
    }
}

pub(crate) async fn connect(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).expect("an address");
    let patient = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(30)));
    client.get_multiplexed_async_connection_with_config(&patient).await.expect("a connection")
}
