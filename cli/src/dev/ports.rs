//! Finds taken ports before anything is started.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::bail;

use crate::args::Dev;

/// Fails with every port that cannot be listened on, and the flag that changes it.
pub(super) fn check(dev: &Dev) -> anyhow::Result<()> {
    let mut wanted = vec![(dev.http_port, "dashboard and REST", "--http-port"), (dev.grpc_port, "control-plane gRPC", "--grpc-port")];
    wanted.extend(dev.agent_ports.iter().map(|port| (*port, "an agent's HTTP", "--agent-ports")));
    wanted.push((dev.gateway_port, "demo gateway", "--gateway-port"));
    let mut wrong = Vec::new();
    for (i, (port, what, flag)) in wanted.iter().enumerate() {
        if wanted[..i].iter().any(|(other, ..)| other == port) {
            wrong.push(format!("port {port} is given twice ({what}: change it with {flag})"));
        } else if let Err(error) = TcpListener::bind((Ipv4Addr::LOCALHOST, *port)) {
            let why =
                if error.kind() == std::io::ErrorKind::AddrInUse { "is taken".to_owned() } else { format!("cannot be used: {error}") };
            wrong.push(format!("port {port} on 127.0.0.1 {why} ({what}: choose another with {flag})"));
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}
