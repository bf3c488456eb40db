//! Counter keys: what shares a counter, and what shares a shard.

use http::HeaderMap;

use super::{choose, compile, headers, request};
use crate::key::{CounterKey, HashSecret};
use crate::request::Request;
use crate::ruleset::{Choice, Effective, RuleSet};
use crate::subject::Subject;

fn key(effective: &Effective) -> CounterKey {
    match effective {
        Effective::Counted { key, .. } => *key,
        _ => panic!("counted rules only"),
    }
}

fn keys(rules: &RuleSet, request: &Request<'_>) -> Vec<CounterKey> {
    choose(rules, request).unwrap().rules.iter().map(|chosen| key(&chosen.effective)).collect()
}

#[test]
fn all_limits_of_a_subject_share_a_tag() {
    let rules = compile("  - {name: a}\n  - {name: b, key: [ip, subject, 'header:x']}\n  - {name: c, key: [ip]}");
    let empty = HeaderMap::new();
    let one = keys(&rules, &request(&empty));
    assert_eq!(one[0].tag(), one[1].tag());
    assert_ne!(one[0].tag(), one[2].tag());
    assert_ne!(one[0], one[1]);
    let two = keys(&rules, &Request { subject: Subject::parse("user:2"), ..request(&empty) });
    assert!(one[0].tag() != two[0].tag() && one[2] == two[2]);
}

/// What is remembered of a key was made with a secret, and is of no use with another one.
#[test]
fn another_secret_makes_other_keys() {
    let text = "  - {name: a, key: [subject]}\n  - {name: b, match: {path: '/**'}, key: [subject, route]}\n  - {name: c, key: [ip]}";
    let (rules, empty) = (compile(text), HeaderMap::new());
    let with = |rules: &RuleSet, secret: u8| {
        let mut choice = Choice::default();
        rules.choose(&request(&empty), &HashSecret::new([secret; 32]), &mut choice).unwrap();
        choice.rules.iter().map(|chosen| key(&chosen.effective)).collect::<Vec<_>>()
    };
    let first = with(&rules, 1);
    let second = with(&rules, 2);
    assert!(first.iter().zip(&second).all(|(first, second)| first.as_str()[18..] != second.as_str()[18..]));
    assert_eq!((with(&rules, 1), with(&compile(text), 2)), (first, second));
}

#[test]
fn every_part_tells_counters_apart() {
    let rules = compile(
        "  - {name: subject, match: {path: '/u/{id}/**'}, key: [subject]}
  - {name: ip, match: {path: '/u/{id}/**'}, key: [ip]}
  - {name: route, match: {path: '/u/{id}/**'}, key: [route]}
  - {name: method, match: {path: '/u/{id}/**'}, key: [method]}
  - {name: tier, match: {path: '/u/{id}/**'}, key: [tier]}
  - {name: header, match: {path: '/u/{id}/**'}, key: ['header:x']}
  - {name: param, match: {path: '/u/{id}/**'}, key: ['param:id']}
  - {name: descriptor, match: {path: '/u/{id}/**'}, key: ['descriptor:k']}
  - {name: global, match: {path: '/u/{id}/**'}, key: []}",
    );
    let (lines, other) = (headers(&[("x", "1")]), headers(&[("x", "2")]));
    let base = Request { path: Some("/u/1/a"), client_ip: "192.0.2.1".parse().ok(), descriptors: &[("k", "1")], ..request(&lines) };
    let before = keys(&rules, &base);
    let changes: [(&str, Request<'_>); 10] = [
        ("subject", Request { subject: Subject::parse("user:2"), ..base.clone() }),
        ("ip", Request { client_ip: "192.0.2.2".parse().ok(), ..base.clone() }),
        ("ip", Request { client_ip: None, ..base.clone() }),
        ("", Request { path: Some("/u/1/b"), ..base.clone() }),
        ("method", Request { method: Some("PUT"), ..base.clone() }),
        ("tier", Request { tier: Some("paid"), ..base.clone() }),
        ("header", Request { headers: &other, ..base.clone() }),
        ("param", Request { path: Some("/u/2/a"), ..base.clone() }),
        ("descriptor", Request { descriptors: &[("k", "2"), ("k", "1")], ..base.clone() }),
        ("descriptor", Request { descriptors: &[], ..base.clone() }),
    ];
    for (part, changed) in changes {
        let after = keys(&rules, &changed);
        for (rule, (before, after)) in rules.rules.iter().zip(before.iter().zip(&after)) {
            assert_eq!(before != after, rule.name == part, "{part}: {}", rule.name);
        }
    }
}

#[test]
fn rules_never_share_a_counter() {
    let rules = compile("  - {name: a}\n  - {name: b}\n  - {name: c, key: []}\n  - {name: d, key: []}");
    let mut keys = keys(&rules, &request(&HeaderMap::new()));
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 4);
}

/// BB-20: a value that holds what separates other values stays within its own part.
#[test]
fn bb_20_values_cannot_pose_as_other_parts() {
    let rules = compile("  - {name: r, key: ['header:a', 'header:b', 'descriptor:a_b', 'descriptor:a']}");
    let key = |a: &str, b: &str, descriptors: &[(&str, &str)]| {
        let lines = headers(&[("a", a), ("b", b)]);
        keys(&rules, &Request { descriptors, ..request(&lines) })
    };
    for separator in [":", "_", "|", "/", ".", "{", "}", "*", "?", " ", "%", "{}"] {
        assert_ne!(key(&format!("x{separator}y"), "z", &[]), key("x", &format!("y{separator}z"), &[]), "{separator}");
    }
    // What no header can hold, a descriptor can.
    for separator in ["\n", "\r\n", "\0", "\u{1f}"] {
        let (left, right) = (format!("x{separator}y"), format!("y{separator}z"));
        assert_ne!(key("", "", &[("a_b", &left), ("a", "z")]), key("", "", &[("a_b", "x"), ("a", &right)]), "{separator:?}");
    }
    assert_ne!(key("", "", &[("a_b", "c")]), key("", "", &[("a", "b_c")]));
    let missing = keys(&rules, &request(&headers(&[("b", "")])));
    assert_ne!(missing, key("", "", &[]));
}

