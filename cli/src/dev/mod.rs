//! `weir dev`: the whole product on this machine, in one process beside Postgres and the Redis shards, which die with it.

mod agents;
mod banner;
mod ports;
mod seed;
mod servers;
mod tokens;
mod traffic;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_control_plane::{ControlPlane, Settings};

use self::servers::Servers;
use self::tokens::Tokens;
use crate::args::Dev;
use crate::client::Client;
use crate::output;

/// How long everything together may take to stop; what is left then is ended with this process.
const PATIENCE: Duration = Duration::from_millis(4_500);

/// What runs beside the servers, in the order in which it stops: agents hand in what they have counted, so the control plane outlives them.
#[derive(Default)]
struct Running {
    stop: CancellationToken,
    agents: TaskTracker,
    control_plane: TaskTracker,
}

/// Runs until Ctrl-C or SIGTERM, or until a part ends by itself.
pub(crate) async fn run(dev: Dev) -> anyhow::Result<()> {
    let signal = weir_agent::run::stop_signal().context("cannot listen for signals")?;
    ports::check(&dev)?;
    std::fs::create_dir_all(&dev.data).with_context(|| format!("cannot make {}", dev.data.display()))?;
    let data = dev.data.canonicalize()?;
    let _lock = lock(&data)?;
    log_to(&data.join("weir.log"))?;
    let running = Running::default();
    let mut servers = None;
    let mut signal = std::pin::pin!(signal);
    let result = tokio::select! {
        () = &mut signal => Ok(()),
        result = serve(&dev, &data, &mut servers, &running) => result,
    };
    running.stop.cancel();
    running.agents.close();
    running.control_plane.close();
    let ended = tokio::time::timeout(PATIENCE, async {
        running.agents.wait().await;
        running.control_plane.wait().await;
        if let Some(servers) = &servers {
            servers.stop().await;
        }
    });
    if ended.await.is_err() {
        output::note("some parts did not stop in time; they end with this process");
    }
    result.with_context(|| format!("weir dev stopped (its log: {})", data.join("weir.log").display()))
}

/// Starts everything, says so, and waits for the first part that fails.
async fn serve(dev: &Dev, data: &Path, servers: &mut Option<Servers>, running: &Running) -> anyhow::Result<()> {
    output::note("starting Postgres and Redis ...");
    let servers: &Servers = servers.insert(Servers::start(dev, data).await?);
    output::note("starting the control plane, agents and the demo gateway ...");
    let control_plane = ControlPlane::start(settings(dev, servers)).await.context("the control plane")?;
    let url = format!("http://{}", control_plane.http_addr());
    let grpc = format!("http://{}", control_plane.grpc_addr());
    let tokens = Tokens::get(&control_plane, data).await?;
    let link = control_plane.sign_in_link().await?;
    stop_after_the_agents(control_plane, running);
    let client = Client::with_token(&url, tokens.admin.clone())?;
    seed::run(&client, &servers.shards).await?;
    let (failed, failure) = tokio::sync::oneshot::channel();
    let fleet = agents::start(dev, data, &grpc, &tokens.agent, &running.stop, &running.agents, failed).await?;
    fleet.ready(&client).await?;
    if dev.traffic {
        running.agents.spawn(traffic::run(format!("http://127.0.0.1:{}", dev.gateway_port), running.stop.clone()));
    }
    banner::print(dev, data, servers, &link, &tokens);
    match failure.await {
        Ok(error) => Err(error),
        Err(_) => bail!("all parts ended"),
    }
}

fn settings(dev: &Dev, servers: &Servers) -> Settings {
    let mut settings = Settings::new(servers.database_url.clone());
    settings.http_listen = SocketAddr::from((Ipv4Addr::LOCALHOST, dev.http_port));
    settings.grpc_listen = SocketAddr::from((Ipv4Addr::LOCALHOST, dev.grpc_port));
    settings
}

fn stop_after_the_agents(control_plane: ControlPlane, running: &Running) {
    let (stop, agents) = (running.stop.clone(), running.agents.clone());
    running.control_plane.spawn(async move {
        stop.cancelled().await;
        agents.wait().await;
        control_plane.shutdown().await;
    });
}

/// One `weir dev` per data folder.
fn lock(data: &Path) -> anyhow::Result<std::fs::File> {
    let file = std::fs::File::create(data.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => bail!("another `weir dev` runs on {}: stop it, or choose another folder with --data", data.display()),
    }
}

fn log_to(file: &Path) -> anyhow::Result<()> {
    let log = std::fs::File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(std::sync::Mutex::new(log)).init();
    Ok(())
}
