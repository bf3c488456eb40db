//! Documents that are refused, with the place of each mistake.

use serde_json::json;

use super::{mistakes, with_rule};
use crate::config::DomainConfig;

#[test]
fn all_mistakes_are_reported_at_once_with_their_places() {
    let document = json!({
        "domain": "a b",
        "Mode": "enforce",
        "mode": "on",
        "tiers": [{ "name": "free" }, { "name": "free", "default": 1 }, 7],
        "defaults": { "algorithm": "leaky_bucket", "on_failure": { "mode": "local", "escalate": { "after": "5s", "to": "local" } }, "x/y~z": 1 },
        "rules": [
            { "name": "r", "limits": {}, "colour": "red" },
            { "name": "r", "key": ["subject", "subject", "cookie:a"], "limits": { "*": { "limit": 1 } }, "match": { "methods": ["get"], "path": "a" } },
        ],
    });
    let expected = [
        "/Mode: unknown field; allowed are domain, description, mode, tiers, defaults, rules",
        "/domain: must consist of letters, digits, '_', '.', ':' and '-' only; ' ' is not allowed",
        "/mode: must be one of enforce, shadow, off",
        "/defaults/x~1y~0z: unknown field; allowed are algorithm, on_failure, group",
        "/defaults/algorithm: must be one of token_bucket, sliding_window, sliding_log, fixed_window, concurrency",
        "/defaults/on_failure/escalate/to: must differ from the mode before it",
        "/tiers/1/default: must be true or false, not a number",
        "/tiers/2: must be an object, not a number",
        "/rules/0/colour: unknown field; allowed are name, description, group, priority, match, key, algorithm, limits, on_failure, mode, enforce_percent, cost_header",
        "/rules/0/key: is missing",
        "/rules/0/limits: must have 1 to 1001 limits, of tiers or \"*\" for the rest",
        "/rules/1/match/methods/0: must be a method in upper case, such as GET, of at most 32 characters",
        "/rules/1/match/path: must start with '/'",
        "/rules/1/key/2: must be one of subject, ip, route, method, tier, header:NAME, param:NAME, descriptor:NAME",
        "/rules/1/key/1: is given twice",
        "/rules/1/limits/*/window: is missing",
    ];
    assert_eq!(mistakes(&document), expected);
}

#[test]
fn parts_must_fit_together() {
    let limit = json!({ "limit": 1, "window": "1s" });
    let document = json!({
        "tiers": [{ "name": "free", "default": true }, { "name": "paid", "default": true }, { "name": "free" }],
        "defaults": { "algorithm": "fixed_window" },
        "rules": [
            { "name": "a", "key": [], "limits": { "free": limit } },
            { "name": "b", "key": [], "limits": { "gold": limit, "*": { "limit": 1, "window": "1s", "burst": 2 } } },
            { "name": "a", "key": [], "limits": { "*": limit } },
        ],
    });
    let expected = [
        "/tiers/2/name: another tier (/tiers/0) has this name",
        "/rules/2/name: another rule (/rules/0) has this name",
        "/tiers/1/default: only one tier can be the default; free is already",
        "/rules/0/limits: the limit of tier paid is missing, and there is no \"*\" for the rest",
        "/rules/1/limits/gold: there is no such tier",
        "/rules/1/limits/*/burst: only token_bucket has a burst, not fixed_window",
    ];
    assert_eq!(mistakes(&document), expected);
    assert_eq!(mistakes(&json!({ "tiers": [{ "name": "free" }] })), ["/tiers: one tier must have default: true"]);
}

