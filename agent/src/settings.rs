//! What an agent is told before it starts: by TOML file, environment (`WEIR_AGENT_*`) and flags, the later overriding the earlier.
//!
//! Code that embeds an agent fills [`AgentSettings`] itself; [`load::load`] reads them from a process's surroundings and reports every mistake.

pub mod flags;
pub mod load;
mod parse;
mod permission;
mod source;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use ipnet::IpNet;
use secrecy::SecretString;
use weir_core::client_ip::SourceHeader;
use weir_core::config::DomainConfig;
use weir_core::headers::HeaderStyle;
use weir_core::key::HashSecret;
use weir_core::name::Name;
use weir_core::subject::Kind;

pub use self::permission::{Permission, Permissions};
pub use crate::limiter::ShardConfig;
use crate::limiter::tls::TlsFiles;

/// Everything an agent needs to know. `WEIR_AGENT_X` below is the environment variable, `--x` the flag.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// Stable name of this agent, as the control plane shows it. `WEIR_AGENT_NAME`; default: the machine's host name.
    pub name: Name,
    /// The domains it serves. `WEIR_AGENT_DOMAINS`, comma-separated; default: those of its rules file, else `default`.
    pub domains: Vec<Name>,
    /// Where the last good rules, ring and secrets are kept. `WEIR_AGENT_STATE_DIR`; default: nowhere, so an agent whose control plane
    /// is away starts without rules.
    pub state_dir: Option<PathBuf>,
    /// Where rules come from.
    pub rules: RulesFrom,
    /// Where units are counted.
    pub counters: Counters,
    /// The files for shards that are reached over TLS (`rediss`), all PEM, read anew for every connection: `WEIR_AGENT_SHARD_CA_FILE`, the
    /// authorities that may have signed their certificates (default: the system's), and `WEIR_AGENT_SHARD_CERT_FILE` with
    /// `WEIR_AGENT_SHARD_KEY_FILE`, this agent's own certificate for shards that ask for one (default: none).
    pub shard_tls: TlsFiles,
    /// The most time a check may take. `WEIR_AGENT_BUDGET`, 1 ms to 60 s; default 5 ms.
    pub budget: Duration,
    /// The secret of counter keys, 32 bytes as 64 hex digits, the same on all agents that share counters.
    /// `WEIR_AGENT_HASH_SECRET_FILE`; default: the control plane's, else a fixed built-in one, with a warning.
    pub hash_secret: Option<HashSecret>,
    /// What happens to requests while there are no rules: `open` or `closed`. `WEIR_AGENT_ON_NO_RULES`; default `open`.
    pub on_no_rules: OnNoRules,
    /// Agents that share each limit, for the local share without a shard, until the control plane says. `WEIR_AGENT_AGENTS`, 1 to
    /// 100,000; default 1.
    pub agents: u32,
    /// Bits of an IPv6 address that make one client, 32 to 128. `WEIR_AGENT_V6_PREFIX`; default 64.
    pub v6_prefix: u8,
    /// Which headers answers carry: `full`, `triple`, `delta_reset` or `none`. `WEIR_AGENT_HEADERS`; default `full`.
    pub headers: HeaderStyle,
    /// Where the process listens; a library that embeds the agent leaves both empty.
    pub listen: ListenSettings,
    /// What `/authz` believes.
    pub authz: AuthzSettings,
    /// What is kept on the way to analytics.
    pub events: EventSettings,
}

impl AgentSettings {
    /// An agent called `name` with `rules`, counting in this process, everything else as by default.
    #[must_use]
    pub fn new(name: Name, rules: RulesFrom) -> Self {
        let counters = if matches!(rules, RulesFrom::ControlPlane(_)) { Counters::FromControlPlane } else { Counters::Memory };
        Self {
            name,
            domains: Vec::new(),
            state_dir: None,
            rules,
            counters,
            shard_tls: TlsFiles::default(),
            budget: Duration::from_millis(5),
            hash_secret: None,
            on_no_rules: OnNoRules::default(),
            agents: 1,
            v6_prefix: 64,
            headers: HeaderStyle::default(),
            listen: ListenSettings::default(),
            authz: AuthzSettings::default(),
            events: EventSettings::default(),
        }
    }
}

/// Where rules come from.
#[derive(Debug, Clone)]
pub enum RulesFrom {
    /// These, for ever.
    Given(Vec<DomainConfig>),
    /// A rules file, read again whenever it changes. `WEIR_AGENT_RULES`, `--rules`.
    File(PathBuf),
    /// A control plane; its last word is kept in `state_dir`.
    ControlPlane(ControlPlaneSettings),
}

/// How to reach the control plane.
#[derive(Debug, Clone)]
pub struct ControlPlaneSettings {
    /// Its gRPC address, `https://host:port`, or `http://` on loopback. `WEIR_AGENT_CONTROL_PLANE`, `--control-plane`.
    pub url: String,
    /// This agent's token. `WEIR_AGENT_TOKEN_FILE`, `--token-file` (or `WEIR_AGENT_TOKEN`).
    pub token: SecretString,
    /// Certificate authorities that may have signed the control plane's certificate, PEM. `WEIR_AGENT_CA_FILE`; default: the system's.
    pub ca_file: Option<PathBuf>,
    /// Allows `http://` beyond loopback, where something else protects the network. `WEIR_AGENT_ALLOW_PLAINTEXT`; default false.
    pub allow_plaintext: bool,
    /// Rules to start from when neither disk nor control plane has any. `WEIR_AGENT_RULES` beside a control plane.
    pub bundled_rules: Option<PathBuf>,
    /// How long the stream may be silent before it counts as dead. `WEIR_AGENT_SILENCE`, 15 s to 10 m; default 30 s.
    pub silence: Duration,
}

