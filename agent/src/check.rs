//! The check: which rules apply, whether their counters let the request pass, and what the answer is.

mod assemble;
mod counters;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arc_swap::{ArcSwap, ArcSwapOption};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use weir_core::counter::CounterCall;
use weir_core::decision::{Cause, Decision, Degraded, LimitMode, Reason};
use weir_core::failure::FailureMode;
use weir_core::key::HashSecret;
use weir_core::request::Request;
use weir_core::ruleset::{Choice, ChoiceError, Effective, RuleSet};

use self::assemble::{assemble, hopeless};
use self::counters::{Counters, DomainCounters};
use crate::events::Recorder;
use crate::limiter::{LimitQuery, Limiter};
use crate::settings::OnNoRules;

/// Why a request cannot be decided: the question is bad (400), nothing was counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// This agent does not serve the domain.
    #[error("this agent does not serve the domain {0:?}")]
    UnknownDomain(String),
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

    /// Hashes counter keys with this secret from now on.
    pub fn set_secret(&self, secret: HashSecret) {
        self.secret.store(Arc::new(secret));
    }

    /// Decides `request` by `deadline` at the latest.
    ///
    /// # Errors
    /// [`CheckError`]: the question is bad.
    pub async fn check(&self, request: &Request<'_>, deadline: Instant) -> Result<Decision, CheckError> {
        let Some((domain, served)) = self.domains.get_key_value(request.domain) else {
            return Err(CheckError::UnknownDomain(request.domain.to_owned()));
        };
        let Some(compiled) = served.compiled.load_full() else { return Ok(self.without_rules(request, domain, served)) };
        let mut choice = Choice::default();
        compiled.set.choose(request, &self.secret.load(), &mut choice)?;
        let decision = self.decide(&compiled, &choice, deadline).await;
        self.counters.count(&compiled, &choice, &decision);
        self.recorder.record(request, &decision);
        Ok(decision)
    }

    async fn decide(&self, compiled: &Compiled, choice: &Choice, deadline: Instant) -> Decision {
        // A limit that can never let this request pass decides alone: nothing is asked, so nothing is consumed anywhere.
        let queries = if hopeless(choice) { Vec::new() } else { queries(&compiled.set, choice) };
        let answers = if queries.is_empty() { Vec::new() } else { self.limiter.decide(&queries, deadline).await };
        assemble(&compiled.set, compiled.domain.clone(), choice, &answers)
    }

    fn without_rules(&self, request: &Request<'_>, domain: &Arc<str>, served: &Served) -> Decision {
        let (mode, reason) = match self.on_no_rules {
            OnNoRules::Open => (FailureMode::Open, Reason::Ok),
            OnNoRules::Closed => (FailureMode::Closed, Reason::Unavailable),
        };
        let degraded = Some(Degraded { mode, cause: Cause::NoRules });
        let domain = domain.clone();
        let decision = Decision { reason, limits: Vec::new(), strictest: None, degraded, tier: None, revision: 0, domain };
        for counter in served.without_rules.get_or_init(|| self.counters.without_rules(&decision)) {
            counter.inc();
        }
        self.recorder.record(request, &decision);
        decision
    }
}

/// The limits to ask a counter for, in the order of `choice`.
fn queries(set: &RuleSet, choice: &Choice) -> Vec<LimitQuery> {
    let mut queries = Vec::with_capacity(choice.rules.len());
    for chosen in &choice.rules {
        if let Effective::Counted { bound, key } = &chosen.effective
            && chosen.cost <= bound.capacity
        {
            let call = CounterCall { shadow: chosen.mode == LimitMode::Shadow, ..CounterCall::check(*key, *bound, chosen.cost) };
            let rule = &set.rules[chosen.rule];
            queries.push(LimitQuery { call, on_failure: rule.on_failure, overflow: rule.overflow });
        }
    }
    queries
}
