//! Numbers that must be refused, and those that may not.

use serde_json::{Value, json};

use super::{mistakes, with_rule};
use crate::config::DomainConfig;
use crate::limit::{Limit, MAX_UNITS};

/// What is never a number of units, written as JSON.
const BAD: [&str; 14] = [
    "-1",
    "1.5",
    "1.0",
    "\"10\"",
    "\"\"",
    "null",
    "true",
    "1e3",
    "9007199254740992",
    "9007199254740993",
    "9223372036854775808",
    "18446744073709551616",
    "[1]",
    "{}",
];

/// BB-45: every number that is not one is refused with its place.
#[test]
fn bb_45_odd_numbers_are_refused_where_they_stand() {
    for bad in BAD {
        let number: Value = serde_json::from_str(bad).unwrap();
        for field in ["limit", "burst"] {
            let mut limit = json!({ "limit": 1, "window": "1s" });
            limit[field] = number.clone();
            let found = mistakes(&with_rule(&json!({ "limits": { "free": limit } })));
            let least = u8::from(field == "burst");
            assert_eq!(found.len(), 1, "{found:?}");
            let start = format!("/rules/0/limits/free/{field}: must be a whole number from {least} to 9007199254740991, not ");
            assert!(found[0].starts_with(&start), "{field} {bad}: {found:?}");
        }
        for (field, most) in [("priority", "2147483647"), ("enforce_percent", "100")] {
            if (field, bad) == ("priority", "-1") {
                continue;
            }
            let found = mistakes(&with_rule(&json!({ field: number })));
            assert!(
                found.len() == 1 && found[0].contains(&format!("/rules/0/{field}: must be a whole number")),
                "{field} {bad}: {found:?}"
            );
            assert!(found[0].contains(most));
        }
    }
    let found = mistakes(&with_rule(&json!({ "limits": { "free": { "limit": 1, "window": "1s", "burst": 0 } } })));
    assert_eq!(found, ["/rules/0/limits/free/burst: must be a whole number from 1 to 9007199254740991, not 0"]);
}

#[test]
fn bb_45_odd_windows_are_refused() {
    for bad in [
        json!(60),
        json!("60"),
        json!(""),
        json!("0s"),
        json!("999ms"),
        json!("367d"),
        json!("-1s"),
        json!("1.5s"),
        json!(null),
        json!("1S"),
    ] {
        let found = mistakes(&with_rule(&json!({ "limits": { "free": { "limit": 1, "window": bad } } })));
        assert!(found.len() == 1 && found[0].starts_with("/rules/0/limits/free/window: must be"), "{bad}: {found:?}");
    }
    for good in ["1s", "1000ms", "366d", "1500ms"] {
        DomainConfig::read(&with_rule(&json!({ "limits": { "free": { "limit": 1, "window": good } } }))).unwrap();
    }
}

#[test]
fn bb_45_nan_and_infinity_are_refused() {
    for bad in [".nan", ".inf", "-.inf", "NaN"] {
        let text = format!("rules: [{{name: r, key: [], limits: {{'*': {{limit: {bad}, window: 1s}}}}}}]");
        assert!(DomainConfig::from_yaml(&text).is_err(), "{bad}");
    }
}

#[test]
fn bb_45_a_limit_of_zero_is_allowed_and_keeps_its_meaning() {
    let config = DomainConfig::read(&with_rule(&json!({ "limits": { "*": { "limit": 0, "window": "1s" } } }))).unwrap();
    assert!(matches!(config.rules[0].limits[&None], Limit::Limited { limit: 0, .. }));
}

/// BB-46: a capacity of 0 is refused; every capacity from 1 up goes with every rate.
#[test]
fn bb_46_rate_and_capacity_pairs() {
    for rate in [1, 2, 3, 7] {
        for capacity in [0, 1, 2, 5] {
            let document = with_rule(&json!({ "limits": { "*": { "limit": rate, "window": "1s", "burst": capacity } } }));
            assert_eq!(DomainConfig::read(&document).is_ok(), capacity > 0, "{rate} {capacity}");
        }
    }
    let found = mistakes(&with_rule(&json!({ "limits": { "*": { "limit": 0, "window": "1s", "burst": 5 } } })));
    assert_eq!(found, ["/rules/0/limits/*/burst: a limit of 0 blocks everything and has no burst"]);
}

/// BB-52: any rate up to the largest limit per second is accepted, and beyond it nothing.
#[test]
fn bb_52_high_rates_up_to_the_documented_maximum() {
    for limit in [1_000, 1_001, 2_000, 999_999, 1_000_001, 4_294_967_295, MAX_UNITS] {
        for window in ["1s", "60s", "366d"] {
            DomainConfig::read(&with_rule(&json!({ "limits": { "*": { "limit": limit, "window": window, "burst": 20 } } }))).unwrap();
        }
    }
    let found = mistakes(&with_rule(&json!({ "limits": { "*": { "limit": MAX_UNITS + 1, "window": "1s" } } })));
    assert_eq!(found, ["/rules/0/limits/*/limit: must be a whole number from 0 to 9007199254740991, not 9007199254740992"]);
}

#[test]
fn bb_52_a_burst_that_would_never_refill_is_refused_with_the_largest_allowed() {
    let burst = |burst: u64| with_rule(&json!({ "limits": { "*": { "limit": 1, "window": "1d", "burst": burst } } }));
    DomainConfig::read(&burst(3_660)).unwrap();
    assert_eq!(
        mistakes(&burst(3_661)),
        ["/rules/0/limits/*/burst: must be at most 3660: a larger burst takes longer than 3660d to refill at 1 per 1d"]
    );
}