#[test]
fn a_domain_without_tiers_limits_everybody_by_the_star() {
    let limit = json!({ "limit": 1, "window": "1s" });
    let config = DomainConfig::read(&json!({ "rules": [{ "name": "r", "key": [], "limits": { "*": limit } }] })).unwrap();
    assert_eq!(config.domain.name, "default");
    assert!(config.tiers.is_empty());
    let found = mistakes(&json!({ "rules": [{ "name": "r", "key": [], "limits": { "default": limit } }] }));
    assert_eq!(found[0], "/rules/0/limits/default: there is no such tier");
    assert_eq!(found[1], "/rules/0/limits: the limit is missing, and there is no \"*\" for the rest");
}

/// BB-49: names come from one alphabet that is safe everywhere.
#[test]
fn bb_49_names_that_could_run_as_script_are_refused() {
    let long = "x".repeat(10_000);
    for bad in
        ["x');alert(1)//", "<img src=x onerror=alert(1)>", "</script >", "\u{202e}abc", "=cmd|' /C calc'!A0", "", "a b", "caf\u{e9}", &long]
    {
        let found = mistakes(&with_rule(&json!({ "name": bad })));
        assert!(found.len() == 1 && found[0].starts_with("/rules/0/name: must "), "{bad}: {found:?}");
        let found = mistakes(&json!({ "domain": bad }));
        assert!(found.len() == 1 && found[0].starts_with("/domain: must "), "{bad}: {found:?}");
        let found = mistakes(&json!({ "tiers": [{ "name": bad, "default": true }] }));
        assert_eq!(found.len(), 1, "{bad}: {found:?}");
    }
}

#[test]
fn descriptions_are_bounded_texts() {
    let read = |text: &str| DomainConfig::read(&with_rule(&json!({ "description": text })));
    assert_eq!(read("two lines\n<b>&'\"</b>\t\u{1f980}").unwrap().rules[0].description, "two lines\n<b>&'\"</b>\t\u{1f980}");
    read(&"\u{e9}".repeat(500)).unwrap();
    for bad in [&"x".repeat(501), "nul \0", "escape \u{1b}[31m", "\u{85}"] {
        assert_eq!(read(bad).unwrap_err().as_slice()[0].pointer, "/rules/0/description");
    }
}

#[test]
fn keys_must_be_able_to_find_their_parts() {
    let key = |key: &str, path: Option<&str>| {
        let matches = path.map_or_else(|| json!({}), |path| json!({ "path": path }));
        DomainConfig::read(&with_rule(&json!({ "key": [key], "match": matches }))).map_err(|mistakes| mistakes.to_string())
    };
    key("param:id", Some("/users/{id}/**")).unwrap();
    key("route", Some("/users")).unwrap();
    key("descriptor:remote address", None).unwrap();
    assert_eq!(key("header:X-Plan", None).unwrap().rules[0].key[0].to_string(), "header:x-plan");
    assert_eq!(key("param:id", Some("/users/{user}")).unwrap_err(), "/rules/0/key/0: needs a segment {id} in match.path");
    assert_eq!(key("param:id", None).unwrap_err(), "/rules/0/key/0: needs a segment {id} in match.path");
    assert_eq!(key("route", None).unwrap_err(), "/rules/0/key/0: needs a path in match");
    for bad in ["Subject", "header:", "header:a b", "param:", "descriptor:", "path", ""] {
        key(bad, Some("/{id}")).unwrap_err();
    }
}