/// A client that adds a line of its own to the header it is known by gets no counter of its own, however it words the line.
#[test]
fn headers_with_several_values_share_one_counter() {
    let rules = compile("  - {name: r, key: ['header:x', 'header:y']}");
    let key = |lines: &[(&str, &str)]| keys(&rules, &request(&headers(lines)));
    let repeated = key(&[("x", "a"), ("x", "1")]);
    for other in [&["a", "2"][..], &["b", "1"], &["1", "a"], &["a", "1", "2"], &["", "x"]] {
        let lines: Vec<_> = other.iter().map(|value| ("x", *value)).collect();
        assert_eq!(key(&lines), repeated, "{other:?}");
    }
    for single in ["a", "1", "a, 1", "a,1", "", "header:x", "repeated"] {
        assert_ne!(key(&[("x", single)]), repeated, "{single}");
    }
    assert_ne!(key(&[]), repeated);
    assert_ne!(key(&[("y", "a"), ("y", "1")]), repeated);
    // The same value twice is no other value.
    assert_eq!(key(&[("x", "a"), ("x", "a")]), key(&[("x", "a")]));
}

#[test]
fn invented_methods_share_one_counter() {
    let rules = compile("  - {name: r, key: [method]}");
    let empty = HeaderMap::new();
    let key = |method| keys(&rules, &Request { method: Some(method), ..request(&empty) });
    assert_eq!(key("FOO"), key("BAR"));
    assert_ne!(key("GET"), key("POST"));
    assert_ne!(key("GET"), key("FOO"));
    // A HEAD is a GET to rules and to most services: it has no budget of its own.
    assert_eq!(key("GET"), key("HEAD"));
}

#[test]
fn without_a_subject_the_address_is_limited_and_without_that_everybody_as_one() {
    let rules = compile("  - {name: r}");
    let empty = HeaderMap::new();
    let of = |ip: Option<&str>| Request { subject: None, client_ip: ip.map(|ip| ip.parse().unwrap()), ..request(&empty) };
    let key = |ip| keys(&rules, &of(ip));
    assert_eq!(key(Some("2001:db8::1")), key(Some("2001:db8::ffff")));
    assert_ne!(key(Some("2001:db8::1")), key(Some("2001:db8:0:1::1")));
    assert_eq!(key(Some("192.0.2.1")), key(Some("::ffff:192.0.2.1")));
    assert_ne!(key(Some("192.0.2.1")), key(Some("192.0.2.2")));
    assert_ne!(key(None), key(Some("192.0.2.1")));
    // What a caller may say never is the anonymous subject.
    assert_eq!(rules.subject(&of(None)).display(), "anonymous:");
    assert_eq!(Subject::parse("anonymous:"), None);
    let wider = compile("  - {name: r}").with_v6_prefix(48);
    assert_eq!(keys(&wider, &of(Some("2001:db8::1"))), keys(&wider, &of(Some("2001:db8:0:1::1"))));
}

/// BB-56: ids are bytes; none falls together with another.
#[test]
fn bb_56_every_id_has_its_own_counter() {
    let rules = compile("  - {name: r}\n  - {name: h, key: ['header:x']}");
    let ids: [&[u8]; 11] = [
        "\u{4e2d}\u{6587}\u{5b57}".as_bytes(),
        "\u{65e5}\u{672c}\u{8a9e}".as_bytes(),
        "\u{1f980}".as_bytes(),
        "\u{1f40d}".as_bytes(),
        b"a b",
        b"a\tb",
        b"a%20b",
        b"\xFF\xFE",
        b"\xFF\xFF",
        "caf\u{e9}".as_bytes(),
        "cafe\u{301}".as_bytes(),
    ];
    let mut seen = std::collections::BTreeSet::new();
    for id in ids {
        let mut lines = HeaderMap::new();
        lines.insert("x", http::HeaderValue::from_bytes(id).unwrap());
        let found = keys(&rules, &Request { subject: Subject::new("user", id), ..request(&lines) });
        assert!(found.iter().all(|key| seen.insert(*key)), "{id:?}");
        assert!(found.iter().all(|key| key.as_str().is_ascii()));
    }
}

/// BB-57: ids are taken as they come: case, blanks and composition all count, and long ones are refused rather than cut.
#[test]
fn bb_57_ids_are_byte_exact() {
    let rules = compile("  - {name: r}");
    let empty = HeaderMap::new();
    let key = |id: &str| keys(&rules, &Request { subject: Subject::new("user", id.as_bytes()), ..request(&empty) });
    let spellings = ["anna", "Anna", " anna", "anna ", "anna\t", "anna\u{a0}", "\u{ff41}nna", "\u{e4}nna", "a\u{308}nna"];
    let distinct: std::collections::BTreeSet<_> = spellings.iter().map(|id| key(id)).collect();
    assert_eq!(distinct.len(), spellings.len());
    let long = "x".repeat(crate::subject::MAX_ID_LENGTH);
    assert_ne!(key(&long), key(&format!("{}y", &long[1..])));
    assert_eq!(Subject::new("user", format!("{long}y").as_bytes()), None);
}
