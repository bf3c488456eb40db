//! One file per command.

mod agents;
mod apply;
mod export;
mod resources;
mod revisions;
mod tokens;

use crate::args::{Args, Command};
use crate::client::Client;
use crate::dev;

/// Runs what was typed.
pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let Args { connection, command } = args;
    if let Command::Dev(dev) = command {
        return dev::run(dev).await;
    }
    let client = Client::new(&connection)?;
    match command {
        Command::Dev(_) => Ok(()),
        Command::Apply(apply) => apply::run(&client, &connection, &apply).await,
        Command::Export => export::run(&client, &connection).await,
        Command::Rules(read) => resources::run(&client, &connection, &resources::RULES, read).await,
        Command::Tiers(read) => resources::run(&client, &connection, &resources::TIERS, read).await,
        Command::Shards(read) => resources::run(&client, &connection, &resources::SHARDS, read).await,
        Command::Agents(agents) => agents::run(&client, &connection, agents.agent.as_deref()).await,
        Command::Revisions(command) => revisions::run(&client, &connection, command).await,
        Command::Tokens(command) => tokens::run(&client, &connection, command).await,
    }
}
