//! From what each limit said to one decision.

use std::sync::Arc;

use weir_core::decision::{Decision, LimitDecision, Reason, reason, strictest};
use weir_core::failure::FailureMode;
use weir_core::headers::UNAVAILABLE_RETRY_US;
use weir_core::limit::{Algorithm, Bound};
use weir_core::ruleset::{Choice, Chosen, Effective, RuleSet};

use crate::limiter::LimitAnswer;

/// The decision, given one answer per limit that can be asked, in the order of `choice`; none at all if nothing needed to be asked. Limits
/// that were not asked although they could have been are left out: nothing is known of them.
pub(super) fn assemble(set: &RuleSet, domain: Arc<str>, choice: &Choice, answers: &[Option<LimitAnswer>]) -> Decision {
    let mut answers = answers.iter();
    let mut limits = Vec::with_capacity(choice.rules.len());
    for chosen in &choice.rules {
        let mut limit = untouched(set, chosen);
        match &chosen.effective {
            Effective::Unlimited => {}
            Effective::Blocked(bound) => {
                (limit.limit, limit.window_us) = (Some(0), bound.window_us);
                limit.reason = Reason::Blocked;
            }
            Effective::Counted { bound, .. } if chosen.cost > bound.capacity => {
                report(bound, &mut limit);
                limit.reason = Reason::CostExceedsCapacity;
            }
            Effective::Counted { bound, .. } => {
                let Some(Some(answer)) = answers.next() else { continue };
                report(bound, &mut limit);
                counted(bound, answer, &mut limit);
            }
        }
        limits.push(limit);
    }
    decision(set, domain, choice, limits)
}

/// What each limit says after a record, given one answer per limit that was recorded on. Nothing is refused.
pub(super) fn recorded(set: &RuleSet, domain: Arc<str>, choice: &Choice, answers: &[Option<LimitAnswer>]) -> Decision {
    let mut answers = answers.iter().flatten();
    let limits = choice.rules.iter().map(|chosen| {
        let mut limit = untouched(set, chosen);
        match &chosen.effective {
            Effective::Unlimited => {}
            Effective::Blocked(bound) => (limit.limit, limit.window_us) = (Some(0), bound.window_us),
            Effective::Counted { bound, .. } => {
                report(bound, &mut limit);
                if let Some(answer) =
                    Some(bound.algorithm).filter(|algorithm| *algorithm != Algorithm::Concurrency).and_then(|_| answers.next())
                {
                    counted(bound, answer, &mut limit);
                }
            }
        }
        (limit.reason, limit.retry_after_us) = (Reason::Ok, None);
        limit
    });
    let limits = limits.collect();
    decision(set, domain, choice, limits)
}

fn decision(set: &RuleSet, domain: Arc<str>, choice: &Choice, limits: Vec<LimitDecision>) -> Decision {
    Decision {
        reason: reason(&limits),
        strictest: strictest(&limits),
        degraded: limits.iter().find_map(|l| l.degraded),
        tier: set.tiers.get(choice.tier).cloned(),
        revision: set.revision,
        domain,
        limits,
    }
}

fn untouched(set: &RuleSet, chosen: &Chosen) -> LimitDecision {
    LimitDecision {
        rule: set.rules[chosen.rule].name.clone(),
        position: chosen.rule,
        algorithm: set.rules[chosen.rule].algorithm,
        limit: None,
        window_us: 0,
        remaining: 0,
        reset_after_us: 0,
        retry_after_us: None,
        reason: Reason::Ok,
        mode: chosen.mode,
        source: chosen.source.clone(),
        degraded: None,
        shard: None,
        key: match chosen.effective {
            Effective::Counted { key, .. } => Some(key),
            Effective::Unlimited | Effective::Blocked(_) => None,
        },
        cost: chosen.cost,
    }
}

/// What is told of a limit: for a token bucket its capacity, and as window the time to refill it whole.
fn report(bound: &Bound, limit: &mut LimitDecision) {
    limit.algorithm = bound.algorithm;
    limit.limit = Some(bound.capacity);
    limit.window_us = match bound.algorithm {
        Algorithm::TokenBucket if bound.limit != bound.capacity => {
            let whole = (u128::from(bound.capacity) * u128::from(bound.window_us)).div_ceil(u128::from(bound.limit.max(1)));
            u64::try_from(whole).unwrap_or(u64::MAX)
        }
        _ => bound.window_us,
    };
}

fn counted(bound: &Bound, answer: &LimitAnswer, limit: &mut LimitDecision) {
    limit.shard.clone_from(&answer.shard);
    limit.degraded = answer.degraded;
    let reply = &answer.reply;
    match answer.degraded.map(|d| d.mode) {
        // Nothing is known of the counter: it is told as untouched.
        Some(FailureMode::Open) => limit.remaining = bound.capacity,
        Some(FailureMode::Closed) => (limit.reason, limit.retry_after_us) = (Reason::Unavailable, Some(UNAVAILABLE_RETRY_US)),
        Some(FailureMode::Local) | None => {
            (limit.remaining, limit.reset_after_us) = (reply.remaining.min(bound.capacity), reply.reset_after_us);
            if bound.calendar.is_some() && answer.degraded.is_none() {
                // That of the window which the counter is in, also where the shard's clock was set back.
                limit.window_us = bound.window_at(reply.time_us + reply.reset_after_us.saturating_sub(1));
            }
            if !reply.allowed {
                limit.retry_after_us = reply.retry_after_us;
                limit.reason = if reply.retry_after_us.is_some() { Reason::Limited } else { Reason::CostExceedsCapacity };
            }
        }
    }
}
