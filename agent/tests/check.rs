//! From a request and rules to a decision, counting in this process or without any shard.

#![allow(clippy::expect_used, reason = "a test stops where something goes wrong")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use prometheus_client::registry::Registry;
use weir_agent::check::{CheckError, Checker};
use weir_agent::events::Recorder;
use weir_agent::limiter::{CountOn, Limiter, LimiterSettings};
use weir_agent::settings::OnNoRules;
use weir_core::clock::SystemClock;
use weir_core::config::DomainConfig;
use weir_core::decision::{Cause, Decision, LimitMode, Reason};
use weir_core::failure::FailureMode;
use weir_core::key::HashSecret;
use weir_core::limit::Algorithm;
use weir_core::name::Name;
use weir_core::request::Request;
use weir_core::ruleset::RuleSet;
use weir_core::subject::Subject;

const RULES: &str = r#"
domain: default
tiers:
  - { name: free, default: true }
  - { name: paid }
  - { name: banned }
  - { name: staff }
rules:
  - name: per-user
    match: { path: "/**" }
    key: [subject]
    algorithm: sliding_window
    limits: { free: { limit: 10, window: 60s }, paid: { limit: 100, window: 60s }, banned: { limit: 0, window: 60s }, staff: { unlimited: true } }
    on_failure: { mode: closed }
  - name: search
    match: { path: "/search" }
    key: [subject, route]
    limits: { "*": { limit: 60, window: 60s, burst: 5 } }
    on_failure: { mode: open }
  - name: trial
    match: { path: "/trial" }
    key: [subject]
    algorithm: fixed_window
    mode: shadow
    limits: { "*": { limit: 2, window: 366d } }
"#;

struct Bed {
    checker: Checker,
}

fn rules(text: &str, revision: u64) -> Arc<RuleSet> {
    Arc::new(RuleSet::compile(&DomainConfig::from_yaml(text).expect("valid"), revision).expect("compiles"))
}

impl Bed {
    fn without_rules(count_on: CountOn, on_no_rules: OnNoRules) -> Self {
        let settings = LimiterSettings { count_on, ..LimiterSettings::default() };
        let limiter = Arc::new(Limiter::new(settings, Arc::new(SystemClock)));
        let domain = "default".parse().expect("a name");
        Self { checker: Checker::new([domain], HashSecret::built_in(), on_no_rules, limiter, Arc::new(Recorder::default())) }
    }

    fn new(count_on: CountOn) -> Self {
        let bed = Self::without_rules(count_on, OnNoRules::Open);
        assert!(bed.checker.set_rules(rules(RULES, 7)));
        bed
    }

    async fn check(&self, subject: &str, tier: &str, path: &str, cost: u64) -> Decision {
        self.try_check("default", subject, tier, path, cost).await.expect("a decision")
    }

    async fn try_check(&self, domain: &str, subject: &str, tier: &str, path: &str, cost: u64) -> Result<Decision, CheckError> {
        let headers = HeaderMap::new();
        let request = Request {
            domain,
            subject: Subject::parse(subject),
            tier: Some(tier),
            method: Some("GET"),
            host: None,
            path: Some(path),
            headers: &headers,
            client_ip: None,
            descriptors: &[],
            cost,
            limits: None,
        };
        self.checker.check(&request, Instant::now() + Duration::from_secs(20)).await.map(|(decision, _)| decision)
    }

    fn metrics(&self) -> String {
        let (mut registry, mut text) = (Registry::default(), String::new());
        self.checker.register(&mut registry);
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodes");
        text
    }

    fn counted(&self, rule: &str, tier: &str, outcome: &str) -> u64 {
        let series = format!("weir_decisions_total{{domain=\"default\",rule=\"{rule}\",tier=\"{tier}\",outcome=\"{outcome}\"}} ");
        self.metrics().lines().find_map(|line| line.strip_prefix(&series)).map_or(0, |count| count.parse().expect("a number"))
    }
}

