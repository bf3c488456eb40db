//! Puts a set into force: read, validate, compile, swap, and only then the disk.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weir_core::config::DomainConfig;
use weir_core::item::{Item, SetHash};
use weir_core::mistake::Mistakes;
use weir_core::name::Name;
use weir_core::ruleset::RuleSet;
use weir_proto::v1;

use super::Outlets;
use super::disk::Disk;
use super::ring::{self, Ring, Secrets, Shard};
use super::store::{InForce, Origin, RuleStore};

/// Why a set is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It is wrong, and always will be. The last good one stays in force.
    Invalid(Vec<String>),
    /// It is in force, but could not be written to disk: the same set may be sent again later.
    NotOnDisk(String),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Invalid(errors) => f.write_str(&errors.join("; ")),
            Self::NotOnDisk(error) => write!(f, "in force, but not written to disk: {error}"),
        }
    }
}

impl From<Mistakes> for Refusal {
    fn from(mistakes: Mistakes) -> Self {
        Self::Invalid(mistakes.into_iter().map(|m| format!("{}: {}", m.pointer, m.detail)).collect())
    }
}

/// The one way by which sets come into force.
#[derive(Debug)]
pub struct Applier {
    store: Arc<RuleStore>,
    outlets: Outlets,
    disk: Option<Disk>,
    v6_prefix: u8,
    locked: Mutex<Locked>,
}

/// The ring and what opens it, which come apart and in any order.
#[derive(Debug, Default)]
struct Locked {
    secrets: Secrets,
    ring: Option<(u64, Vec<Shard>)>,
}

impl Applier {
    /// What comes into force goes to `outlets` and, if it came from the control plane, to `disk`. `v6_prefix`: bits of an IPv6 address
    /// that make one client.
    #[must_use]
    pub fn new(store: Arc<RuleStore>, outlets: Outlets, disk: Option<Disk>, v6_prefix: u8) -> Self {
        Self { store, outlets, disk, v6_prefix, locked: Mutex::default() }
    }

    /// What is in force.
    #[must_use]
    pub fn store(&self) -> &RuleStore {
        &self.store
    }

    /// The fingerprints of the hash secret and of the secrets message in force; empty if there are none.
    #[must_use]
    pub fn fingerprints(&self) -> (String, String) {
        let locked = self.locked.lock();
        let secret = locked.secrets.hash_secret.as_ref().map(weir_core::key::HashSecret::fingerprint);
        (secret.unwrap_or_default(), locked.secrets.fingerprint.clone())
    }

    /// Puts into force what the disk holds: secrets, then the ring, then the rules of `domains`.
    pub fn start_from_disk(&self, domains: &[Name]) {
        let Some(disk) = &self.disk else { return };
        if let Some(at) = disk.load_confirmed() {
            self.store.confirmed_at(at);
        }
        if let Some(secrets) = disk.load_secrets() {
            self.use_secrets(secrets);
        }
        if let Some(saved) = disk.load_ring() {
            self.note("ring", saved.revision, self.use_ring(saved.revision, &saved.items, Origin::Disk));
        }
        for domain in domains {
            if let Some(saved) = disk.load_rules(domain.as_str()) {
                self.note(domain.as_str(), saved.revision, self.use_items(domain, saved.revision, &saved.items, Origin::Disk));
            }
        }
    }

    fn note(&self, what: &str, revision: u64, result: Result<(), Refusal>) {
        match result {
            Ok(()) => tracing::info!(what, revision, "started from disk"),
            Err(refusal) => tracing::warn!(what, revision, %refusal, "cannot start from what is on disk"),
        }
    }

    /// Takes rules that were validated already: given by the embedding program, or read from a file.
    ///
    /// # Errors
    /// [`Refusal::Invalid`].
    pub fn config(&self, config: &DomainConfig, revision: u64, origin: Origin) -> Result<(), Refusal> {
        self.compile(&config.domain.name, config, revision, SetHash::of(&config.items()), origin, Vec::new())
    }

