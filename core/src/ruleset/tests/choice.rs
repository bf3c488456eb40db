//! Which requests a rule is about.

use http::HeaderMap;

use super::{choose, compile, compile_with, headers, names, names_at, request};
use crate::matching::index::Facts;
use crate::request::Request;
use crate::ruleset::ChoiceError;

/// BB-29: the same resource in another spelling meets the same rule and the same counter.
#[test]
fn bb_29_other_spellings_meet_the_same_counter() {
    let rules = compile(
        "  - {name: list, match: {path: /api/clients, methods: [GET]}, key: [subject, route]}\n  - {name: one, match: {path: '/api/clients/{id}'}, key: [subject, route]}",
    );
    let empty = HeaderMap::new();
    let chosen = |path| choose(&rules, &Request { path: Some(path), ..request(&empty) }).unwrap().rules;
    let plain = chosen("/api/clients");
    assert_eq!(plain.len(), 1);
    for path in [
        "/api/clients/",
        "//api/clients",
        "/api/./clients",
        "/api/x/../clients",
        "/api/%63lients",
        "/api/clients?a=b",
        "/api/clients#f",
        "/api/clients;v=1",
        "http://h/api/clients",
    ] {
        assert_eq!(chosen(path), plain, "{path}");
    }
    assert_eq!(chosen("/API/clients"), []);
    assert_eq!(chosen("/api/clients/1"), chosen("/api/clients/2"));
    assert_eq!(names_at(&rules, "/api/clients/1"), ["one"]);
    let bad = choose(&rules, &Request { path: Some("/%zz"), ..request(&empty) });
    assert_eq!(bad.unwrap_err(), ChoiceError::Path("it has a '%' without two hex digits after it".into()));
}

#[test]
fn all_given_parts_must_hold() {
    let rules = compile(
        "  - name: r
    match:
      methods: [GET, PUT]
      hosts: [api.example.com, '*.example.org']
      path: /a/**
      headers: [{name: X-Plan, prefix: gold}, {name: x-beta, present: true}]
      descriptors: [{key: k, value: 'a*'}, {key: l}]",
    );
    let lines = headers(&[("x-plan", "gold-7"), ("x-beta", "")]);
    let good = Request {
        host: Some("API.example.com:8080"),
        path: Some("/a"),
        descriptors: &[("l", ""), ("k", "b"), ("k", "abc")],
        ..request(&lines)
    };
    assert_eq!(names(&rules, &good), ["r"]);
    for host in ["x.example.org", "x.y.example.org."] {
        assert_eq!(names(&rules, &Request { host: Some(host), ..good.clone() }), ["r"]);
    }
    let (no_beta, silver) = (headers(&[("x-plan", "gold")]), headers(&[("x-plan", "silver"), ("x-beta", "")]));
    for bad in [
        Request { method: Some("POST"), ..good.clone() },
        Request { method: None, ..good.clone() },
        Request { host: Some("example.org"), ..good.clone() },
        Request { host: None, ..good.clone() },
        Request { path: Some("/ab"), ..good.clone() },
        Request { path: None, ..good.clone() },
        Request { headers: &no_beta, ..good.clone() },
        Request { headers: &silver, ..good.clone() },
        Request { descriptors: &[("k", "abc")], ..good.clone() },
        Request { descriptors: &[("k", "b"), ("l", "")], ..good.clone() },
    ] {
        assert_eq!(names(&rules, &bad), [""; 0], "{bad:?}");
    }
}

#[test]
fn templates_match_whole_paths() {
    let rules = compile(
        "  - {name: root, match: {path: /}}
  - {name: one, match: {path: '/{x}'}}
  - {name: star, match: {path: '/a/*/c'}}
  - {name: rest, match: {path: '/a/**'}}
  - {name: all, match: {path: '/**'}}
  - {name: none}",
    );
    for (path, expected) in [
        ("/", &["root", "all", "none"][..]),
        ("/a", &["one", "rest", "all", "none"]),
        ("/b", &["one", "all", "none"]),
        ("/a/b/c", &["star", "rest", "all", "none"]),
        ("/a/b/c/d", &["rest", "all", "none"]),
        ("/b/b/c", &["all", "none"]),
    ] {
        assert_eq!(names_at(&rules, path), expected, "{path}");
    }
    assert_eq!(names(&rules, &Request { path: None, ..request(&HeaderMap::new()) }), ["none"]);
}