#[tokio::test]
async fn limits_of_all_rules_apply_and_the_strictest_is_told() {
    let bed = Bed::new(CountOn::Memory);
    for n in 1..=5 {
        let decision = bed.check("a", "free", "/search", 1).await;
        assert!(decision.allowed());
        assert_eq!((decision.revision, decision.tier.as_ref().map(Name::as_str), &*decision.domain), (7, Some("free"), "default"));
        let strictest = &decision.limits[decision.strictest.expect("one")];
        assert_eq!((strictest.rule.as_str(), strictest.remaining), ("search", 5 - n));
        // A token bucket is told as its capacity, and the time to refill it whole.
        assert_eq!((strictest.algorithm, strictest.limit, strictest.window_us), (Algorithm::TokenBucket, Some(5), 5_000_000));
    }
    let refused = bed.check("a", "free", "/search", 1).await;
    assert_eq!(refused.reason, Reason::Limited);
    let strictest = &refused.limits[refused.strictest.expect("one")];
    assert_eq!((strictest.rule.as_str(), strictest.remaining), ("search", 0));
    assert!(strictest.retry_after_us.is_some_and(|us| us > 0 && us <= 1_000_000));
    // What refused it is counted, and what would have let it pass is not.
    assert_eq!((bed.counted("search", "free", "allowed"), bed.counted("search", "free", "denied")), (5, 1));
    assert_eq!((bed.counted("per-user", "free", "allowed"), bed.counted("per-user", "free", "denied")), (5, 0));
    // BB-42: nor has it consumed anything.
    assert_eq!(bed.check("a", "free", "/", 0).await.limits[0].remaining, 5);
}

#[tokio::test]
async fn a_limit_of_zero_blocks_and_nothing_is_asked() {
    let bed = Bed::new(CountOn::Ring);
    let decision = bed.check("a", "banned", "/search", 1).await;
    assert_eq!((decision.reason, decision.reason.status(), decision.degraded), (Reason::Blocked, 403, None));
    assert_eq!(decision.limits.len(), 1);
    assert_eq!((decision.limits[0].limit, decision.limits[0].retry_after_us), (Some(0), None));
    assert_eq!(bed.counted("per-user", "banned", "denied"), 1);
}

#[tokio::test]
async fn a_cost_above_the_capacity_consumes_nothing_anywhere() {
    let bed = Bed::new(CountOn::Memory);
    let decision = bed.check("a", "free", "/search", 6).await;
    assert_eq!(decision.reason, Reason::CostExceedsCapacity);
    let strictest = &decision.limits[decision.strictest.expect("one")];
    assert_eq!((strictest.rule.as_str(), strictest.limit, strictest.retry_after_us), ("search", Some(5), None));
    assert_eq!(bed.check("a", "free", "/", 0).await.limits[0].remaining, 10);
}

#[tokio::test]
async fn unlimited_is_told_and_counted_nowhere() {
    let bed = Bed::new(CountOn::Memory);
    let decision = bed.check("a", "staff", "/", 1_000).await;
    assert!(decision.allowed());
    assert_eq!((decision.limits.len(), decision.limits[0].limit, decision.strictest), (1, None, None));
    assert_eq!(bed.counted("per-user", "staff", "allowed"), 1);
}

#[tokio::test]
async fn a_shadow_rule_reports_and_never_refuses() {
    let bed = Bed::new(CountOn::Memory);
    for n in 0..4 {
        let decision = bed.check("a", "free", "/trial", 1).await;
        assert!(decision.allowed());
        let trial = decision.limits.iter().find(|l| l.rule == "trial").expect("reported");
        assert_eq!((trial.mode, trial.reason == Reason::Ok), (LimitMode::Shadow, n < 2));
        assert_eq!(decision.limits[decision.strictest.expect("one")].rule, "per-user");
    }
    assert_eq!((bed.counted("trial", "free", "allowed"), bed.counted("trial", "free", "shadow_denied")), (2, 2));
}

