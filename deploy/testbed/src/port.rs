use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use rand::RngExt;

/// A port on 127.0.0.1 that nobody listens on right now.
///
/// It lies below the range from which the kernel takes the ports of outgoing connections, so it stays free while a server is stopped and
/// started again. Another process may still take it first: whoever binds it has to be ready to ask for another.
///
/// # Errors
/// None of a thousand ports tried at random was free.
pub fn free_port() -> std::io::Result<u16> {
    free_port_among(10_240..32_000, is_free)
}

/// A port like [`free_port`]'s, of which the one `above` it is free too.
pub(crate) fn free_port_pair(above: u16) -> std::io::Result<u16> {
    free_port_among(10_240..32_000 - above, |port| is_free(port) && is_free(port + above))
}

fn free_port_among(ports: std::ops::Range<u16>, is_good: impl Fn(u16) -> bool) -> std::io::Result<u16> {
    let mut random = rand::rng();
    let found = (0..1000).map(|_| random.random_range(ports.clone())).find(|port| is_good(*port));
    found.ok_or_else(|| std::io::Error::other(format!("no free port between {} and {}", ports.start, ports.end)))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(loopback(port)).is_ok()
}

/// The port's address on 127.0.0.1.
pub(crate) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}