impl ControlPlaneSettings {
    /// The control plane at `url`, which knows this agent by `token`.
    #[must_use]
    pub fn new(url: impl Into<String>, token: SecretString) -> Self {
        let silence = Duration::from_secs(30);
        Self { url: url.into(), token, ca_file: None, allow_plaintext: false, bundled_rules: None, silence }
    }
}

/// Where units are counted.
#[derive(Debug, Clone)]
pub enum Counters {
    /// In this process: one agent alone. `WEIR_AGENT_COUNTERS=memory`; the default without shards and control plane.
    Memory,
    /// On these shards. `WEIR_AGENT_SHARDS`, comma-separated, or `--shard`, repeated: `name=redis://host:port`.
    Shards(Vec<ShardConfig>),
    /// On the ring that the control plane sends; the default with a control plane.
    FromControlPlane,
}

/// Where the process listens. TCP beyond loopback needs a token.
#[derive(Debug, Clone)]
pub struct ListenSettings {
    /// `WEIR_AGENT_LISTEN`, `--listen`; default of the binary `127.0.0.1:7080`; `off`: no TCP.
    pub tcp: Option<SocketAddr>,
    /// A Unix socket of mode 0660. `WEIR_AGENT_SOCKET`, `--socket`; default none.
    pub unix: Option<PathBuf>,
    /// The group of the Unix socket, by name or number, whose members may connect. `WEIR_AGENT_SOCKET_GROUP`; default: the process's own.
    pub socket_group: Option<String>,
    /// What the Unix socket serves besides check, peek, acquire and release: `record`, `refund`, `reset` and `limits`.
    /// `WEIR_AGENT_SOCKET_OPERATIONS`, comma-separated; default none.
    pub socket_operations: Permissions,
    /// The same for TCP, where it needs a token. `WEIR_AGENT_TCP_OPERATIONS`, comma-separated; default none.
    pub tcp_operations: Permissions,
    /// What TCP callers must send as `Authorization: Bearer`. `WEIR_AGENT_LISTEN_TOKEN_FILE` (or `WEIR_AGENT_LISTEN_TOKEN`).
    pub token: Option<SecretString>,
    /// Time for requests in flight and events on shutdown. `WEIR_AGENT_GRACE`, 0 s to 10 m; default 5 s.
    pub grace: Duration,
}

impl Default for ListenSettings {
    fn default() -> Self {
        Self {
            tcp: None,
            unix: None,
            socket_group: None,
            socket_operations: Permissions::NONE,
            tcp_operations: Permissions::NONE,
            token: None,
            grace: Duration::from_secs(5),
        }
    }
}

/// Whose word `/authz` takes for what. Without any of these it knows only what the connection itself shows.
#[derive(Debug, Clone, Default)]
pub struct AuthzSettings {
    /// The domain whose rules apply. `WEIR_AGENT_AUTHZ_DOMAIN`; default: the first that is served.
    pub domain: Option<Name>,
    /// The header that names the subject, set by the gateway after it knows who calls. `WEIR_AGENT_SUBJECT_HEADER`; default none.
    pub subject_header: Option<HeaderName>,
    /// What that header names, such as `tenant`: its whole value is the id. `WEIR_AGENT_SUBJECT_KIND`; default none: the value is `kind:id`,
    /// or the id of a user, so whoever chooses ids can choose kinds.
    pub subject_kind: Option<Kind>,
    /// The header that names the tier. `WEIR_AGENT_TIER_HEADER`; default none.
    pub tier_header: Option<HeaderName>,
    /// Peers whose forwarding headers count: networks; callers on the Unix socket are `127.0.0.1`. `WEIR_AGENT_TRUSTED_PROXIES`,
    /// comma-separated; default none.
    pub trusted_proxies: Vec<IpNet>,
    /// The header in which they say who the client is: `x-forwarded-for`, `x-real-ip`, `forwarded` or `none`.
    /// `WEIR_AGENT_CLIENT_IP_HEADER`; default `x-forwarded-for` when loaded.
    pub client_ip_header: SourceHeader,
    /// Which family of forwarding headers the gateway sets. `WEIR_AGENT_FORWARDED`: `auto`, `x-forwarded` or
    /// `x-original`; default `auto`.
    pub forwarded: Forwarded,
}

/// The headers in which a gateway says what was asked of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Forwarded {
    /// Whichever is there; both at once are refused, since one of them is then the client's own.
    #[default]
    Auto,
    /// `X-Forwarded-Method`, `-Uri` and `-Host` (Traefik, Caddy, APISIX).
    XForwarded,
    /// `X-Original-Method` and `X-Original-URI` (nginx).
    XOriginal,
}

/// What is kept on the way to analytics.
#[derive(Debug, Clone)]
pub struct EventSettings {
    /// Denials kept whole per second. `WEIR_AGENT_EVENTS_SAMPLES`, 0 to 10,000; default 64.
    pub samples_per_second: usize,
    /// Bytes of batches that wait for the control plane; beyond, the oldest are dropped and counted. `WEIR_AGENT_EVENTS_SPOOL_BYTES`,
    /// 64 KiB to 1 GiB; default 16 MiB.
    pub spool_bytes: usize,
}

impl Default for EventSettings {
    fn default() -> Self {
        Self { samples_per_second: 64, spool_bytes: 16 << 20 }
    }
}

/// What happens to requests of a domain whose rules have not arrived yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnNoRules {
    /// Allow them.
    #[default]
    Open,
    /// Refuse them with 503.
    Closed,
}
