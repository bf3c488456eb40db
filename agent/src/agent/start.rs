//! Puts an agent's parts together: what each needs, and what flows from one to another.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;
use weir_core::client_ip::ClientIp;
use weir_core::clock::{Clock, SystemClock};
use weir_core::config::DomainConfig;
use weir_core::key::HashSecret;
use weir_core::name::Name;
use weir_proto::v1;

use super::{Agent, Parts};
use crate::check::Checker;
use crate::events::spool::Spool;
use crate::events::{Recorder, upload};
use crate::identity::Identity;
use crate::limiter::address::Login;
use crate::limiter::tls::{TlsError, TlsFiles};
use crate::limiter::warning::ShardWarning;
use crate::limiter::{CountOn, Limiter, LimiterSettings, NodeStatus, RingConfig, ShardConfig, ShardStatus};
use crate::metrics::Metrics;
use crate::rules::apply::{Applier, open_disk};
use crate::rules::file::{self, FileError, RulesFile};
use crate::rules::ring::Ring;
use crate::rules::store::{Origin, RuleStore};
use crate::rules::sync::{self, SyncSettings};
use crate::rules::{Outlet, Outlets};
use crate::settings::{AgentSettings, ControlPlaneSettings, Counters, RulesFrom};
use crate::uplink::{Uplink, UplinkError};

