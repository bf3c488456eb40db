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
    let mut random = rand::rng();
    (0..1000)
        .map(|_| random.random_range(10_240..32_000))
        .find(|port| TcpListener::bind(loopback(*port)).is_ok())
        .ok_or_else(|| std::io::Error::other("no free port between 10240 and 32000"))
}

/// The port's address on 127.0.0.1.
pub(crate) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}
