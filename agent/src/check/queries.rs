//! What is asked of a counter for each limit of a request.

use weir_core::counter::{Action, CounterCall};
use weir_core::decision::{Cause, Decision, LimitDecision, LimitMode};
use weir_core::lease::LeaseId;
use weir_core::limit::Algorithm;
use weir_core::ruleset::{Choice, Chosen, Effective, RuleSet};

use crate::limiter::LimitQuery;
use crate::limiter::store::Release;

/// Whether an enforced limit can never let this request pass, so that no counter needs to be asked.
pub(super) fn hopeless(choice: &Choice) -> bool {
    choice.rules.iter().any(|chosen| {
        chosen.mode == LimitMode::Enforce
            && match &chosen.effective {
                Effective::Unlimited => false,
                Effective::Blocked(_) => true,
                Effective::Counted { bound, .. } => chosen.cost > bound.capacity,
            }
    })
}

/// The limits to ask a counter for, in the order of `choice`.
pub(super) fn decided(set: &RuleSet, choice: &Choice, action: Action, lease: Option<LeaseId>) -> Vec<LimitQuery> {
    let mut queries = Vec::with_capacity(choice.rules.len());
    for chosen in &choice.rules {
        if let Effective::Counted { bound, key } = &chosen.effective
            && chosen.cost <= bound.capacity
        {
            let lease = lease.filter(|_| bound.algorithm == Algorithm::Concurrency);
            let shadow = chosen.mode == LimitMode::Shadow;
            queries.push(query(set, chosen, CounterCall { shadow, action, lease, ..CounterCall::check(*key, *bound, chosen.cost) }));
        }
    }
    queries
}

/// The limits to record on, whatever their room. None can refuse, so none has another's units taken back.
pub(super) fn recorded(set: &RuleSet, choice: &Choice) -> Vec<LimitQuery> {
    let counted = choice.rules.iter().filter_map(|chosen| match &chosen.effective {
        Effective::Counted { bound, key } if bound.algorithm != Algorithm::Concurrency => {
            let call = CounterCall { shadow: true, action: Action::Record, ..CounterCall::check(*key, *bound, chosen.cost) };
            Some(query(set, chosen, call))
        }
        _ => None,
    });
    counted.collect()
}

fn query(set: &RuleSet, chosen: &Chosen, call: CounterCall) -> LimitQuery {
    let rule = &set.rules[chosen.rule];
    LimitQuery { call, on_failure: rule.on_failure, overflow: rule.overflow }
}

/// The leases that a check of this request may take under the name `lease`.
pub(super) fn leases(choice: &Choice, lease: LeaseId) -> Vec<Release> {
    let key = |chosen: &Chosen| match chosen.effective {
        Effective::Counted { bound, key } if bound.algorithm == Algorithm::Concurrency && chosen.cost > 0 => Some(key),
        _ => None,
    };
    choice.rules.iter().filter_map(key).map(|key| Release { key, lease }).collect()
}

/// Whether a check of this request takes any lease.
pub(super) fn takes_lease(choice: &Choice) -> bool {
    choice.rules.iter().any(|chosen| {
        matches!(chosen.effective, Effective::Counted { bound, .. } if bound.algorithm == Algorithm::Concurrency) && chosen.cost > 0
    })
}

/// What a shard may hold although it did not answer in time. What is held instead is held in this process, if anything.
pub(super) fn perhaps_taken(decision: &Decision, lease: LeaseId) -> Vec<Release> {
    let unheard = |limit: &&LimitDecision| {
        let asked = limit.degraded.is_some_and(|degraded| matches!(degraded.cause, Cause::Timeout | Cause::Error));
        asked && limit.algorithm == Algorithm::Concurrency && limit.cost > 0
    };
    decision.limits.iter().filter(unheard).filter_map(|limit| limit.key).map(|key| Release { key, lease }).collect()
}