/// How often the agent tells the control plane that it lives.
const HEARTBEAT: Duration = Duration::from_secs(3);
/// How often what was recorded goes into a batch.
const FLUSH: Duration = Duration::from_secs(1);

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The rules file cannot be used.
    #[error(transparent)]
    Rules(#[from] FileError),
    /// The rules that were given cannot be used.
    #[error("the rules of domain {0}: {1}")]
    Given(Name, String),
    /// The state directory cannot be used.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// The files for TLS towards shards cannot be used.
    #[error("TLS towards shards: {0}")]
    ShardTls(#[from] TlsError),
    /// The control plane cannot be used.
    #[error("control plane: {0}")]
    Uplink(#[from] UplinkError),
    /// A domain is to be served that the rules are not about.
    #[error("the rules are about domain {found}, but {wanted} is to be served")]
    Domain {
        /// The domain of the rules.
        found: Name,
        /// What the settings name.
        wanted: String,
    },
    /// A surface is to ask about a domain that the agent does not serve: each of its requests would be answered 400.
    #[error("{surface} asks about domain {domain}, but {served} is served")]
    NotServed {
        /// The surface.
        surface: &'static str,
        /// The domain that its settings name.
        domain: Name,
        /// What is served.
        served: String,
    },
}

/// Whether the domain that the settings of `surface` name is one of `domains`.
pub(super) fn served(domains: &[Name], domain: Option<&Name>, surface: &'static str) -> Result<(), StartError> {
    match domain.filter(|domain| !domains.contains(domain)) {
        Some(stray) => Err(StartError::NotServed { surface, domain: stray.clone(), served: listed(domains) }),
        None => Ok(()),
    }
}

fn listed(domains: &[Name]) -> String {
    domains.iter().map(Name::as_str).collect::<Vec<_>>().join(", ")
}

/// What the settings say about rules, read.
struct Rules {
    configs: Vec<DomainConfig>,
    uplink: Option<Uplink>,
}

pub(super) async fn start(settings: AgentSettings) -> Result<Agent, StartError> {
    // Fails only if a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let rules = read_rules(&settings)?;
    let domains = domains(&settings, &rules.configs)?;
    served(&domains, settings.authz.domain.as_ref(), "/authz")?;
    let boot = Uuid::now_v7().to_string();
    let spool = rules.uplink.is_some().then(|| Arc::new(Spool::new(settings.name.as_str(), boot.as_str(), settings.events.spool_bytes)));
    let recorder = Arc::new(Recorder::new(&settings.events, settings.v6_prefix, clock.clone(), spool.clone()));
    let secret = hash_secret(&settings);
    let limiter = limiter(&settings, &secret, &clock)?;
    let checker = Arc::new(Checker::new(domains.clone(), secret, settings.on_no_rules, limiter.clone(), recorder.clone()));
    let store = Arc::new(RuleStore::new(&domains, rules.uplink.is_some(), clock.clone()));
    let disk = settings.state_dir.as_deref().map(open_disk).transpose()?;
    let outlets = outlets(&settings, &checker, &limiter);
    let applier = Arc::new(Applier::new(store.clone(), outlets, disk, settings.v6_prefix));
    let metrics = Metrics::new(|registry| {
        checker.register(registry);
        limiter.register(registry);
    });
    let identity = Identity {
        subject_header: settings.authz.subject_header.clone(),
        subject_kind: settings.authz.subject_kind.clone(),
        tier_header: settings.authz.tier_header.clone(),
        client_ip: ClientIp::new(settings.authz.client_ip_header, &settings.authz.trusted_proxies),
    };
    let agent = Agent(Arc::new(Parts {
        boot,
        domains,
        clock,
        store,
        checker,
        limiter,
        recorder,
        spool,
        metrics,
        authz_identity: identity,
        draining: AtomicBool::new(false),
        tasks: TaskTracker::new(),
        stop: CancellationToken::new(),
        stop_upload: CancellationToken::new(),
        settings,
    }));
    run(&agent.0, &applier, rules)?;
    agent.0.limiter.settled().await;
    Ok(agent)
}

/// Boot order: disk, then file, then control plane; each is better than what was before.
fn run(parts: &Arc<Parts>, applier: &Arc<Applier>, rules: Rules) -> Result<(), StartError> {
    applier.start_from_disk(&parts.domains);
    match &parts.settings.rules {
        RulesFrom::File(path) => {
            for config in rules.configs {
                let file = RulesFile::start(path.clone(), config, applier.clone())?;
                parts.tasks.spawn(file.follow(parts.stop.clone()));
            }
        }
        RulesFrom::Given(_) => {
            for config in &rules.configs {
                let given = applier.config(config, 1, Origin::Given);
                given.map_err(|refusal| StartError::Given(config.domain.name.clone(), refusal.to_string()))?;
            }
        }
        RulesFrom::ControlPlane(control_plane) => {
            for config in rules.configs {
                let domain = &config.domain.name;
                if parts.store.domain(domain.as_str()).is_some_and(|state| state.rules.is_none())
                    && let Err(refusal) = applier.config(&config, 1, Origin::File)
                {
                    tracing::warn!(%domain, %refusal, "the bundled rules are not used");
                }
            }
            if let Some(uplink) = rules.uplink {
                connect(parts, applier, control_plane, uplink);
            }
        }
    }
    Ok(())
}

/// The streams to the control plane, and the clockwork that feeds events to one of them.
fn connect(parts: &Arc<Parts>, applier: &Arc<Applier>, control_plane: &ControlPlaneSettings, uplink: Uplink) {
    if let Some(spool) = &parts.spool {
        parts.tasks.spawn(upload::run(uplink.clone(), spool.clone(), parts.stop_upload.clone()));
    }
    let (recorder, stop) = (parts.recorder.clone(), parts.stop.clone());
    parts.tasks.spawn(async move {
        let mut every = tokio::time::interval(FLUSH);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        while stop.run_until_cancelled(every.tick()).await.is_some() {
            recorder.flush(false);
        }
    });
    let settings = SyncSettings {
        uplink,
        agent: parts.settings.name.clone(),
        boot: parts.boot.clone(),
        domains: parts.domains.clone(),
        silence: control_plane.silence,
        heartbeat_every: HEARTBEAT,
        heartbeat: heartbeat(parts),
    };
    parts.tasks.spawn(sync::run(settings, applier.clone(), parts.stop.clone()));
}

fn heartbeat(parts: &Arc<Parts>) -> Box<dyn Fn() -> v1::Heartbeat + Send + Sync> {
    let parts = Arc::downgrade(parts);
    let before = Mutex::new((Instant::now(), 0u64));
    Box::new(move || {
        let Some(parts) = parts.upgrade() else { return v1::Heartbeat::default() };
        let status = super::status::status(&parts);
        let now = (parts.clock.now(), status.decisions);
        let (then, decisions) = std::mem::replace(&mut *before.lock(), now);
        let seconds = now.0.duration_since(then).as_secs_f64();
        #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = if seconds > 0.0 { (now.1 - decisions) as f64 / seconds } else { 0.0 };
        v1::Heartbeat {
            warnings: status.warnings,
            shards: status.shards.into_iter().map(health).collect(),
            decisions_per_second: rate,
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole seconds, never negative")]
            stale_seconds: status.stale_seconds.unwrap_or_default() as u64,
            dropped_events: status.dropped_events,
        }
    })
}

fn health(shard: ShardStatus) -> v1::ShardHealth {
    let node = |node: NodeStatus| v1::NodeHealth {
        node: node.node,
        breaker: node.breaker.as_str().to_owned(),
        last_error: node.last_error.unwrap_or_default(),
    };
    let warning = |warning: ShardWarning| v1::ShardWarning { code: warning.code.as_str().to_owned(), text: warning.text };
    v1::ShardHealth {
        shard: shard.name.to_string(),
        breaker: shard.breaker.as_str().to_owned(),
        last_error: shard.last_error.unwrap_or_default(),
        warnings: shard.warnings.into_iter().map(warning).collect(),
        memory_bytes: shard.memory.used,
        memory_limit_bytes: shard.memory.limit.unwrap_or_default(),
        guarded: shard.memory.guarded,
        nodes: shard.nodes.into_iter().map(node).collect(),
    }
}

/// Whether an agent could start with these settings and the rules that they name, as far as can be told without starting one.
pub(super) fn check(settings: &AgentSettings) -> Result<(), StartError> {
    check_tls(settings)?;
    let domains = domains(settings, &configs(settings)?)?;
    served(&domains, settings.authz.domain.as_ref(), "/authz")
}

fn read_rules(settings: &AgentSettings) -> Result<Rules, StartError> {
    let uplink = match &settings.rules {
        RulesFrom::ControlPlane(control_plane) => Some(Uplink::new(control_plane)?),
        RulesFrom::Given(_) | RulesFrom::File(_) => None,
    };
    Ok(Rules { configs: configs(settings)?, uplink })
}

/// The rules that are at hand.
fn configs(settings: &AgentSettings) -> Result<Vec<DomainConfig>, StartError> {
    let file = match &settings.rules {
        RulesFrom::Given(configs) => return Ok(configs.clone()),
        RulesFrom::File(path) => Some(path),
        RulesFrom::ControlPlane(control_plane) => control_plane.bundled_rules.as_ref(),
    };
    Ok(file.map(|path| file::read(path)).transpose()?.into_iter().collect())
}

/// The domains to serve: those of the settings, else those of the rules, else `default`.
fn domains(settings: &AgentSettings, configs: &[DomainConfig]) -> Result<Vec<Name>, StartError> {
    let mut domains = settings.domains.clone();
    if domains.is_empty() {
        domains = configs.iter().map(|config| config.domain.name.clone()).collect();
    }
    if domains.is_empty() {
        domains.extend(Name::new("default"));
    }
    domains.dedup();
    match configs.iter().find(|config| !domains.contains(&config.domain.name)) {
        Some(stray) => {
            let wanted = listed(&domains);
            Err(StartError::Domain { found: stray.domain.name.clone(), wanted })
        }
        None => Ok(domains),
    }
}

fn limiter(settings: &AgentSettings, secret: &HashSecret, clock: &Arc<dyn Clock>) -> Result<Arc<Limiter>, StartError> {
    check_tls(settings)?;
    let count_on = if matches!(settings.counters, Counters::Memory) { CountOn::Memory } else { CountOn::Ring };
    let tls = settings.shard_tls.clone();
    let limiter = Limiter::new(LimiterSettings { count_on, agents: settings.agents, tls, ..LimiterSettings::default() }, clock.clone());
    if let Counters::Shards(shards) = &settings.counters {
        // The control plane's secret is told when it comes: nobody marks shards with the one that fills in for it.
        limiter.set_secret_fingerprint(secret.fingerprint());
        limiter.set_ring(RingConfig { version: 0, shards: shards.clone() });
    }
    Ok(Arc::new(limiter))
}

/// Files that are named must be there and hold what they should, whether a shard needs them yet or not.
fn check_tls(settings: &AgentSettings) -> Result<(), StartError> {
    if settings.shard_tls != TlsFiles::default() {
        settings.shard_tls.load()?;
    }
    Ok(())
}

/// The secret to start with. A control plane sends its own before anything is counted on its shards.
fn hash_secret(settings: &AgentSettings) -> HashSecret {
    settings.hash_secret.clone().unwrap_or_else(|| {
        if matches!(settings.counters, Counters::Shards(_)) {
            tracing::warn!("no hash secret is set: counter keys on the shards are hashed with a built-in one that everybody knows");
        }
        HashSecret::built_in()
    })
}

fn outlets(settings: &AgentSettings, checker: &Arc<Checker>, limiter: &Arc<Limiter>) -> Outlets {
    let of_windows = limiter.clone();
    let (of_rules, of_secret) = (checker.clone(), checker.clone());
    let rules: Outlet<_> = Box::new(move |set| {
        of_rules.set_rules(set);
        of_windows.set_longest_window(of_rules.longest_window());
    });
    let (of_ring, of_agents, of_marks) = (limiter.clone(), limiter.clone(), limiter.clone());
    let wanted = matches!(settings.counters, Counters::FromControlPlane);
    Outlets {
        rules,
        // An agent that was told its shards, or to count alone, keeps to that.
        ring: Box::new(move |ring| {
            let ring = ring_config(ring)?;
            let revision = ring.version;
            if wanted && !of_ring.set_ring(ring) {
                return Err(format!("revision {revision} of the ring is older than {}, which is in force", of_ring.ring_version()));
            }
            Ok(())
        }),
        // The limiter first: shards are looked at anew at once. What is counted until one of them turns out to bear the mark of another secret is
        // under keys that nobody else has, and expires.
        secret: Box::new(move |secret| {
            of_marks.set_secret_fingerprint(secret.fingerprint());
            of_secret.set_secret(secret);
        }),
        live_agents: Box::new(move |agents| of_agents.set_live_agents(agents)),
    }
}

fn ring_config(ring: Ring) -> Result<RingConfig, String> {
    let shards = ring.shards.into_iter().map(|shard| {
        let address = shard.address.parse().map_err(|error| format!("/shard/{}/address: {error}", shard.name))?;
        let mut config = ShardConfig { weight: shard.weight, memory_limit: shard.memory_limit, ..ShardConfig::new(shard.name, address) };
        if let Some(credentials) = shard.credentials {
            config.login = Login { username: credentials.username, password: credentials.password };
            config.sentinel_login = Login { username: credentials.sentinel_username, password: credentials.sentinel_password };
        }
        Ok(config)
    });
    Ok(RingConfig { version: ring.revision, shards: shards.collect::<Result<_, String>>()? })
}
