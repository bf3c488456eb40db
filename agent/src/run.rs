//! The agent as a process: listen, serve, and on a signal stop without losing anything.

use std::future::Future;

use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::settings::AgentSettings;
use crate::transport::listen::Listeners;
use crate::transport::serve::serve;

/// [`run`]s an agent on this thread, or on so many `threads`, until what `stop` makes there resolves.
///
/// One thread decides more per second of processor time than several that share their work: a check over HTTP takes half again as much
/// of it on two.
///
/// # Errors
/// What keeps it from starting, for a person.
pub fn run_on<S: Future<Output = ()>>(
    threads: usize,
    settings: AgentSettings,
    stop: impl FnOnce() -> std::io::Result<S>,
    started: impl FnOnce(&Agent, &Listeners),
) -> anyhow::Result<()> {
    use tokio::runtime::Builder;
    let mut builder = if threads > 1 { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    let runtime = builder.worker_threads(threads.max(1)).enable_all().build()?;
    runtime.block_on(async { run(settings, stop()?, started).await })
}

/// Runs an agent until `stop` resolves; `started` gets it once its sockets are open.
///
/// # Errors
/// What keeps it from starting, for a person.
pub async fn run(settings: AgentSettings, stop: impl Future<Output = ()>, started: impl FnOnce(&Agent, &Listeners)) -> anyhow::Result<()> {
    // Sockets first: a taken port is noticed before any connection is made.
    let listeners = Listeners::open(&settings.listen).await?;
    let grace = settings.listen.grace;
    let agent = Agent::start(settings).await?;
    started(&agent, &listeners);
    let drain = CancellationToken::new();
    let serving = tokio::spawn(serve(listeners, agent.router(), drain.clone(), grace));
    stop.await;
    tracing::info!("stopping");
    agent.drain();
    drain.cancel();
    serving.await?;
    agent.shutdown().await;
    Ok(())
}

/// Resolves at SIGTERM or SIGINT.
///
/// # Errors
/// If the signals cannot be listened to.
pub fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