#[tokio::test]
async fn an_unknown_tier_is_the_default_and_counted() {
    let bed = Bed::new(CountOn::Memory);
    let decision = bed.check("a", "platinum", "/", 1).await;
    assert_eq!(decision.tier.as_ref().map(Name::as_str), Some("free"));
    assert!(bed.metrics().contains("weir_unknown_tiers_total{domain=\"default\"} 1"));
}

#[tokio::test]
async fn no_rule_and_no_rules() {
    let bed = Bed::new(CountOn::Memory);
    let mut only_search = RULES.to_owned();
    only_search = only_search.replace("\"/**\"", "\"/nowhere\"");
    assert!(bed.checker.set_rules(rules(&only_search, 8)));
    let decision = bed.check("a", "free", "/other", 1).await;
    assert_eq!((decision.reason, decision.limits.len(), decision.strictest, decision.revision), (Reason::Ok, 0, None, 8));
    assert_eq!(bed.counted("", "free", "allowed"), 1);
    for (on_no_rules, reason, mode) in
        [(OnNoRules::Open, Reason::Ok, FailureMode::Open), (OnNoRules::Closed, Reason::Unavailable, FailureMode::Closed)]
    {
        let bed = Bed::without_rules(CountOn::Memory, on_no_rules);
        let decision = bed.check("a", "free", "/", 1).await;
        assert_eq!(decision.reason, reason);
        assert_eq!(decision.degraded.map(|d| (d.mode, d.cause)), Some((mode, Cause::NoRules)));
    }
}

/// Without any shard each rule does as it says: `closed` is 503 and not the client's fault, and the worse status wins.
#[tokio::test]
async fn without_shards_the_failure_policies_answer() {
    let bed = Bed::new(CountOn::Ring);
    let decision = bed.check("a", "free", "/search", 1).await;
    assert_eq!((decision.reason, decision.reason.status()), (Reason::Unavailable, 503));
    let [per_user, search] = [&decision.limits[0], &decision.limits[1]];
    assert_eq!((per_user.reason, per_user.retry_after_us), (Reason::Unavailable, Some(1_000_000)));
    assert_eq!((search.reason, search.degraded.map(|d| d.mode)), (Reason::Ok, Some(FailureMode::Open)));
    assert_eq!(decision.degraded.map(|d| d.cause), Some(Cause::NoShards));
    assert_eq!(bed.counted("per-user", "free", "unavailable"), 1);
    assert!(bed.metrics().contains("weir_degraded_decisions_total{domain=\"default\",rule=\"per-user\",cause=\"no_shards\"} 1"));
}

#[tokio::test]
async fn a_domain_that_is_not_served_is_a_bad_question() {
    let bed = Bed::new(CountOn::Memory);
    let error = bed.try_check("other", "a", "free", "/", 1).await.expect_err("bad");
    assert_eq!(error, CheckError::UnknownDomain("other".into()));
    let foreign = RULES.replace("domain: default", "domain: other");
    assert!(!bed.checker.set_rules(rules(&foreign, 1)));
}

/// A rule that is gone takes its series along.
#[tokio::test]
async fn metrics_of_removed_rules_and_tiers_are_dropped() {
    let bed = Bed::new(CountOn::Memory);
    bed.check("a", "paid", "/search", 1).await;
    assert_eq!((bed.counted("search", "paid", "allowed"), bed.counted("per-user", "paid", "allowed")), (1, 1));
    assert!(bed.checker.set_rules(rules(&RULES.replace("name: search", "name: find"), 8)));
    assert_eq!((bed.counted("search", "paid", "allowed"), bed.counted("per-user", "paid", "allowed")), (0, 1));
    bed.check("a", "paid", "/search", 1).await;
    assert_eq!((bed.counted("find", "paid", "allowed"), bed.counted("per-user", "paid", "allowed")), (1, 2));
}