    /// Takes the rules of `domain` from the control plane.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn rules(&self, domain: &Name, revision: u64, items: &[Item]) -> Result<(), Refusal> {
        self.use_items(domain, revision, items, Origin::ControlPlane)
            .inspect_err(|refusal| self.store.rules_refused(domain, refusal.to_string()))?;
        self.keep(|disk| disk.save_rules(domain.as_str(), revision, items))
    }

    /// Takes a ring from the control plane.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn ring(&self, revision: u64, items: &[Item]) -> Result<(), Refusal> {
        self.use_ring(revision, items, Origin::ControlPlane).inspect_err(|refusal| self.store.ring_refused(refusal.to_string()))?;
        self.keep(|disk| disk.save_ring(revision, items))
    }

    /// Takes secrets from the control plane.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn secrets(&self, message: v1::Secrets) -> Result<(), Refusal> {
        let secrets = Secrets::try_from(message).map_err(|error| Refusal::Invalid(vec![error.to_string()]))?;
        self.use_secrets(secrets.clone());
        self.keep(|disk| disk.save_secrets(&secrets))
    }

    /// Takes the number of agents that share each limit.
    pub fn live_agents(&self, agents: u32) {
        (self.outlets.live_agents)(agents.max(1));
    }

    /// Notes on disk when the control plane was last heard.
    pub fn confirmed(&self, at: Duration) {
        if let Some(disk) = &self.disk
            && let Err(error) = disk.save_confirmed(at)
        {
            tracing::debug!(%error, "cannot note when the control plane was last heard");
        }
    }

    fn use_items(&self, domain: &Name, revision: u64, items: &[Item], origin: Origin) -> Result<(), Refusal> {
        let (config, left_out) = DomainConfig::from_items(items)?;
        if config.domain.name != *domain {
            return Err(Refusal::Invalid(vec![format!("the rules are of domain {}, not {domain}", config.domain.name)]));
        }
        self.compile(domain, &config, revision, SetHash::of(items), origin, left_out)
    }

    fn compile(
        &self,
        domain: &Name,
        config: &DomainConfig,
        revision: u64,
        hash: SetHash,
        origin: Origin,
        left_out: Vec<String>,
    ) -> Result<(), Refusal> {
        let set = RuleSet::compile(config, revision)?.with_v6_prefix(self.v6_prefix);
        (self.outlets.rules)(Arc::new(set));
        tracing::info!(%domain, revision, rules = config.rules.len(), "rules in force");
        self.store.rules_in_force(domain, InForce { revision, hash, origin }, left_out);
        Ok(())
    }

    fn use_ring(&self, revision: u64, items: &[Item], origin: Origin) -> Result<(), Refusal> {
        let (shards, left_out) = ring::read(items)?;
        for item in left_out {
            tracing::warn!(item, "the ring has an item that this build does not understand");
        }
        let mut locked = self.locked.lock();
        let mut unlocked = shards.clone();
        locked.secrets.unlock(&mut unlocked);
        (self.outlets.ring)(Ring { revision, shards: unlocked }).map_err(|error| Refusal::Invalid(vec![error]))?;
        locked.ring = Some((revision, shards));
        self.store.set_unkeyed(locked.secrets.hash_secret.is_none());
        self.store.ring_in_force(InForce { revision, hash: SetHash::of(items), origin });
        tracing::info!(revision, "ring in force");
        Ok(())
    }

    /// The same ring with new credentials is handed out again.
    fn use_secrets(&self, secrets: Secrets) {
        let mut locked = self.locked.lock();
        if let Some(secret) = &secrets.hash_secret {
            (self.outlets.secret)(secret.clone());
        }
        self.store.set_unkeyed(locked.ring.is_some() && secrets.hash_secret.is_none());
        if let Some((revision, shards)) = &locked.ring {
            let mut shards = shards.clone();
            secrets.unlock(&mut shards);
            if let Err(error) = (self.outlets.ring)(Ring { revision: *revision, shards }) {
                tracing::warn!(error, "the ring cannot be used with the new credentials");
            }
        }
        locked.secrets = secrets;
    }

    fn keep(&self, save: impl FnOnce(&Disk) -> std::io::Result<()>) -> Result<(), Refusal> {
        self.disk.as_ref().map_or(Ok(()), save).map_err(|error| Refusal::NotOnDisk(error.to_string()))
    }
}

/// Opens the state directory.
///
/// # Errors
/// What the system says, with the path.
pub fn open_disk(folder: &Path) -> std::io::Result<Disk> {
    Disk::open(folder).map_err(|error| std::io::Error::new(error.kind(), format!("state directory {}: {error}", folder.display())))
}
