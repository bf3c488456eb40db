//! What an algorithm does that its name does not tell.

use super::cover::Linted;
use crate::calendar::CalendarUnit;
use crate::config::DomainConfig;
use crate::failure::FailureMode;
use crate::limit::{Algorithm, Limit, Window};
use crate::mistake::Mistakes;
use crate::rule::Rule;

/// From so many entries a counter on, a log's memory is worth a word. Each is some hundred bytes.
const LONG_LOG: u64 = 1_000;

/// How `rule` counts.
pub(super) fn algorithm(config: &DomainConfig, rule: &Rule) -> Algorithm {
    rule.algorithm.or(config.domain.defaults.algorithm).unwrap_or_default()
}

pub(super) fn warn(config: &DomainConfig, linted: &Linted<'_>, warnings: &mut Mistakes) {
    match algorithm(config, linted.rule) {
        Algorithm::Concurrency => held_until_it_expires(linted, warnings),
        Algorithm::SlidingLog => long_log(linted, warnings),
        Algorithm::FixedWindow => quota_without_shard(config, linted, warnings),
        Algorithm::TokenBucket | Algorithm::SlidingWindow => {}
    }
}

/// The windows and limits that count anything.
fn counted(rule: &Rule) -> impl Iterator<Item = (u64, Window)> {
    rule.limits.values().filter_map(|limit| match *limit {
        Limit::Limited { limit: limit @ 1.., window, .. } => Some((limit, window)),
        _ => None,
    })
}

fn held_until_it_expires(linted: &Linted<'_>, warnings: &mut Mistakes) {
    if let Some(window) = counted(linted.rule).map(|(_, window)| window).max_by_key(|window| window.longest_us()) {
        let detail = format!(
            "only callers of /v1/acquire and the tower layer say when a request is over: asked about by /v1/check or /authz, it is in flight for {window}"
        );
        warnings.add(linted.pointer("/algorithm"), detail);
    }
}

fn long_log(linted: &Linted<'_>, warnings: &mut Mistakes) {
    let most = counted(linted.rule).map(|(limit, _)| limit).max().unwrap_or_default();
    if most >= LONG_LOG {
        let detail =
            format!("remembers up to {most} requests a counter, some hundred bytes each: sliding_window needs less than one of them");
        warnings.add(linted.pointer("/algorithm"), detail);
    }
}

/// Locally a quota becomes a bucket that refills evenly.
fn quota_without_shard(config: &DomainConfig, linted: &Linted<'_>, warnings: &mut Mistakes) {
    let long = |unit: CalendarUnit| matches!(unit, CalendarUnit::Day | CalendarUnit::Week | CalendarUnit::Month);
    let Some(unit) = counted(linted.rule).filter_map(|(_, window)| Some(window.calendar()?.unit)).find(|unit| long(*unit)) else { return };
    let policy = linted.rule.on_failure.or(config.domain.defaults.on_failure).unwrap_or_default();
    if policy.mode == FailureMode::Local && policy.escalate.is_none_or(|escalation| escalation.to != FailureMode::Closed) {
        let detail = format!(
            "while its shard is away, requests pass at the even rate of the quota even if the {} is used up (mode local): where that costs too much, escalate to closed",
            unit.as_str()
        );
        warnings.add(linted.pointer("/on_failure"), detail);
    }
}
