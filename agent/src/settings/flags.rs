//! The command line of `weir-agent`. Everything else is set by file or environment.

use std::path::PathBuf;

use clap::Parser;

/// What `--help` says after the flags.
pub(super) const OTHER_SETTINGS: &str = "\
Every setting is an environment variable, or a key of the settings file (WEIR_AGENT_BUDGET is `budget` there); a flag wins over the
environment, and that over the file. Besides those of the flags:

Callers of /authz and whom to believe (nothing by default):
  WEIR_AGENT_SUBJECT_HEADER     header that names the subject, as kind:id
  WEIR_AGENT_SUBJECT_KIND       fixed kind of that subject, whatever the header's value looks like
  WEIR_AGENT_TIER_HEADER        header that names the tier
  WEIR_AGENT_TRUSTED_PROXIES    addresses and networks whose forwarding headers count
  WEIR_AGENT_CLIENT_IP_HEADER   which header holds the client's address behind them
  WEIR_AGENT_FORWARDED          which headers hold the method, host and path of the request
  WEIR_AGENT_AUTHZ_DOMAIN       domain of requests to /authz
Decisions:
  WEIR_AGENT_BUDGET             the longest that a decision may take (5ms)
  WEIR_AGENT_COUNTERS           memory, shards or control_plane
  WEIR_AGENT_HASH_SECRET_FILE   64 hex digits, the same on all agents that share counters (or WEIR_AGENT_HASH_SECRET)
  WEIR_AGENT_ON_NO_RULES        open or closed, while there are no rules (open)
  WEIR_AGENT_AGENTS             agents that share the limits, until the control plane tells (1)
  WEIR_AGENT_V6_PREFIX          bits of an IPv6 address that make one client (64)
  WEIR_AGENT_HEADERS            which headers answers carry
Shards over TLS (rediss), all PEM, read anew for every connection:
  WEIR_AGENT_SHARD_CA_FILE      authorities that may have signed the shards' certificates (the system's)
  WEIR_AGENT_SHARD_CERT_FILE    this agent's own certificate, for shards that ask for one,
  WEIR_AGENT_SHARD_KEY_FILE     and its key
The control plane:
  WEIR_AGENT_TOKEN              the token itself, instead of a file
  WEIR_AGENT_CA_FILE            certificate authority of the control plane
  WEIR_AGENT_ALLOW_PLAINTEXT    whether to talk to one beyond loopback without TLS (false)
  WEIR_AGENT_SILENCE            how long it may say nothing (30s)
Listeners, log and events:
  WEIR_AGENT_LISTEN_TOKEN_FILE  bearer token that callers over TCP must send (or WEIR_AGENT_LISTEN_TOKEN)
  WEIR_AGENT_TCP_OPERATIONS     record, refund, reset, limits: what callers over TCP may do besides check, peek, acquire and release (none)
  WEIR_AGENT_SOCKET_OPERATIONS  the same over the Unix socket (none)
  WEIR_AGENT_SOCKET_GROUP       group of the Unix socket, whose members may connect
  WEIR_AGENT_GRACE              how long requests may take to finish when it stops
  WEIR_AGENT_THREADS            threads that decide; one does the most per second of processor time (1)
  WEIR_AGENT_LOG                what is logged, such as info or weir_agent=debug (info)
  WEIR_AGENT_LOG_JSON           whether as JSON (false)
  WEIR_AGENT_EVENTS_SAMPLES     refusals reported whole per second (64)
  WEIR_AGENT_EVENTS_SPOOL_BYTES events that wait for the control plane (16 MiB)";

/// Decides for gateways which requests may pass.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "weir-agent", version, after_long_help = OTHER_SETTINGS)]
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
    /// A shard to count on, `name=redis://host:port`; may be repeated. Without any, counts in this process. Also `redis+sentinel://host,host/name`
    /// (a primary that sentinels know), `redis+cluster://host,host` (a Redis Cluster), each also with `rediss` (TLS), or a socket's path; a
    /// login as `redis://user:password@host`; after `?`, joined by `&`: `weight`, `memory_limit`, `sentinel_username`, `sentinel_password`.
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