#[test]
fn the_kill_switch_caps_every_rule() {
    let rules = "  - {name: a}\n  - {name: b, mode: shadow}\n  - {name: c, mode: 'off'}";
    let names = |mode: &str| names_at(&compile_with(&format!("mode: {mode}"), rules), "/");
    assert_eq!(names("enforce"), ["a", "(b)"]);
    assert_eq!(names("shadow"), ["(a)", "(b)"]);
    assert_eq!(names("'off'"), [""; 0]);
}

#[test]
fn a_partly_enforced_rule_refuses_for_its_share_of_subjects() {
    let empty = HeaderMap::new();
    let enforced = |percent: u8| {
        let rules = compile(&format!("  - {{name: a, enforce_percent: {percent}}}"));
        let subject = |i: usize| crate::subject::Subject::parse(Box::leak(format!("user:{i}").into_boxed_str()));
        (0..2_000)
            .filter(|i| names(&rules, &Request { subject: subject(*i), ..request(&empty) }) == ["a"])
            .collect::<std::collections::BTreeSet<_>>()
    };
    let (none, some, more, all) = (enforced(0), enforced(20), enforced(50), enforced(100));
    assert_eq!((none.len(), all.len()), (0, 2_000));
    assert!((340..460).contains(&some.len()) && (900..1_100).contains(&more.len()), "{} {}", some.len(), more.len());
    assert!(some.is_subset(&more), "raising the share keeps those who were in it");
}

#[test]
fn more_than_64_limits_are_refused() {
    let many = |count: usize| (0..count).map(|i| format!("  - {{name: r{i}}}\n")).collect::<String>();
    assert_eq!(names_at(&compile(&many(64)), "/").len(), 64);
    let empty = HeaderMap::new();
    assert_eq!(choose(&compile(&many(65)), &request(&empty)).unwrap_err(), ChoiceError::TooManyLimits(65));
}

#[test]
fn a_choice_is_reused_without_traces() {
    let rules = compile("  - {name: a, match: {path: /a}}\n  - {name: b}");
    let (empty, secret) = (HeaderMap::new(), crate::key::HashSecret::built_in());
    let mut choice = crate::ruleset::Choice::default();
    rules.choose(&Request { path: Some("/a"), tier: Some("gold"), ..request(&empty) }, &secret, &mut choice).unwrap();
    assert_eq!((choice.rules.len(), choice.unknown_tier), (2, true));
    rules.choose(&Request { tier: Some("paid"), ..request(&empty) }, &secret, &mut choice).unwrap();
    assert_eq!((choice.rules.len(), choice.unknown_tier, choice.tier), (1, false, 1));
}

/// Services run their GET handler for HEAD.
#[test]
fn get_is_head_too() {
    let rules = compile(
        "  - {name: a, match: {methods: [GET]}}\n  - {name: b, match: {methods: [HEAD, GET]}}\n  - {name: c, match: {methods: [HEAD]}}\n  - {name: d, match: {methods: [PUT]}}",
    );
    let empty = HeaderMap::new();
    let at = |method| names(&rules, &Request { method: Some(method), ..request(&empty) });
    assert_eq!(at("GET"), ["a", "b"]);
    assert_eq!(at("HEAD"), ["a", "b", "c"]);
    assert_eq!(at("PUT"), ["d"]);
}

/// Who asks as `user@host` asks the same host.
#[test]
fn a_user_name_hides_no_host() {
    let rules = compile("  - {name: r, match: {hosts: [api.example.com, '*.example.org']}}");
    let empty = HeaderMap::new();
    for host in ["x@api.example.com", "x:y@API.example.com:443", "@a.example.org", "api.other.com@api.example.com"] {
        assert_eq!(names(&rules, &Request { host: Some(host), ..request(&empty) }), ["r"], "{host}");
    }
    assert_eq!(names(&rules, &Request { host: Some("api.example.com@other.com"), ..request(&empty) }), [""; 0]);
}

