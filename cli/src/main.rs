//! `weir`: the command line of operators, and `weir dev`, the whole product on one machine.

mod args;
mod client;
mod commands;
mod dev;
mod output;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return output::failed(&anyhow::Error::new(error).context("cannot start")),
    };
    match runtime.block_on(commands::run(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::failed(&error),
    }
}
