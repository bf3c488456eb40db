//! The check: which rules apply, whether their counters let the request pass, and what the answer is; and what else is done with its counters.

mod assemble;
mod counters;
mod operations;
mod queries;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use weir_core::counter::Action;
use weir_core::decision::{Cause, Decision, Degraded, Reason};
use weir_core::failure::FailureMode;
use weir_core::key::HashSecret;
use weir_core::lease::LeaseId;
use weir_core::name::Name;
use weir_core::request::Request;
use weir_core::ruleset::{Choice, ChoiceError, RuleSet};

use self::counters::{Counters, DomainCounters};
pub use self::operations::{Recorded, Undone, UndoneRule};
use crate::events::Recorder;
use crate::lease::{Lease, LeaseGuard};
use crate::limiter::Limiter;
use crate::settings::OnNoRules;

/// Why a request cannot be decided: the question is bad (400), nothing was counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// This agent does not serve the domain.
    #[error("this agent does not serve the domain {0:?}")]
    UnknownDomain(String),
    /// A rule is meant that does not apply to the request.
    #[error("rule {0} does not apply to this request")]
    NotApplied(Name),
    /// The rules cannot be applied to the request.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
}

/// Decides requests by the rules of their domains.
#[derive(Debug)]
pub struct Checker {
    /// The domains that this agent serves; a domain is there from the start, its rules may come later.
    domains: HashMap<Arc<str>, Served>,
    secret: ArcSwap<HashSecret>,
    on_no_rules: OnNoRules,
    limiter: Arc<Limiter>,
    recorder: Arc<Recorder>,
    counters: Counters,
}

/// A domain that is served.
#[derive(Debug, Default)]
struct Served {
    compiled: ArcSwapOption<Compiled>,
    /// The metric handles of decisions without rules, once there was one.
    without_rules: OnceLock<[Counter; 2]>,
}

/// The rules of a domain and those of them that apply to a request.
struct Applied {
    compiled: Arc<Compiled>,
    choice: Choice,
}

/// Rules with the metric handles beside them.
#[derive(Debug)]
struct Compiled {
    set: Arc<RuleSet>,
    domain: Arc<str>,
    counters: DomainCounters,
}

impl Checker {
    /// A checker for `domains`, none of which has rules yet.
    #[must_use]
    pub fn new(
        domains: impl IntoIterator<Item = weir_core::name::Name>,
        secret: HashSecret,
        on_no_rules: OnNoRules,
        limiter: Arc<Limiter>,
        recorder: Arc<Recorder>,
    ) -> Self {
        let domains = domains.into_iter().map(|name| (Arc::from(name.as_str()), Served::default())).collect();
        Self { domains, secret: ArcSwap::from_pointee(secret), on_no_rules, limiter, recorder, counters: Counters::default() }
    }

    /// Adds the metrics of decisions to `registry`.
    pub fn register(&self, registry: &mut Registry) {
        self.counters.register(registry);
    }

    /// Decides by these rules from now on. False, and nothing happens, if their domain is not served.
    pub fn set_rules(&self, set: Arc<RuleSet>) -> bool {
        let Some((domain, served)) = self.domains.get_key_value(set.domain.as_str()) else { return false };
        let counters = self.counters.of_domain(domain.clone(), set.rules.len());
        let compiled = Arc::new(Compiled { set, domain: domain.clone(), counters });
        if let Some(previous) = served.compiled.swap(Some(compiled.clone())) {
            self.counters.retire(&previous, &compiled.set);
        }
        true
    }

    /// The rules of `domain` in use.
    #[must_use]
    pub fn rules(&self, domain: &str) -> Option<Arc<RuleSet>> {
        self.domains.get(domain)?.compiled.load().as_ref().map(|compiled| compiled.set.clone())
    }

    /// The longest window of all rules in use.
    #[must_use]
    pub fn longest_window(&self) -> Duration {
        let windows = self.domains.values().filter_map(|served| Some(served.compiled.load().as_ref()?.set.longest_window()));
        windows.max().unwrap_or_default()
    }

    /// Hashes counter keys with this secret from now on.
    pub fn set_secret(&self, secret: HashSecret) {
        self.secret.store(Arc::new(secret));
    }

