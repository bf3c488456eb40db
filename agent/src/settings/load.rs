//! Reads an agent's settings from flags, environment and file, and reports every mistake at once.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::ExposeSecret as _;
use weir_core::client_ip::{self, SourceHeader};
use weir_core::headers::HeaderStyle;
use weir_core::mistake::Mistakes;
use weir_core::name::Name;
use weir_core::span::Span;

use super::flags::Flags;
use super::source::Source;
use super::{
    AgentSettings, AuthzSettings, ControlPlaneSettings, Counters, EventSettings, Forwarded, ListenSettings, OnNoRules, RulesFrom, parse,
};
use crate::limiter::tls::TlsFiles;

/// Where the binary listens unless told otherwise.
const DEFAULT_LISTEN: &str = "127.0.0.1:7080";

/// How the process logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// What is logged, in the form of `tracing`'s filters. `WEIR_AGENT_LOG`; default `info`.
    pub filter: String,
    /// One JSON object per line instead of text. `WEIR_AGENT_LOG_JSON`; default false.
    pub json: bool,
}

/// All settings of the process.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The agent's.
    pub agent: AgentSettings,
    /// The log's.
    pub log: LogSettings,
    /// Threads that decide. `WEIR_AGENT_THREADS`, 1 to 64; default 1, which does the most per second of processor time.
    pub threads: usize,
}

/// Reads the settings; `environment` are the process's variables.
///
/// # Errors
/// Every mistake; its pointer names the flag, the variable, or the file and key.
pub fn load(flags: &Flags, environment: impl IntoIterator<Item = (String, String)>) -> Result<Loaded, Mistakes> {
    let mut source = Source::new(flags, environment);
    let rules = rules(&mut source);
    let from_control_plane = source.has("control_plane");
    let counters = counters(&mut source, from_control_plane);
    let agent = AgentSettings {
        name: source.optional("name", parse::name).unwrap_or_else(host_name),
        domains: source.list("domains", parse::name),
        state_dir: source.optional("state_dir", |path| Ok(PathBuf::from(path))),
        rules: rules.unwrap_or(RulesFrom::Given(Vec::new())),
        counters,
        shard_tls: shard_tls(&mut source),
        budget: source.one("budget", Duration::from_millis(5), parse::span(Span::from_millis(1), Span::from_secs(60))),
        hash_secret: hash_secret(&mut source, from_control_plane),
        on_no_rules: source.one("on_no_rules", OnNoRules::default(), parse::on_no_rules),
        agents: source.one("agents", 1, parse::number(1, 100_000)),
        v6_prefix: source.one("v6_prefix", 64, parse::number(32, 128)),
        headers: source.one("headers", HeaderStyle::default(), parse::header_style),
        listen: listen(&mut source),
        authz: authz(&mut source),
        events: events(&mut source),
    };
    let log = LogSettings {
        filter: source.one("log", "info".to_owned(), |text| Ok(text.to_owned())),
        json: source.one("log_json", false, parse::truth),
    };
    let threads = source.one("threads", 1, parse::number(1, 64));
    source.finish(Loaded { agent, log, threads })
}

fn rules(source: &mut Source) -> Option<RulesFrom> {
    let path = |text: &str| Ok(PathBuf::from(text));
    let file = source.optional("rules", path);
    let url = source.optional("control_plane", |text| Ok(text.to_owned()));
    let token = source.secret("token", "token_file");
    let ca_file = source.optional("ca_file", path);
    let allow_plaintext = source.one("allow_plaintext", false, parse::truth);
    // The control plane pings every 5 s: less than three of them would take a hiccup for its end.
    let silence = source.one("silence", Duration::from_secs(30), parse::span(Span::from_secs(15), Span::from_secs(600)));
    match (url, token, file) {
        (Some(url), Some(token), bundled_rules) => {
            Some(RulesFrom::ControlPlane(ControlPlaneSettings { url, token, ca_file, allow_plaintext, bundled_rules, silence }))
        }
        (Some(_), None, _) => {
            source.mistake("token_file", "a control plane needs this agent's token".to_owned());
            None
        }
        (None, _, Some(file)) => Some(RulesFrom::File(file)),
        (None, _, None) => {
            source.mistake("rules", "name a rules file (--rules) or a control plane (--control-plane)".to_owned());
            None
        }
    }
}

