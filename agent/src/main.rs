//! `weir-agent`: the agent as a process of its own.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser as _;
use tracing_subscriber::EnvFilter;
use weir_agent::Agent;
use weir_agent::run::{run_on, stop_signal};
use weir_agent::settings::flags::Flags;
use weir_agent::settings::load::{Loaded, LogSettings, load};

fn main() -> ExitCode {
    let flags = Flags::parse();
    match start(&flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("weir-agent: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn start(flags: &Flags) -> anyhow::Result<()> {
    let environment = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let Loaded { agent, log, threads } =
        load(flags, environment).map_err(|mistakes| anyhow::anyhow!("the settings are not valid:\n{mistakes}"))?;
    if flags.check_config {
        Agent::check_settings(&agent)?;
        weir_agent::transport::listen::check(&agent.listen)?;
        say("the settings are valid");
        return Ok(());
    }
    start_log(&log)?;
    run_on(threads, agent, stop_signal, |agent, listeners| {
        tracing::info!(name = %agent.status().name, ready = agent.status().ready, address = ?listeners.tcp_address(), "started");
    })
}

fn start_log(log: &LogSettings) -> anyhow::Result<()> {
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let filter = EnvFilter::try_new(&log.filter)?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    if log.json {
        builder.json().init();
    } else {
        builder.init();
    }
    Ok(())
}

#[allow(clippy::print_stderr, reason = "what a person at a terminal must read, before there is a log")]
fn say(text: &str) {
    eprintln!("{text}");
}
