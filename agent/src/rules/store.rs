//! What is in force: per domain its revision and hash, the ring's, and how fresh all of it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use serde::{Serialize, Serializer};
use weir_core::clock::Clock;
use weir_core::item::SetHash;
use weir_core::name::Name;

/// Where a set in force came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The settings of the program that embeds the agent.
    Given,
    /// The state directory.
    Disk,
    /// A rules file.
    File,
    /// The control plane.
    ControlPlane,
}

/// One set in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InForce {
    /// Its revision; for a rules file the number of the reading, from 1.
    pub revision: u64,
    /// What proves two sets equal.
    #[serde(serialize_with = "as_text")]
    pub hash: SetHash,
    /// Where it came from.
    pub origin: Origin,
}

/// The state of one domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DomainState {
    /// The domain.
    pub domain: Name,
    /// What is in force; `None`: no rules yet.
    pub rules: Option<InForce>,
    /// Why the newest set that arrived is not in force.
    pub refused: Option<String>,
    /// Items that this build does not understand and left out.
    pub left_out: Vec<String>,
}

/// What is in force, for status pages and for `Hello`. The compiled rules themselves are where checks are made.
pub struct RuleStore {
    state: RwLock<State>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct State {
    domains: BTreeMap<Name, DomainState>,
    ring: Option<InForce>,
    ring_refused: Option<String>,
    /// A ring is in force, but no secret for the keys that go there.
    unkeyed: bool,
    connected: bool,
    /// When a control plane last confirmed that this is the newest, since the epoch.
    confirmed: Option<Duration>,
    /// Whether there is a control plane at all.
    supervised: bool,
    last_error: Option<String>,
}

impl RuleStore {
    /// A store of `domains`, none of which has rules; `supervised`: by a control plane, so rules can be stale.
    #[must_use]
    pub fn new(domains: &[Name], supervised: bool, clock: Arc<dyn Clock>) -> Self {
        let empty = |domain: &Name| DomainState { domain: domain.clone(), rules: None, refused: None, left_out: Vec::new() };
        let domains = domains.iter().map(|domain| (domain.clone(), empty(domain))).collect();
        Self { state: RwLock::new(State { domains, supervised, ..State::default() }), clock }
    }

    /// Notes that `set` of `domain` is in force.
    pub fn rules_in_force(&self, domain: &Name, set: InForce, left_out: Vec<String>) {
        if let Some(state) = self.state.write().domains.get_mut(domain) {
            *state = DomainState { domain: domain.clone(), rules: Some(set), refused: None, left_out };
        }
    }

    /// Notes why a set of `domain` is not in force.
    pub fn rules_refused(&self, domain: &Name, why: String) {
        if let Some(state) = self.state.write().domains.get_mut(domain) {
            state.refused = Some(why);
        }
    }

    /// Notes that this ring is in force.
    pub fn ring_in_force(&self, ring: InForce) {
        let mut state = self.state.write();
        state.ring = Some(ring);
        state.ring_refused = None;
    }

    /// Notes whether the ring in force has no secret of its own for counter keys.
    pub fn set_unkeyed(&self, unkeyed: bool) {
        self.state.write().unkeyed = unkeyed;
    }

    /// Notes why a ring is not in force.
    pub fn ring_refused(&self, why: String) {
        self.state.write().ring_refused = Some(why);
    }

    /// Notes that the control plane was heard just now; gives the time, since the epoch.
    pub fn confirmed(&self) -> Duration {
        let now = self.clock.wall();
        self.state.write().confirmed = Some(now);
        now
    }

    /// Notes when a control plane was last heard before this start, since the epoch.
    pub fn confirmed_at(&self, at: Duration) {
        self.state.write().confirmed = Some(at);
    }

    /// Notes whether a stream to the control plane is open; `error`: why not.
    pub fn set_connected(&self, connected: bool, error: Option<String>) {
        let mut state = self.state.write();
        state.connected = connected;
        if error.is_some() || connected {
            state.last_error = error;
        }
    }

    /// Whether a stream to the control plane is open.
    #[must_use]
    pub fn connected(&self) -> bool {
        self.state.read().connected
    }

    /// Why there is no stream, if something went wrong.
    #[must_use]
    pub fn last_error(&self) -> Option<String> {
        self.state.read().last_error.clone()
    }

    /// Every domain, in order.
    #[must_use]
    pub fn domains(&self) -> Vec<DomainState> {
        self.state.read().domains.values().cloned().collect()
    }

    /// One domain.
    #[must_use]
    pub fn domain(&self, name: &str) -> Option<DomainState> {
        self.state.read().domains.get(name).cloned()
    }

    /// The ring in force.
    #[must_use]
    pub fn ring(&self) -> Option<InForce> {
        self.state.read().ring.clone()
    }

    /// Whether every domain has rules.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.state.read().domains.values().all(|domain| domain.rules.is_some())
    }

    /// How long ago a control plane last confirmed what is in force: zero while connected, `None` if no control plane is used or none
    /// was ever heard.
    #[must_use]
    pub fn stale(&self) -> Option<Duration> {
        let state = self.state.read();
        if !state.supervised {
            return None;
        }
        if state.connected { Some(Duration::ZERO) } else { state.confirmed.map(|at| self.clock.wall().saturating_sub(at)) }
    }

    /// What an operator should look at, one line each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let state = self.state.read();
        let mut warnings = Vec::new();
        for domain in state.domains.values() {
            if let Some(why) = &domain.refused {
                warnings.push(format!("domain {}: the newest rules are not in force: {why}", domain.domain));
            }
            warnings.extend(domain.left_out.iter().map(|item| format!("domain {}: left out: {item}", domain.domain)));
        }
        if state.unkeyed {
            warnings
                .push("the control plane sent no hash secret: counter keys are hashed with a built-in one that everybody knows".to_owned());
        }
        warnings.extend(state.ring_refused.iter().map(|why| format!("the newest ring is not in force: {why}")));
        warnings
    }
}

impl std::fmt::Debug for RuleStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuleStore").field("state", &*self.state.read()).finish_non_exhaustive()
    }
}

fn as_text<S: Serializer>(hash: &SetHash, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(hash)
}