#[test]
fn requests_are_bounded_whatever_they_came_through() {
    let rules = compile(
        "  - {name: r, key: ['header:x-key']}\n  - {name: s, match: {headers: [{name: x-plan, present: true}]}}\n  - {name: t, cost_header: x-cost}",
    );
    let empty = HeaderMap::new();
    let too_long = |request: &Request<'_>| match choose(&rules, request) {
        Err(ChoiceError::TooLong(long)) => Some(long.what),
        _ => None,
    };
    let text = |length: usize| "a".repeat(length);
    let (path, host) = (format!("/{}", text(8 << 10)), text(256));
    let long = text(65);
    for (what, request) in [
        ("path", Request { path: Some(&path), ..request(&empty) }),
        ("host", Request { host: Some(&host), ..request(&empty) }),
        ("method", Request { method: Some(&long), ..request(&empty) }),
        ("tier", Request { tier: Some(&long), ..request(&empty) }),
    ] {
        assert_eq!(too_long(&request).as_deref(), Some(what));
    }
    let fits = Request {
        path: Some(&path[..8 << 10]),
        host: Some(&host[..255]),
        method: Some(&long[..32]),
        tier: Some(&long[..64]),
        ..request(&empty)
    };
    assert_eq!(too_long(&fits), None);
    let value = text((8 << 10) + 1);
    for name in ["x-key", "x-plan", "x-cost"] {
        assert_eq!(too_long(&request(&headers(&[(name, &value)]))), Some(format!("header {name}")));
    }
    // Cookies and tokens that no rule looks at may be as long as the server allows.
    assert_eq!(too_long(&request(&headers(&[("cookie", &value)]))), None);
}

/// A client that repeats a header line has its rules found as often as one that does not.
#[test]
fn repeated_lines_find_a_rule_once() {
    let rules = compile(
        "  - {name: a, match: {headers: [{name: x, exact: '1'}]}}\n  - {name: b, match: {headers: [{name: x, exact: '2'}]}}\n  - {name: c, match: {descriptors: [{key: k, value: v}]}}",
    );
    let lines = headers(&[[("x", "1"); 100].as_slice(), &[("x", "2"); 28]].concat());
    let request = Request { descriptors: &[("k", "v"); 64], ..request(&lines) };
    let mut found = Vec::new();
    rules.index.find(&Facts { request: &request, path: Some("/"), host: None }, &mut |rule, _| found.push(rule));
    found.sort_unstable();
    assert_eq!(found, [0, 1, 2]);
}

/// The rules of 10,000 services, and the right ones for each path.
#[test]
fn ten_thousand_rules_choose_rightly() {
    let rule = |i: usize| match i % 4 {
        0 => format!("  - {{name: r{i}, match: {{path: /s{i}/items}}}}\n"),
        1 => format!("  - {{name: r{i}, match: {{path: '/s{i}/{{id}}/**'}}}}\n"),
        2 => format!("  - {{name: r{i}, match: {{path: /s{i}/**, methods: [POST]}}}}\n"),
        _ => format!("  - {{name: r{i}, match: {{path: '/s{i}/*', hosts: ['*.h{}.example']}}}}\n", i % 100),
    };
    let rules = compile(&(0..10_000).map(rule).collect::<String>());
    let empty = HeaderMap::new();
    for i in (0..10_000).step_by(100).flat_map(|i| [i, i + 1, i + 2, i + 3]) {
        let host = format!("a.h{}.example", i % 100);
        let at =
            |path: &str, method| names(&rules, &Request { path: Some(path), method: Some(method), host: Some(&host), ..request(&empty) });
        let own = [format!("r{i}")];
        let (items, deeper, other) =
            (at(&format!("/s{i}/items"), "POST"), at(&format!("/s{i}/items/7"), "GET"), at(&format!("/t{i}/items"), "POST"));
        assert_eq!(items, own);
        assert_eq!(deeper, if i % 4 == 1 { &own[..] } else { &[] });
        assert_eq!(other, [""; 0]);
        assert_eq!(at(&format!("/s{i}/items"), "GET").is_empty(), i % 4 == 2);
    }
}
