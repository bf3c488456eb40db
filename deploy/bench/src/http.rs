//! The agent as a process serves it, over TCP and over a Unix socket: `http_*_checks_per_s`.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rand::{RngExt as _, SeedableRng as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use weir_agent::run::run_on;
use weir_core::limit::Algorithm;
use weir_testbed::{Flavor, Redis};

use crate::summary::Summary;
use crate::{Done, agent, cpu, median};

const CONNECTIONS: usize = 64;
const SUBJECTS: u32 = 100_000;
const ROUNDS: usize = 5;
const SLICE: Duration = Duration::from_secs(1);

type Connection = SendRequest<Full<Bytes>>;

/// Checks per second of connections that ask again once they are answered. Agent, Redis and these callers share the machine.
pub(crate) async fn run(summary: &mut Summary) -> anyhow::Result<()> {
    let redis = Redis::temporary(Flavor::Redis).await?;
    let socket = redis.folder().join("agent.sock");
    let mut settings = agent::settings(std::slice::from_ref(&redis), Duration::from_millis(500))?;
    settings.listen.tcp = Some((Ipv4Addr::LOCALHOST, 0).into());
    settings.listen.unix = Some(socket.clone());
    let (started, address) = oneshot::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let served = std::thread::spawn(move || {
        let stopped = async { stopped.await.unwrap_or_default() };
        run_on(
            1,
            settings,
            || Ok(stopped),
            |_, listeners| {
                let _ = started.send(listeners.tcp_address());
            },
        )
    });
    let address = address.await?.context("the agent listens on TCP")?;
    let (mut tcp, mut unix) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        tcp.push(connection(stream).await?);
        unix.push(connection(UnixStream::connect(&socket as &Path).await?).await?);
    }
    let (mut tcp_rates, mut unix_rates, mut agent_us) = (Vec::new(), Vec::new(), Vec::new());
    slice(&mut tcp).await?;
    for _ in 0..ROUNDS {
        let before = cpu::other_threads()?;
        let done = slice(&mut tcp).await?;
        agent_us.push(done.us_each(cpu::other_threads()? - before));
        tcp_rates.push(done.per_second());
        unix_rates.push(slice(&mut unix).await?.per_second());
    }
    summary.row("http_tcp_checks_per_s", median(&mut tcp_rates), "POST /v1/check, 64 connections, callers on the same machine", None);
    summary.row("http_unix_checks_per_s", median(&mut unix_rates), "the same over a Unix socket", None);
    summary.row("http_tcp_agent_us_per_check", median(&mut agent_us), "processor time of the agent's one thread", None);
    drop((tcp, unix, stop));
    served.join().map_err(|_| anyhow::anyhow!("the agent panicked"))?
}

async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> anyhow::Result<Connection> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn slice(connections: &mut [Connection]) -> anyhow::Result<Done> {
    let start = Instant::now();
    let callers = connections.iter_mut().map(|connection| caller(connection, start + SLICE));
    let checks = futures::future::try_join_all(callers).await?.into_iter().sum();
    Ok(Done { checks, seconds: start.elapsed().as_secs_f64() })
}

async fn caller(connection: &mut Connection, end: Instant) -> anyhow::Result<u64> {
    let mut rng = rand::rngs::SmallRng::seed_from_u64(rand::random());
    let path = agent::counted_by(Algorithm::TokenBucket);
    let mut done = 0;
    while Instant::now() < end {
        let subject = rng.random_range(0..SUBJECTS);
        let question = format!(r#"{{"subject":"user:{subject}","method":"GET","path":"{path}"}}"#);
        let request = Request::post("/v1/check").header("host", "agent").header("content-type", "application/json");
        let answer = connection.send_request(request.body(Full::from(question))?).await?;
        ensure!(answer.status() == 200, "status {}", answer.status());
        let body = answer.into_body().collect().await?.to_bytes();
        ensure!(body.starts_with(br#"{"allowed":true"#), "{}", String::from_utf8_lossy(&body));
        done += 1;
    }
    Ok(done)
}
