//! From a host's name to its addresses: asked anew for every connection, since a name may lead elsewhere by then.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;

/// Finds the addresses of hosts.
pub trait Resolver: fmt::Debug + Send + Sync {
    /// The addresses of `host` (a name or an address) with `port`, the best first.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;
}

/// The operating system's way: the hosts file, then DNS, as it is configured. Whoever asks for a name that is being looked up waits for that
/// answer: the system has no way to give a question up, so where DNS is dead each would hold a thread.
#[derive(Debug, Clone, Default)]
pub struct SystemResolver {
    looking: Arc<Mutex<HashMap<String, Looking>>>,
}

/// A question that is on its way. An error can be shared by its kind and text.
type Looking = Shared<BoxFuture<'static, Result<Vec<SocketAddr>, (io::ErrorKind, String)>>>;

impl SystemResolver {
    /// The addresses of a host; their ports say nothing.
    fn look(&self, host: &str) -> Looking {
        let mut looking = self.looking.lock();
        if let Some(looking) = looking.get(host) {
            return looking.clone();
        }
        let (name, all) = (host.to_owned(), self.looking.clone());
        let question = async move {
            let answer = tokio::net::lookup_host((name.as_str(), 0)).await.map(Iterator::collect);
            all.lock().remove(&name);
            answer.map_err(|error| (error.kind(), error.to_string()))
        };
        let question = question.boxed().shared();
        looking.insert(host.to_owned(), question.clone());
        // It ends also where nobody waits any longer.
        tokio::spawn(question.clone());
        question
    }
}

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        async move {
            match host.parse::<IpAddr>() {
                Ok(address) => Ok(vec![SocketAddr::new(address, port)]),
                Err(_) => {
                    let mut addresses = self.look(host).await.map_err(|(kind, text)| io::Error::new(kind, text))?;
                    addresses.iter_mut().for_each(|address| address.set_port(port));
                    Ok(addresses)
                }
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_is_asked_for_once_at_a_time() {
        let resolver = SystemResolver::default();
        let (first, second, other) = (resolver.look("localhost"), resolver.look("localhost"), resolver.look("no-such-host.invalid"));
        assert!(first.ptr_eq(&second) && !first.ptr_eq(&other));
        assert_eq!(first.await, second.await);
        assert!(resolver.resolve("localhost", 7).await.unwrap().iter().all(|address| address.ip().is_loopback() && address.port() == 7));
        assert!(other.await.is_err() && resolver.resolve("no-such-host.invalid", 7).await.is_err());
        assert!(resolver.looking.lock().is_empty(), "nothing is kept");
        assert_eq!(resolver.resolve("::1", 9).await.unwrap(), ["[::1]:9".parse().unwrap()]);
    }
}