    /// Decides `request` by `deadline` at the latest. What it takes of `concurrency` limits is a lease, which expires unless it is released.
    ///
    /// # Errors
    /// [`CheckError`]: the question is bad.
    pub async fn check(&self, request: &Request<'_>, deadline: Instant) -> Result<(Decision, Option<Lease>), CheckError> {
        let (domain, served) = self.served(request)?;
        let Some(Applied { compiled, choice }) = self.applied(served, request)? else {
            return Ok((self.without_rules(request, domain, served), None));
        };
        let (decision, lease) = match queries::takes_lease(&choice).then(|| LeaseId::new(rand::random())) {
            None => (self.decide(&compiled, &choice, Action::Check, None, deadline).await, None),
            Some(id) => self.acquire(&compiled, &choice, id, deadline).await,
        };
        self.counters.count(&compiled, &choice, &decision);
        self.recorder.record(request, &decision);
        Ok((decision, lease))
    }

    /// Decides, and takes leases under this name.
    async fn acquire(&self, compiled: &Compiled, choice: &Choice, id: LeaseId, deadline: Instant) -> (Decision, Option<Lease>) {
        // Whoever stops waiting for the decision will not release what it takes.
        let guard = LeaseGuard::new(self.limiter.clone(), queries::leases(choice, id));
        let decision = self.decide(compiled, choice, Action::Check, Some(id), deadline).await;
        guard.disarm();
        self.limiter.release_on_shards(queries::perhaps_taken(&decision, id));
        let lease = Lease::of(id, &decision);
        (decision, lease)
    }

    async fn decide(&self, compiled: &Compiled, choice: &Choice, action: Action, lease: Option<LeaseId>, deadline: Instant) -> Decision {
        // A limit that can never let this request pass decides alone: nothing is asked, so nothing is consumed anywhere.
        let hopeless = queries::hopeless(choice);
        let queries = if hopeless { Vec::new() } else { queries::decided(&compiled.set, choice, action, lease) };
        let answers = if queries.is_empty() { Vec::new() } else { self.limiter.decide(&queries, deadline).await };
        assemble::assemble(&compiled.set, compiled.domain.clone(), choice, &answers)
    }

    /// Ends what a lease holds; whether it held anything.
    ///
    /// # Errors
    /// Why a shard did not answer; what it holds there expires.
    pub async fn release(&self, lease: &Lease, deadline: Instant) -> Result<bool, Cause> {
        let mut released = Ok(false);
        for one in self.limiter.release(&lease.releases(), deadline).await {
            released = match (released, one) {
                (Ok(true), _) | (_, Ok(true)) => Ok(true),
                (Err(cause), _) | (_, Err(cause)) => Err(cause),
                (Ok(false), Ok(false)) => Ok(false),
            };
        }
        released
    }

    /// Holds a lease until the guard is dropped.
    pub fn hold(&self, lease: &Lease) -> LeaseGuard {
        LeaseGuard::new(self.limiter.clone(), lease.releases())
    }

    fn served(&self, request: &Request<'_>) -> Result<(&Arc<str>, &Served), CheckError> {
        self.domains.get_key_value(request.domain).ok_or_else(|| CheckError::UnknownDomain(request.domain.to_owned()))
    }

    /// The rules that apply to `request`; `None` while the domain has none.
    fn applied(&self, served: &Served, request: &Request<'_>) -> Result<Option<Applied>, CheckError> {
        let Some(compiled) = served.compiled.load_full() else { return Ok(None) };
        let mut choice = Choice::default();
        compiled.set.choose(request, &self.secret.load(), &mut choice)?;
        Ok(Some(Applied { compiled, choice }))
    }

    /// The decision while there are no rules.
    fn no_rules(&self, domain: &Arc<str>) -> Decision {
        let (mode, reason) = match self.on_no_rules {
            OnNoRules::Open => (FailureMode::Open, Reason::Ok),
            OnNoRules::Closed => (FailureMode::Closed, Reason::Unavailable),
        };
        let degraded = Some(Degraded { mode, cause: Cause::NoRules });
        Decision { reason, limits: Vec::new(), strictest: None, degraded, tier: None, revision: 0, domain: domain.clone() }
    }

    fn without_rules(&self, request: &Request<'_>, domain: &Arc<str>, served: &Served) -> Decision {
        let decision = self.no_rules(domain);
        for counter in served.without_rules.get_or_init(|| self.counters.without_rules(&decision)) {
            counter.inc();
        }
        self.recorder.record(request, &decision);
        decision
    }
}