#[test]
fn matchers_are_bounded_and_checked() {
    for (matches, pointer) in [
        (json!({ "methods": vec!["GET"; 2] }), "/methods/1"),
        (json!({ "methods": (0..33).map(|i| format!("M{i}")).collect::<Vec<_>>() }), "/methods"),
        (json!({ "hosts": ["http://a"] }), "/hosts/0"),
        (json!({ "hosts": ["A.example", "a.EXAMPLE"] }), "/hosts/1"),
        (json!({ "hosts": (0..65).map(|i| format!("h{i}")).collect::<Vec<_>>() }), "/hosts"),
        (json!({ "headers": [{ "name": "x" }] }), "/headers/0"),
        (json!({ "headers": [{ "name": "x", "exact": "a", "prefix": "a" }] }), "/headers/0"),
        (json!({ "headers": [{ "name": "x", "present": false }] }), "/headers/0/present"),
        (json!({ "headers": [{ "name": "x", "regex": "(" }] }), "/headers/0/regex"),
        (json!({ "headers": [{ "name": "x", "regex": "(a{1000}){1000}" }] }), "/headers/0/regex"),
        (json!({ "headers": [{ "name": "x y", "present": true }] }), "/headers/0/name"),
        (json!({ "headers": [{ "name": "x", "exact": "a\r\nb" }] }), "/headers/0/exact"),
        (json!({ "headers": (0..33).map(|i| json!({ "name": format!("h{i}"), "present": true })).collect::<Vec<_>>() }), "/headers"),
        (json!({ "descriptors": [{ "value": "v" }] }), "/descriptors/0/key"),
        (json!({ "descriptors": [{ "key": "k", "value": null }] }), "/descriptors/0/value"),
        (json!({ "descriptors": (0..33).map(|i| json!({ "key": format!("k{i}") })).collect::<Vec<_>>() }), "/descriptors"),
        (json!({ "path": "/a/../b" }), "/path"),
        (json!({ "path": null }), "/path"),
        (json!({ "cookies": [] }), "/cookies"),
        (json!([]), ""),
    ] {
        let found = DomainConfig::read(&with_rule(&json!({ "match": matches }))).unwrap_err();
        assert_eq!(
            found.as_slice().iter().map(|m| m.pointer.clone()).collect::<Vec<_>>(),
            [format!("/rules/0/match{pointer}")],
            "{matches}"
        );
    }
}

#[test]
fn a_failure_policy_is_checked() {
    for (policy, pointer) in [
        (json!({}), "/mode"),
        (json!("closed"), ""),
        (json!({ "mode": "fail" }), "/mode"),
        (json!({ "mode": "local", "generosity": 0.05 }), "/generosity"),
        (json!({ "mode": "local", "generosity": 10.5 }), "/generosity"),
        (json!({ "mode": "local", "generosity": 1.0005 }), "/generosity"),
        (json!({ "mode": "local", "generosity": "1" }), "/generosity"),
        (json!({ "mode": "open", "escalate": { "to": "closed" } }), "/escalate/after"),
        (json!({ "mode": "open", "escalate": { "after": "0s", "to": "closed" } }), "/escalate/after"),
    ] {
        let found = DomainConfig::read(&with_rule(&json!({ "on_failure": policy }))).unwrap_err();
        assert_eq!(found.as_slice()[0].pointer, format!("/rules/0/on_failure{pointer}"), "{policy}");
    }
    DomainConfig::read(&with_rule(&json!({ "on_failure": { "mode": "local", "generosity": 2 } }))).unwrap();
}

