//! How a shard is reached: one multiplexed connection with short timeouts, over TCP, TLS or a Unix socket.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::{TcpSettings, socket2};
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo as _, RedisError, RedisResult};
use secrecy::ExposeSecret as _;

use super::settings::ShardConfig;

/// How long sent bytes may stay unacknowledged before the kernel gives the connection up. Our own timeouts give it up sooner; this one
/// frees the socket.
const USER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection may be silent before the kernel asks whether the other side is still there, and how often it asks then.
const KEEPALIVE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// Makes connections to one shard.
#[derive(Debug)]
pub(super) struct Dialer {
    client: Client,
    timeout: Duration,
}

impl Dialer {
    /// For this shard; a connection must be ready within `timeout`.
    ///
    /// # Errors
    /// The address is of a kind that this build does not know.
    pub(super) fn new(shard: &ShardConfig, timeout: Duration) -> RedisResult<Self> {
        let addr = shard.address.connection_addr().clone();
        if matches!(addr, ConnectionAddr::TcpTls { .. }) {
            // Of no effect if the process has chosen a provider already, which then serves as well.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let info = addr.into_connection_info()?;
        let mut redis = info.redis_settings().clone().set_db(shard.address.db()).set_lib_name("weir-agent", env!("CARGO_PKG_VERSION"));
        if let Some(username) = &shard.username {
            redis = redis.set_username(username);
        }
        if let Some(password) = &shard.password {
            redis = redis.set_password(password.expose_secret());
        }
        let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE_INTERVAL);
        let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive).set_user_timeout(USER_TIMEOUT);
        let client = Client::open(info.set_redis_settings(redis).set_tcp_settings(tcp))?;
        Ok(Self { client, timeout })
    }

    /// One connection, authenticated and ready.
    ///
    /// # Errors
    /// The server cannot be reached, refuses the credentials, or takes too long.
    pub(super) async fn dial(&self) -> RedisResult<MultiplexedConnection> {
        // Each call has a timeout of its own around everything, waiting for the connection's queue included; the library's would not
        // cover that.
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(self.timeout)).set_response_timeout(None);
        let dialling = self.client.get_multiplexed_async_connection_with_config(&config);
        match tokio::time::timeout(self.timeout, dialling).await {
            Ok(result) => result,
            Err(_) => Err(RedisError::from(std::io::Error::new(std::io::ErrorKind::TimedOut, "connecting took too long"))),
        }
    }
}
