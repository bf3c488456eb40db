//! The command line of `weir-agent`. Everything else is set by file or environment.

use std::path::PathBuf;

use clap::Parser;

/// Decides for gateways which requests may pass. Settings not listed here are read from the environment (`WEIR_AGENT_*`) or the settings
/// file; see the documentation.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "weir-agent", version)]
pub struct Flags {
    /// Settings file (TOML).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Checks the settings and the rules file, says what is wrong, and ends.
    #[arg(long)]
    pub check_config: bool,
    /// Name of this agent.
    #[arg(long)]
    pub name: Option<String>,
    /// Rules file (YAML), read again whenever it changes.
    #[arg(long, value_name = "FILE")]
    pub rules: Option<String>,
    /// A shard to count on, `name=redis://host:port`; may be repeated. Without any, counts in this process.
    #[arg(long = "shard", value_name = "NAME=URL")]
    pub shards: Vec<String>,
    /// TCP address to listen on, or `off`.
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Unix socket to listen on.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<String>,
    /// gRPC address of the control plane.
    #[arg(long, value_name = "URL")]
    pub control_plane: Option<String>,
    /// File with this agent's token for the control plane.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<String>,
    /// A domain to serve; may be repeated.
    #[arg(long = "domain", value_name = "NAME")]
    pub domains: Vec<String>,
    /// Folder for the last good rules.
    #[arg(long, value_name = "FOLDER")]
    pub state_dir: Option<String>,
}

impl Flags {
    /// The values by setting.
    pub(super) fn values(&self) -> Vec<(&'static str, Vec<String>)> {
        let one = |value: &Option<String>| value.iter().cloned().collect::<Vec<_>>();
        vec![
            ("name", one(&self.name)),
            ("rules", one(&self.rules)),
            ("shards", self.shards.clone()),
            ("listen", one(&self.listen)),
            ("socket", one(&self.socket)),
            ("control_plane", one(&self.control_plane)),
            ("token_file", one(&self.token_file)),
            ("domains", self.domains.clone()),
            ("state_dir", one(&self.state_dir)),
        ]
    }
}
