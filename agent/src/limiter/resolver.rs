//! From a host's name to its addresses: asked anew for every connection, since a name may lead elsewhere by then.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use futures::FutureExt as _;
use futures::future::BoxFuture;

/// Finds the addresses of hosts.
pub trait Resolver: fmt::Debug + Send + Sync {
    /// The addresses of `host` (a name or an address) with `port`, the best first.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;
}

/// The operating system's way: the hosts file, then DNS, as it is configured.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) }.boxed()
    }
}
