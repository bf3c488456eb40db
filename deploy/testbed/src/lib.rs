//! Private servers for tests and for trying things out: Postgres, Redis and Valkey on free ports or sockets in folders of their own, as root or
//! as an ordinary user; a Redis Cluster, and a primary that sentinels watch; a TCP proxy that breaks connections in the ways networks do, and one that
//! ends TLS with certificates of a private authority.
//!
//! Every server is a supervised child: it can be killed, paused, resumed, restarted and stopped, and it ends when its handle is dropped or when
//! the process that started it dies, however that happens. This crate knows nothing of what is tested with it.
//!
//! ```no_run
//! # async fn example() -> Result<(), weir_testbed::Error> {
//! use weir_testbed::{Flavor, Mode, Postgres, Proxy, Redis};
//!
//! let postgres = Postgres::temporary().await?;
//! let database = postgres.create_database("orders").await?;   // an address for any client
//!
//! let redis = Redis::temporary(Flavor::Redis).await?;
//! let proxy = Proxy::start(redis.addr()?).await?;
//! let address = redis.url_through(proxy.addr());
//! proxy.set_mode(Mode::Blackhole).await;                      // the network is gone, the connections stay
//! redis.pause().await;                                        // the server hangs
//! # let _ = (database, address);
//! # Ok(())
//! # }
//! ```

mod child;
mod cluster;
mod error;
mod folder;
mod owner;
mod port;
mod postgres;
mod program;
mod proxy;
mod redis;
mod resp;
mod sentinel;
mod server;
mod tls;
mod tools;
mod tree;
mod wait;

pub use child::Child;
pub use cluster::{Cluster, SLOTS, slot_of};
pub use error::Error;
pub use owner::Owner;
pub use port::free_port;
pub use postgres::{Postgres, PostgresSettings};
pub use program::Program;
pub use proxy::{Mode, Proxy};
pub use redis::{Flavor, Redis, RedisSettings};
pub use resp::Reply;
pub use sentinel::Sentineled;
pub use tls::{Authority, Identity, TlsProxy};
pub use tools::chromium;
pub use wait::await_until;

#[cfg(test)]
mod tests {
    use super::*;

    /// Callers start servers from spawned tasks.
    fn spawnable<T: Send>(_: &T) {}

    #[tokio::test]
    async fn everything_can_be_awaited_in_a_spawned_task() {
        spawnable(&Postgres::start(PostgresSettings::default()));
        spawnable(&Redis::start(RedisSettings::default()));
        let (postgres, redis) = (Postgres::temporary().await.expect("starts"), Redis::temporary(Flavor::Redis).await.expect("starts"));
        spawnable(&postgres.create_database("a"));
        spawnable(&postgres.restart());
        spawnable(&redis.stop());
        let proxy = Proxy::start(redis.addr().expect("TCP")).await.expect("starts");
        spawnable(&proxy.set_mode(Mode::Refuse));
    }
}
