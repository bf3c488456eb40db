//! Each warning, and what stays silent.

use super::lint;
use crate::config::DomainConfig;
use crate::config::tests::SEEDS;

fn warnings(rules: &str) -> Vec<String> {
    let text = format!("tiers: [{{name: free, default: true}}, {{name: paid}}]\nrules:\n{rules}");
    let config = DomainConfig::from_yaml(&text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    lint(&config).into_iter().map(|warning| format!("{}: {}", warning.pointer, warning.detail)).collect()
}

/// A rule of 10 per second by subject unless it says otherwise.
fn rule(fields: &str) -> String {
    let key = if fields.contains("key: [") { "" } else { ", key: [subject]" };
    let limits = if fields.contains("limits:") { "" } else { ", limits: {'*': {limit: 10, window: 1s}}" };
    format!("  - {{{fields}{key}{limits}}}\n")
}

fn of(rules: &[&str]) -> Vec<String> {
    warnings(&rules.iter().map(|fields| rule(fields)).collect::<String>())
}

const NONE: [&str; 0] = [];

#[test]
fn the_seeds_are_clean() {
    assert_eq!(lint(&DomainConfig::from_yaml(SEEDS).unwrap()), []);
}

#[test]
fn rules_that_can_never_win() {
    let never = ["/rules/1: can never win: rule wide of the same group matches all its requests and comes first"];
    assert_eq!(
        of(&["name: wide, group: g, priority: 1, match: {path: /**}", "name: narrow, group: g, match: {path: /a, methods: [GET]}"]),
        never
    );
    assert_eq!(of(&["name: wide, group: g, priority: 1", "name: narrow, group: g, match: {hosts: [a.b]}"]), never);
    let header = "headers: [{name: h, prefix: a}]";
    assert_eq!(
        of(&[
            &format!("name: wide, group: g, priority: 1, match: {{{header}}}"),
            "name: narrow, group: g, match: {headers: [{name: h, exact: ab}]}"
        ]),
        never
    );
    for silent in [
        ["name: wide, group: g, match: {path: /**}", "name: narrow, group: g, match: {path: /a}"],
        ["name: wide, group: g, priority: 1, match: {path: /b/**}", "name: narrow, group: g, match: {path: /a}"],
        ["name: wide, group: g, priority: 1, match: {methods: [GET]}", "name: narrow, group: g, match: {path: /a}"],
        ["name: wide, group: g, priority: 1, mode: shadow", "name: narrow, group: g, match: {path: /a}"],
        ["name: wide, group: g, priority: 1, enforce_percent: 50", "name: narrow, group: g, match: {path: /a}"],
        ["name: wide, group: g, priority: 1, mode: 'off'", "name: narrow, group: g, match: {path: /a}"],
        [
            "name: wide, group: g, priority: 1, match: {descriptors: [{key: k, value: v}]}",
            "name: narrow, group: g, match: {descriptors: [{key: k}]}",
        ],
    ] {
        assert_eq!(of(&silent), NONE, "{silent:?}");
    }
}

#[test]
fn ties_decided_by_name() {
    assert_eq!(
        of(&["name: b, group: g, match: {path: '/{x}/c', methods: [GET]}", "name: a, group: g, match: {path: '/{y}/{z}', methods: [GET]}"]),
        NONE
    );
    assert_eq!(
        of(&[
            "name: b, group: g, match: {path: '/a/{x}', methods: [GET, PUT]}",
            "name: a, group: g, match: {path: '/a/{y}', methods: [PUT, POST]}"
        ]),
        ["/rules/0: ties with rule a for some requests: a wins by its name"]
    );
    assert_eq!(
        of(&["name: b, group: g", "name: a, group: g"]),
        ["/rules/0: can never win: rule a of the same group matches all its requests and comes first"]
    );
    for silent in [
        ["name: b, group: g, match: {path: /a}", "name: a, group: g, match: {path: /b}"],
        ["name: b, group: g, match: {methods: [GET]}", "name: a, group: g, match: {methods: [PUT]}"],
        ["name: b, group: g, match: {hosts: [x.y]}", "name: a, group: g, match: {hosts: ['*.y']}"],
        ["name: b, group: g, match: {headers: [{name: h, exact: a}]}", "name: a, group: g, match: {headers: [{name: h, exact: b}]}"],
        ["name: b, group: g, match: {path: '/a/{x}'}", "name: a, group: h, match: {path: '/a/{y}'}"],
    ] {
        assert!(!of(&silent).iter().any(|warning| warning.contains("ties")), "{silent:?}: {:?}", of(&silent));
    }
}

#[test]
fn a_stacked_broader_rule_with_a_lower_limit() {
    let wide = |limits: &str| format!("name: wide, limits: {{{limits}}}");
    let narrow = |limits: &str| format!("name: narrow, match: {{path: /a}}, key: [subject, route], limits: {{{limits}}}");
    let of = |wider: &str, narrower: &str| of(&[&wide(wider), &narrow(narrower)]);
    assert_eq!(
        of("'*': {limit: 50, window: 60s}", "'*': {limit: 100, window: 60s}"),
        ["/rules/1/limits: never reached by \"*\": rule wide matches all its requests too, and its limit is not higher"]
    );
    assert_eq!(
        of("free: {limit: 1, window: 1s}, paid: {limit: 9, window: 1s}", "'*': {limit: 5, window: 1s}"),
        ["/rules/1/limits: never reached by tier free: rule wide matches all its requests too, and its limit is not higher"]
    );
    assert_eq!(of("'*': {limit: 100, window: 60s}", "'*': {limit: 50, window: 60s}"), NONE);
    assert_eq!(of("'*': {limit: 100, window: 1d}", "'*': {limit: 50, window: 60s}"), NONE);
    assert_eq!(of("'*': {limit: 10, window: 1s}", "'*': {limit: 50, window: 60s}"), NONE);
    assert_eq!(of("'*': {unlimited: true}", "'*': {limit: 50, window: 60s}"), NONE);
    // By address the broader rule does not see all that the narrower one counts.
    let by_ip = "name: wide, key: [ip], limits: {'*': {limit: 1, window: 60s}}";
    assert_eq!(super::tests::of(&[by_ip, &narrow("'*': {limit: 50, window: 60s}")]), NONE);
}

#[test]
fn keys_on_client_chosen_values_need_a_backstop() {
    let keyed = "name: keyed, match: {path: '/a/{id}'}, key: [subject, 'param:id']";
    let warning = "a client that varies param:id gets a new counter each time; add a rule that counts the same requests without it";
    assert_eq!(of(&[keyed]), [format!("/rules/0/key: {warning}")]);
    assert_eq!(of(&[keyed, "name: all, limits: {'*': {limit: 100, window: 1s}}"]), NONE);
    for no_help in [
        "name: other, match: {path: /b}",
        "name: other, match: {methods: [GET]}, limits: {'*': {limit: 100, window: 1s}}",
        "name: other, mode: shadow, limits: {'*': {limit: 100, window: 1s}}",
        "name: keyed-too, key: ['descriptor:x'], limits: {'*': {limit: 100, window: 1s}}",
    ] {
        assert!(of(&[keyed, no_help]).contains(&format!("/rules/0/key: {warning}")), "{no_help}");
    }
}

#[test]
fn a_cost_by_header_is_the_clients_word() {
    assert_eq!(
        of(&["name: r, cost_header: X-Cost"]),
        ["/rules/0/cost_header: the client chooses its cost unless the gateway sets x-cost on every request"]
    );
}

#[test]
fn paths_with_capitals() {
    let warning =
        "/rules/0/match/path: has capital letters: a service that takes other spellings for the same path answers them without this limit";
    assert_eq!(of(&["name: r, match: {path: /Api/x}"]), [warning]);
    assert_eq!(of(&["name: r, match: {path: '/api/{Id}'}, key: [subject, route]"]), NONE);
}

/// A rule of GET is about HEAD too.
#[test]
fn get_covers_head() {
    let never = ["/rules/1: can never win: rule wide of the same group matches all its requests and comes first"];
    assert_eq!(
        of(&["name: wide, group: g, priority: 1, match: {methods: [GET]}", "name: narrow, group: g, match: {methods: [HEAD]}"]),
        never
    );
    let ties =
        of(&["name: b, group: g, match: {methods: [GET], path: '/a/{x}'}", "name: a, group: g, match: {methods: [HEAD], path: '/a/{y}'}"]);
    assert_eq!(ties, ["/rules/0: ties with rule a for some requests: a wins by its name"]);
}

#[test]
fn many_limits_on_one_request() {
    let many = |count: usize| {
        let rules: Vec<_> = (0..count).map(|i| format!("name: r{i}, key: ['header:h{i}'], mode: shadow")).collect();
        of(&rules.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let warning = "/rules/0: at least 33 limits apply to its requests; requests with more than 64 are refused".to_owned();
    assert!(many(33).contains(&warning));
    assert!(!many(32).iter().any(|warning| warning.contains("limits apply")));
}

#[test]
fn large_domains_are_looked_at_within_bounds() {
    let rules: String = (0..5_000).map(|i| rule(&format!("name: r{i}, match: {{path: '/a/{i}/**'}}"))).collect();
    assert_eq!(warnings(&rules), NONE);
}

/// Over protocols that do not say when a request is over.
#[test]
fn requests_in_flight_are_held_until_they_expire() {
    let warning = "/rules/0/algorithm: only callers of /v1/acquire and the tower layer say when a request is over: asked about by /v1/check or /authz, it is in flight for 30s";
    assert_eq!(of(&["name: r, algorithm: concurrency, limits: {free: {limit: 5, window: 10s}, '*': {limit: 5, window: 30s}}"]), [warning]);
    assert_eq!(of(&["name: r, algorithm: concurrency, limits: {'*': {limit: 0, window: 30s}}"]), NONE);
    assert_eq!(of(&["name: r, algorithm: concurrency, mode: 'off'"]), NONE);
}

#[test]
fn long_logs_take_memory() {
    let log = |limit: u64| of(&[&format!("name: r, algorithm: sliding_log, limits: {{'*': {{limit: {limit}, window: 1m}}}}")]);
    let warning =
        "/rules/0/algorithm: remembers up to 5000 requests a counter, some hundred bytes each: sliding_window needs less than one of them";
    assert_eq!(log(5_000), [warning]);
    assert_eq!(log(999), NONE);
}

/// A bucket stands in for a quota, and knows nothing of what is left of the month.
#[test]
fn quotas_without_their_shard() {
    let quota = |unit: &str, policy: &str| {
        of(&[&format!("name: r, algorithm: fixed_window, limits: {{'*': {{limit: 9, calendar: {unit}}}}}, on_failure: {{{policy}}}")])
    };
    let warning = "/rules/0/on_failure: while its shard is away, requests pass at the even rate of the quota even if the month is used up (mode local): where that costs too much, escalate to closed";
    assert_eq!(quota("month", "mode: local"), [warning]);
    assert_eq!(quota("month", "mode: local, escalate: {after: 5s, to: open}"), [warning]);
    for silent in ["mode: local, escalate: {after: 5s, to: closed}", "mode: closed", "mode: open"] {
        assert_eq!(quota("month", silent), NONE, "{silent}");
    }
    assert_eq!(quota("hour", "mode: local"), NONE);
}

/// So many in flight and so many in a time are different things.
#[test]
fn requests_in_flight_are_not_compared_with_rates() {
    let limits = |limit: u64| format!("limits: {{'*': {{limit: {limit}, window: 30s}}}}");
    let reached = |wide: &str, narrow: &str| {
        let rules = [format!("name: wide, {wide}, {}", limits(5)), format!("name: narrow, match: {{path: /a}}, {narrow}, {}", limits(9))];
        of(&[&rules[0], &rules[1]]).iter().any(|warning| warning.contains("never reached"))
    };
    assert!(!reached("algorithm: concurrency", "algorithm: token_bucket"));
    assert!(!reached("algorithm: token_bucket", "algorithm: concurrency"));
    assert!(reached("algorithm: concurrency", "algorithm: concurrency"));
    assert!(reached("algorithm: sliding_log", "algorithm: token_bucket"));
}
