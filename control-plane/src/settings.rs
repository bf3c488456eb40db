//! What an operator sets: where to listen, where the database is.

use std::net::SocketAddr;

use secrecy::SecretString;

/// Settings of a control plane.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address of the database, `postgres://user:password@host/name` (`WEIR_DATABASE_URL`, else `DATABASE_URL`).
    pub database_url: SecretString,
    /// Most database connections at a time (`WEIR_DATABASE_CONNECTIONS`, default 10).
    pub database_connections: u32,
    /// Where dashboard and admin API listen (`WEIR_HTTP_LISTEN`, default `127.0.0.1:7070`).
    pub http_listen: SocketAddr,
    /// Where agents connect (`WEIR_GRPC_LISTEN`, default `127.0.0.1:7071`).
    pub grpc_listen: SocketAddr,
    /// The dashboard's address as people reach it (`WEIR_PUBLIC_URL`, default `http://` and the address listened on).
    pub public_url: Option<String>,
    /// Where webhooks may go: `host`, `host:port` or CIDR (`WEIR_WEBHOOK_ALLOW`, comma-separated, default none).
    pub webhook_allow: Vec<String>,
}

impl Settings {
    /// Settings with that database and free ports of the loopback interface.
    #[must_use]
    pub fn new(database_url: impl Into<String>) -> Self {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            database_url: SecretString::from(database_url.into()),
            database_connections: 10,
            http_listen: loopback,
            grpc_listen: loopback,
            public_url: None,
            webhook_allow: Vec::new(),
        }
    }
}