/// Calendar windows go with fixed windows, and zones are written as the database has them.
#[test]
fn calendars_are_checked() {
    let read = |algorithm: &str, limit: serde_json::Value| {
        let document = with_rule(&json!({ "algorithm": algorithm, "limits": { "*": limit } }));
        DomainConfig::read(&document).map(|_| ()).map_err(|mistakes| mistakes.to_string())
    };
    for unit in ["minute", "hour", "day", "week", "month"] {
        read("fixed_window", json!({ "limit": 1, "calendar": unit, "time_zone": "Europe/Zurich" })).unwrap();
        read("fixed_window", json!({ "limit": 0, "calendar": unit })).unwrap();
    }
    for (limit, mistake) in [
        (json!({ "limit": 1, "calendar": "year" }), "/calendar: must be one of minute, hour, day, week, month"),
        (json!({ "limit": 1, "calendar": null }), "/calendar: must be one of minute, hour, day, week, month"),
        (json!({ "limit": 1, "calendar": "day", "window": "1d" }), ": must have either window or calendar, not both"),
        (
            json!({ "limit": 1, "window": "1d", "time_zone": "UTC" }),
            "/time_zone: only a calendar has a time zone: give calendar (minute, hour, day, week or month)",
        ),
        (
            json!({ "limit": 1, "calendar": "day", "time_zone": "europe/zurich" }),
            "/time_zone: must be the name of a time zone, such as Europe/Zurich or UTC; did you mean Europe/Zurich?",
        ),
        (
            json!({ "limit": 1, "calendar": "day", "time_zone": "CEST" }),
            "/time_zone: must be the name of a time zone, such as Europe/Zurich or UTC",
        ),
        (json!({ "limit": 1, "calendar": "day", "time_zone": 1 }), "/time_zone: must be a string, not a number"),
        (json!({ "limit": 1, "calendar": "day", "burst": 2 }), "/burst: only token_bucket has a burst, not fixed_window"),
        (json!({ "unlimited": true, "calendar": "day" }), ": must have either unlimited or a limit, not both"),
    ] {
        assert_eq!(read("fixed_window", limit.clone()).unwrap_err(), format!("/rules/0/limits/*{mistake}"), "{limit}");
    }
    for algorithm in ["token_bucket", "sliding_window", "sliding_log", "concurrency"] {
        let found = read(algorithm, json!({ "limit": 1, "calendar": "day" })).unwrap_err();
        assert_eq!(found, format!("/rules/0/limits/*/calendar: only fixed_window follows a calendar, not {algorithm}: give a window"));
    }
}

/// What remembers each request by itself has a bound; a request in flight is one, whatever it costs.
#[test]
fn logs_and_leases_are_bounded() {
    for algorithm in ["sliding_log", "concurrency"] {
        let read = |limit: serde_json::Value| {
            DomainConfig::read(&with_rule(&json!({ "algorithm": algorithm, "limits": { "*": limit } }))).map_err(|found| found.to_string())
        };
        for limit in [0, 1, 10_000] {
            read(json!({ "limit": limit, "window": "30s" })).unwrap();
        }
        read(json!({ "unlimited": true })).unwrap();
        let found = read(json!({ "limit": 10_001, "window": "30s" })).unwrap_err();
        assert_eq!(found, format!("/rules/0/limits/*/limit: must be at most 10000: {algorithm} remembers each request by itself"));
        let found = read(json!({ "limit": 1, "window": "30s", "burst": 1 })).unwrap_err();
        assert_eq!(found, format!("/rules/0/limits/*/burst: only token_bucket has a burst, not {algorithm}"));
        let limits = json!({ "free": { "limit": 9, "window": "1h" }, "*": { "limit": 9, "window": "60s" } });
        let document = with_rule(&json!({ "algorithm": algorithm, "key": ["ip"], "limits": limits }));
        assert!(mistakes(&document)[0].starts_with("/rules/0/limits: all tiers share one counter"), "{algorithm}");
    }
    let by_cost = |algorithm: &str| with_rule(&json!({ "algorithm": algorithm, "cost_header": "x-cost" }));
    DomainConfig::read(&by_cost("sliding_log")).unwrap();
    let expected = "/rules/0/cost_header: concurrency counts requests in flight, whatever they cost: leave it out";
    assert_eq!(mistakes(&by_cost("concurrency")), [expected]);
    // The domain's default counts like the rule's own word.
    let mut document = with_rule(&json!({ "cost_header": "x-cost" }));
    document["defaults"] = json!({ "algorithm": "concurrency" });
    assert_eq!(mistakes(&document), [expected]);
}

#[test]
fn unlimited_stands_alone() {
    let read = |limit| DomainConfig::read(&with_rule(&json!({ "limits": { "*": limit } }))).map_err(|mistakes| mistakes.to_string());
    read(json!({ "unlimited": true })).unwrap();
    assert_eq!(
        read(json!({ "unlimited": true, "limit": 1 })).unwrap_err(),
        "/rules/0/limits/*: must have either unlimited or a limit, not both"
    );
    assert!(read(json!({ "unlimited": false })).unwrap_err().starts_with("/rules/0/limits/*/unlimited: must be true"));
    assert!(read(json!({ "unlimited": null })).unwrap_err().starts_with("/rules/0/limits/*/unlimited: must be true"));
}