fn counters(source: &mut Source, from_control_plane: bool) -> Counters {
    let has_shards = source.has("shards");
    let shards = source.list("shards", parse::shard);
    let words = [("memory", "memory"), ("shards", "shards"), ("control_plane", "control_plane")];
    let default = match (has_shards, from_control_plane) {
        (true, _) => "shards",
        (false, true) => "control_plane",
        (false, false) => "memory",
    };
    match source.one("counters", default, parse::choice(&words)) {
        "memory" => Counters::Memory,
        "control_plane" if from_control_plane => Counters::FromControlPlane,
        "control_plane" => {
            source.mistake("counters", "there is no control plane to send a ring".to_owned());
            Counters::Memory
        }
        _ => {
            if !has_shards {
                source.mistake("shards", "name at least one shard".to_owned());
            }
            Counters::Shards(shards)
        }
    }
}

fn shard_tls(source: &mut Source) -> TlsFiles {
    let path = |text: &str| Ok(PathBuf::from(text));
    let ca_file = source.optional("shard_ca_file", path);
    let identity = match (source.optional("shard_cert_file", path), source.optional("shard_key_file", path)) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) => {
            source.mistake("shard_key_file", "a certificate needs its key".to_owned());
            None
        }
        (None, Some(_)) => {
            source.mistake("shard_cert_file", "a key needs its certificate".to_owned());
            None
        }
    };
    TlsFiles { ca_file, identity }
}

fn hash_secret(source: &mut Source, from_control_plane: bool) -> Option<weir_core::key::HashSecret> {
    let text = source.secret("hash_secret", "hash_secret_file")?;
    if from_control_plane {
        source.mistake("hash_secret_file", "the control plane sends the hash secret; leave this out".to_owned());
        return None;
    }
    let secret = parse::hash_secret(text.expose_secret());
    if secret.is_none() {
        source.mistake("hash_secret_file", "must hold 64 hex digits".to_owned());
    }
    secret
}

fn listen(source: &mut Source) -> ListenSettings {
    let default = DEFAULT_LISTEN.parse().ok();
    ListenSettings {
        tcp: source.one("listen", default, parse::listen),
        unix: source.optional("socket", |path| Ok(PathBuf::from(path))),
        socket_group: source.optional("socket_group", |group| Ok(group.to_owned())),
        socket_operations: source.list("socket_operations", parse::permission).into_iter().collect(),
        tcp_operations: source.list("tcp_operations", parse::permission).into_iter().collect(),
        token: source.secret("listen_token", "listen_token_file"),
        grace: source.one("grace", Duration::from_secs(5), parse::span(Span::from_secs(0), Span::from_secs(600))),
    }
}

fn authz(source: &mut Source) -> AuthzSettings {
    AuthzSettings {
        domain: source.optional("authz_domain", parse::name),
        subject_header: source.optional("subject_header", parse::header_name),
        subject_kind: source.optional("subject_kind", parse::subject_kind),
        tier_header: source.optional("tier_header", parse::header_name),
        trusted_proxies: source.list("trusted_proxies", |text| client_ip::network(text).map_err(|error| format!("{text:?} {error}"))),
        client_ip_header: source.one("client_ip_header", SourceHeader::XForwardedFor, parse::source_header),
        forwarded: source.one("forwarded", Forwarded::Auto, parse::forwarded),
    }
}

fn events(source: &mut Source) -> EventSettings {
    let default = EventSettings::default();
    EventSettings {
        samples_per_second: source.one("events_samples", default.samples_per_second, parse::number(0, 10_000)),
        spool_bytes: source.one("events_spool_bytes", default.spool_bytes, parse::number(64 << 10, 1 << 30)),
    }
}

/// The machine's name where it can be an agent's, else `agent`.
fn host_name() -> Name {
    let system = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let fallback = || Name::new("agent");
    #[allow(clippy::unwrap_used, reason = "`agent` is a name")]
    Name::new(system.trim()).or_else(|_| fallback()).unwrap()
}

#[cfg(test)]
mod tests;
