//! Who wins within a group.

use super::{compile, headers, names, names_at, request};
use crate::request::Request;

/// Compiles the rules as one group, in both orders.
fn both_orders(rules: &[&str]) -> [crate::ruleset::RuleSet; 2] {
    let line = |rule: &&str| format!("  - {{{rule}, group: g}}\n");
    [compile(&rules.iter().map(line).collect::<String>()), compile(&rules.iter().rev().map(line).collect::<String>())]
}

/// BB-30: the special path wins over the general one, whatever the order of creation.
#[test]
fn bb_30_the_special_rule_wins_in_either_order() {
    for rules in both_orders(&[
        "name: general, match: {path: /**}",
        "name: thingy, match: {path: /api/thingy/V2/**}",
        "name: exact, match: {path: /api/thingy/V2/exact}",
        "name: post, match: {path: /api/thingy/V2/**, methods: [POST]}",
        "name: equal-b, match: {path: '/equal/{a}'}",
        "name: equal-a, match: {path: '/equal/{b}'}",
    ]) {
        assert_eq!(names_at(&rules, "/api/thingy/V2/x/y"), ["thingy"]);
        assert_eq!(names_at(&rules, "/api/thingy/V2/exact"), ["exact"]);
        assert_eq!(names_at(&rules, "/api/other"), ["general"]);
        assert_eq!(names_at(&rules, "/equal/1"), ["equal-a"]);
        let empty = headers(&[]);
        assert_eq!(names(&rules, &Request { method: Some("POST"), path: Some("/api/thingy/V2/x"), ..request(&empty) }), ["post"]);
    }
}

#[test]
fn priority_beats_hosts_and_hosts_beat_paths() {
    for rules in both_orders(&[
        "name: path, match: {path: /a/b}",
        "name: below, match: {hosts: ['*.example.com']}",
        "name: deeper, match: {hosts: ['*.b.example.com']}",
        "name: exact, match: {hosts: [a.b.example.com]}",
        "name: urgent, match: {hosts: [urgent.example.com], path: /**}, priority: 1",
        "name: last, match: {path: /a/b}, priority: -1",
    ]) {
        let empty = headers(&[]);
        for (host, expected) in [
            ("elsewhere", "path"),
            ("x.example.com", "below"),
            ("x.b.example.com", "deeper"),
            ("a.b.example.com", "exact"),
            ("urgent.example.com", "urgent"),
        ] {
            assert_eq!(names(&rules, &Request { host: Some(host), path: Some("/a/b"), ..request(&empty) }), [expected], "{host}");
        }
    }
}

#[test]
fn the_host_that_matched_counts_not_the_best_that_the_rule_has() {
    for rules in both_orders(&["name: a, match: {hosts: [x.com, '*.y.com']}", "name: b, match: {hosts: ['*.b.y.com']}"]) {
        let empty = headers(&[]);
        assert_eq!(names(&rules, &Request { host: Some("c.b.y.com"), ..request(&empty) }), ["b"]);
    }
}

#[test]
fn more_matchers_beat_fewer() {
    for rules in both_orders(&[
        "name: none",
        "name: descriptor, match: {descriptors: [{key: k}]}",
        "name: header, match: {headers: [{name: h, present: true}]}",
        "name: two, match: {headers: [{name: h, present: true}, {name: i, present: true}]}",
        "name: method, match: {methods: [GET]}",
    ]) {
        let (one, two) = (headers(&[("h", "")]), headers(&[("h", ""), ("i", "")]));
        let post = Request { method: Some("POST"), ..request(&one) };
        assert_eq!(names(&rules, &post), ["header"]);
        assert_eq!(names(&rules, &Request { headers: &two, ..post.clone() }), ["two"]);
        assert_eq!(names(&rules, &Request { descriptors: &[("k", "")], ..post.clone() }), ["header"]);
        assert_eq!(names(&rules, &Request { method: Some("GET"), ..post }), ["method"]);
    }
}

#[test]
fn groups_stack_and_default_to_the_rule_itself() {
    let rules = compile("  - {name: a}\n  - {name: b}\n  - {name: c, group: a, priority: 1}");
    assert_eq!(names_at(&rules, "/"), ["b", "c"]);
    let routes = super::compile_with("defaults: {group: routes}", "  - {name: a, match: {path: /**}}\n  - {name: b, match: {path: /x/**}}");
    assert_eq!((names_at(&routes, "/x/y"), names_at(&routes, "/y")), (vec!["b".to_owned()], vec!["a".to_owned()]));
}

#[test]
fn a_shadow_rule_is_decided_beside_the_winner_that_it_would_beat() {
    for rules in both_orders(&[
        "name: general, match: {path: /**}",
        "name: trial, match: {path: /a/**}, mode: shadow",
        "name: trial-2, match: {path: /a/b/**}, mode: shadow",
        "name: winner, match: {path: /a/b/c}",
        "name: gone, match: {path: /a/b/c}, mode: 'off', priority: 9",
    ]) {
        let sorted = |path| {
            let mut names = names_at(&rules, path);
            names.sort();
            names
        };
        assert_eq!(sorted("/x"), ["general"]);
        assert_eq!(sorted("/a"), ["(trial)", "general"]);
        assert_eq!(sorted("/a/b"), ["(trial)", "(trial-2)", "general"]);
        // Were one of them enforced, the winner would still win: they have nothing to report.
        assert_eq!(sorted("/a/b/c"), ["winner"]);
    }
}

#[test]
fn a_rule_that_spares_a_subject_does_not_displace_the_next() {
    for rules in both_orders(&["name: general, match: {path: /**}", "name: new, match: {path: /a}, enforce_percent: 0"]) {
        let mut names = names_at(&rules, "/a");
        names.sort();
        assert_eq!(names, ["(new)", "general"]);
    }
}

#[test]
fn a_domain_in_shadow_chooses_as_if_it_enforced() {
    let rules =
        super::compile_with("mode: shadow", "  - {name: a, group: g, match: {path: /**}}\n  - {name: b, group: g, match: {path: /x}}");
    assert_eq!(names_at(&rules, "/x"), ["(b)"]);
}