#[test]
fn counts_are_bounded() {
    let many = |count: usize| (0..count).map(|i| json!({ "name": format!("t{i}"), "default": i == 0 })).collect::<Vec<_>>();
    DomainConfig::read(&json!({ "tiers": many(1_000) })).unwrap();
    assert_eq!(mistakes(&json!({ "tiers": many(1_001) })), ["/tiers: must have at most 1000 entries, not 1001"]);
    let parts: Vec<_> = (0..17).map(|i| format!("header:h{i}")).collect();
    assert_eq!(mistakes(&with_rule(&json!({ "key": parts }))), ["/rules/0/key: must have at most 16 entries, not 17"]);
    assert_eq!(mistakes(&json!({ "rules": vec![0; 10_001] })), ["/rules: must have at most 10000 entries, not 10001"]);
    assert_eq!(mistakes(&json!({ "rules": vec![0; 10_000] })).len(), crate::mistake::MAX_MISTAKES);
}

/// A counter keeps one window: tiers that share it must have the same one.
#[test]
fn tiers_on_one_counter_have_one_window() {
    let limits = json!({ "free": { "limit": 100, "window": "1h" }, "*": { "limit": 1000, "window": "60s" } });
    for (algorithm, key, fits) in [
        ("sliding_window", json!(["ip"]), false),
        ("fixed_window", json!([]), false),
        ("fixed_window", json!(["header:x-key", "method"]), false),
        ("fixed_window", json!(["ip", "tier"]), true),
        ("sliding_window", json!(["subject"]), true),
        ("token_bucket", json!(["ip"]), true),
    ] {
        let read = DomainConfig::read(&with_rule(&json!({ "algorithm": algorithm, "key": key, "limits": limits })));
        let expected = format!(
            "/rules/0/limits: all tiers share one counter, and {algorithm} keeps only one window of 1m, 1h: add tier to the key, or give all tiers the same window"
        );
        assert_eq!(
            read.map(|_| ()).map_err(|mistakes| mistakes.to_string()),
            if fits { Ok(()) } else { Err(expected) },
            "{algorithm} {key}"
        );
    }
    // A month here is another than a month there, and than 31 days.
    let month = |zone: &str| json!({ "limit": 1, "calendar": "month", "time_zone": zone });
    for other in [month("Asia/Tokyo"), json!({ "limit": 1, "window": "31d" })] {
        let limits = json!({ "free": month("Europe/Zurich"), "*": other });
        let found = mistakes(&with_rule(&json!({ "algorithm": "fixed_window", "key": ["ip"], "limits": limits })));
        assert!(found[0].starts_with("/rules/0/limits: all tiers share one counter"), "{found:?}");
    }
    // What counts nothing keeps no window.
    let limits = json!({ "free": { "limit": 0, "window": "1h" }, "*": { "limit": 1000, "window": "60s" } });
    DomainConfig::read(&with_rule(&json!({ "algorithm": "fixed_window", "key": [], "limits": limits }))).unwrap();
}

/// A document that was made by hand says where it is wrong as one that was read does: by position, not by name.
#[test]
fn mistakes_of_compiling_have_the_place_in_the_document() {
    let mut config = DomainConfig::read(&with_rule(&json!({ "match": { "path": "/{id}" }, "key": ["param:id"] }))).unwrap();
    config.rules[0].matches.path = Some("/{other}".to_owned());
    let mistakes = crate::ruleset::RuleSet::compile(&config, 1).unwrap_err();
    assert_eq!(mistakes.to_string(), "/rules/0/key/0: needs a segment {id} in match.path");
}
