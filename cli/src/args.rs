//! What can be typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

/// Weir on the command line: the same admin API as the dashboard, and `weir dev`.
#[derive(Debug, Parser)]
#[command(name = "weir", version, about, propagate_version = true)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which control plane, and as whom.
#[derive(Debug, ClapArgs)]
pub(crate) struct Connection {
    /// Address of the control plane
    #[arg(long, global = true, env = "WEIR_URL", default_value = "http://127.0.0.1:7070")]
    pub(crate) url: String,
    /// API token (better: WEIR_TOKEN or --token-file, which do not show in the process list)
    #[arg(long, global = true, env = "WEIR_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// File that holds the API token
    #[arg(long, global = true, env = "WEIR_TOKEN_FILE", value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The domain to work on [default: default; `apply`: the rules file's]
    #[arg(long, global = true, env = "WEIR_DOMAIN")]
    pub(crate) domain: Option<String>,
    /// Print the API's JSON instead of a table
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl Connection {
    /// The domain to work on.
    pub(crate) fn domain(&self) -> &str {
        self.domain.as_deref().unwrap_or("default")
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the whole product on this machine: Postgres, Redis shards, control plane, dashboard, two agents and a demo gateway
    Dev(Dev),
    /// Bring a domain to the state that a rules file describes; prints what changes
    Apply(Apply),
    /// Print a domain's tiers and rules as a rules file
    Export,
    /// Rules of the domain
    #[command(subcommand)]
    Rules(Read),
    /// Tiers of the domain
    #[command(subcommand)]
    Tiers(Read),
    /// Shards of the ring
    #[command(subcommand)]
    Shards(Read),
    /// Agents: who is connected, which revision they run, what they refused
    Agents(Agents),
    /// Published revisions of the domain, and who runs them
    #[command(subcommand)]
    Revisions(Revisions),
    /// API and agent tokens
    #[command(subcommand)]
    Tokens(Tokens),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Apply {
    /// The rules file (YAML or JSON); `-` reads standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Only print what would change
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also delete the tiers and rules that the file does not have, its description and its defaults
    #[arg(long)]
    pub(crate) prune: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Read {
    /// All of them
    List,
    /// One of them, as a document
    Get {
        /// Its name
        name: String,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Agents {
    /// Show one agent in detail
    pub(crate) agent: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Revisions {
    /// The newest first
    List,
    /// One revision: what changed, and which agents run it
    Get {
        /// Its number
        revision: u64,
    },
    /// Publish the content of an old revision as a new one
    Rollback {
        /// The number of the old revision
        revision: u64,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Tokens {
    /// All tokens; their secrets are not kept anywhere
    List,
    /// Make a token; its secret is shown once
    Create {
        /// What it is for
        name: String,
        /// `api` for people and programs, `agent` for agents
        #[arg(long, default_value = "api", value_parser = ["api", "agent"])]
        kind: String,
        /// What it may do [default: operator; a token of an agent has no role]
        #[arg(long, value_parser = ["viewer", "operator", "admin"])]
        role: Option<String>,
        /// Only these domains (repeatable; default: all)
        #[arg(long = "for-domain", value_name = "DOMAIN")]
        domains: Vec<String>,
    },
    /// Make a token useless at once
    Revoke {
        /// Its id
        id: String,
    },
}

/// Ports are on 127.0.0.1 only.
#[derive(Debug, ClapArgs)]
pub(crate) struct Dev {
    /// Port of dashboard and admin REST
    #[arg(long, env = "WEIR_DEV_HTTP_PORT", default_value_t = 7070)]
    pub(crate) http_port: u16,
    /// Port of the control plane's gRPC
    #[arg(long, env = "WEIR_DEV_GRPC_PORT", default_value_t = 7071)]
    pub(crate) grpc_port: u16,
    /// Ports of the agents' HTTP; one agent each
    #[arg(long, env = "WEIR_DEV_AGENT_PORTS", default_values_t = [7080, 7081], value_delimiter = ',')]
    pub(crate) agent_ports: Vec<u16>,
    /// Port of the demo gateway
    #[arg(long, env = "WEIR_DEV_GATEWAY_PORT", default_value_t = 8080)]
    pub(crate) gateway_port: u16,
    /// Where servers and agents keep their data
    #[arg(long, env = "WEIR_DEV_DATA", default_value = ".weir", value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// Use this Postgres instead of a private one
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    pub(crate) database_url: Option<String>,
    /// Use these Redis or Valkey servers instead of three private ones (repeat, or separate by commas)
    #[arg(long = "redis-url", env = "WEIR_REDIS_URLS", value_name = "URL", value_delimiter = ',', hide_env_values = true)]
    pub(crate) redis_urls: Vec<String>,
    /// Send a believable mix of requests, so that the dashboard has something to show
    #[arg(long)]
    pub(crate) traffic: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weir_dev_listens_where_the_readme_says() {
        let Ok(Args { command: Command::Dev(dev), .. }) = Args::try_parse_from(["weir", "dev"]) else { panic!("not `weir dev`") };
        assert_eq!((dev.http_port, dev.grpc_port, dev.agent_ports.as_slice(), dev.gateway_port), (7070, 7071, &[7080, 7081][..], 8080));
    }
}
