//! The effective limit of a tier, and the cost.

use http::HeaderMap;

use super::{choose, compile, compile_with, headers, request};
use crate::decision::Source;
use crate::limit::{Algorithm, Bound, Limit, Window};
use crate::name::Name;
use crate::request::{Overrides, Request};
use crate::ruleset::{ChoiceError, Chosen, Effective, RuleSet};
use crate::span::Span;

fn only(rules: &RuleSet, tier: Option<&str>) -> Chosen {
    let empty = HeaderMap::new();
    choose(rules, &Request { tier, ..request(&empty) }).unwrap().rules.remove(0)
}

fn bound(chosen: &Chosen) -> Option<Bound> {
    match &chosen.effective {
        Effective::Unlimited => None,
        Effective::Blocked(bound) | Effective::Counted { bound, .. } => Some(*bound),
    }
}

#[test]
fn each_tier_has_its_limit() {
    let rules = compile("  - {name: r, limits: {paid: {limit: 1000, window: 60s, burst: 50}, '*': {limit: 100, window: 60s}}}");
    let star = Bound { algorithm: Algorithm::TokenBucket, limit: 100, capacity: 100, window_us: 60_000_000, calendar: None };
    for tier in [None, Some("free"), Some("gold"), Some(""), Some("PAID")] {
        let chosen = only(&rules, tier);
        assert_eq!((bound(&chosen), chosen.source), (Some(star), Source::AnyTier), "{tier:?}");
    }
    let paid = only(&rules, Some("paid"));
    assert_eq!(bound(&paid), Some(Bound { limit: 1_000, capacity: 50, ..star }));
    assert_eq!(paid.source, Source::Tier(Name::new("paid").unwrap()));
}

#[test]
fn an_unknown_tier_is_the_default_tier_and_flagged() {
    let rules = compile_with(
        "tiers: [{name: paid}, {name: free, default: true}]",
        "  - {name: r, limits: {free: {limit: 1, window: 1s}, paid: {unlimited: true}}}",
    );
    let empty = HeaderMap::new();
    for (tier, position, unknown) in [(None, 1, false), (Some("free"), 1, false), (Some("gold"), 1, true), (Some("paid"), 0, false)] {
        let choice = choose(&rules, &Request { tier, ..request(&empty) }).unwrap();
        assert_eq!((choice.tier, choice.unknown_tier), (position, unknown), "{tier:?}");
    }
    assert_eq!(only(&rules, Some("paid")).effective, Effective::Unlimited);
}

#[test]
fn a_domain_without_tiers_has_one_called_default() {
    let rules = compile_with("", "  - {name: r, key: [tier]}");
    assert_eq!(rules.tiers, ["default"]);
    let empty = HeaderMap::new();
    assert!(choose(&rules, &Request { tier: Some("gold"), ..request(&empty) }).unwrap().unknown_tier);
}

/// BB-45: a limit of 0 blocks.
#[test]
fn bb_45_zero_blocks() {
    let rules = compile("  - {name: r, limits: {'*': {limit: 0, window: 60s}}}");
    assert!(matches!(only(&rules, None).effective, Effective::Blocked(Bound { limit: 0, capacity: 0, .. })));
}

#[test]
fn the_domains_defaults_fill_in_what_rules_leave_out() {
    let rules = compile_with(
        "defaults: {algorithm: fixed_window, on_failure: {mode: closed}}",
        "  - {name: a}\n  - {name: b, algorithm: sliding_window, on_failure: {mode: open}}",
    );
    let shown: Vec<_> =
        rules.rules.iter().map(|rule| (rule.index, rule.algorithm.as_str(), rule.on_failure.mode.as_str(), rule.group.as_str())).collect();
    assert_eq!(shown, [(0, "fixed_window", "closed", "a"), (1, "sliding_window", "open", "b")]);
    assert_eq!(only(&rules, None).effective, {
        let Effective::Counted { key, .. } = only(&rules, None).effective else { panic!() };
        Effective::Counted {
            bound: Bound { algorithm: Algorithm::FixedWindow, limit: 10, capacity: 10, window_us: 1_000_000, calendar: None },
            key,
        }
    });
}

#[test]
fn the_cost_comes_from_the_request_or_the_rules_header() {
    let rules = compile("  - {name: plain}\n  - {name: header, cost_header: X-Cost}");
    let costs = |lines: &[(&str, &str)]| {
        let lines = headers(lines);
        let choice = choose(&rules, &Request { cost: 7, ..request(&lines) })?;
        Ok(choice.rules.iter().map(|chosen| chosen.cost).collect::<Vec<_>>())
    };
    assert_eq!(costs(&[]), Ok(vec![7, 7]));
    assert_eq!(costs(&[("x-cost", "3")]), Ok(vec![7, 3]));
    assert_eq!(costs(&[("x-cost", "9007199254740991")]), Ok(vec![7, 9_007_199_254_740_991]));
    for bad in [
        &["-1"][..],
        &["0"],
        &["00"],
        &["1.5"],
        &[""],
        &["+1"],
        &["1e3"],
        &["x"],
        &["9007199254740992"],
        &["18446744073709551616"],
        &["1", "2"],
    ] {
        let lines: Vec<_> = bad.iter().map(|value| ("x-cost", *value)).collect();
        assert_eq!(costs(&lines), Err(ChoiceError::Cost { header: "x-cost".into() }), "{bad:?}");
    }
}

/// What a client may choose cannot make its request free, and a look takes nothing whatever the header says.
#[test]
fn a_look_stays_a_look() {
    let rules = compile("  - {name: r, cost_header: X-Cost}");
    for line in ["5", "x", "0"] {
        let lines = headers(&[("x-cost", line)]);
        assert_eq!(choose(&rules, &Request { cost: 0, ..request(&lines) }).unwrap().rules[0].cost, 0, "{line}");
    }
}

/// A rule that cannot refuse does not have the request refused by a cost that cannot be read, and says so.
#[test]
fn an_unreadable_cost_is_no_business_of_shadow_rules() {
    let rule = "name: r, cost_header: X-Cost";
    for (head, rules) in [
        ("tiers: []", format!("  - {{{rule}, mode: shadow}}")),
        ("tiers: []", format!("  - {{{rule}, enforce_percent: 0}}")),
        ("mode: shadow", format!("  - {{{rule}}}")),
        ("tiers: []", format!("  - {{{rule}, limits: {{'*': {{unlimited: true}}}}}}")),
        ("tiers: []", format!("  - {{{rule}, limits: {{'*': {{limit: 0, window: 1s}}}}}}")),
    ] {
        let rules = compile_with(head, &rules);
        for bad in [&["abc"][..], &[""], &["1", "2"], &["0"]] {
            let lines = headers(&bad.iter().map(|value| ("x-cost", *value)).collect::<Vec<_>>());
            let chosen = choose(&rules, &Request { cost: 7, ..request(&lines) }).unwrap().rules.remove(0);
            assert_eq!((chosen.cost, chosen.cost_unreadable), (7, true), "{bad:?}");
        }
        let lines = headers(&[("x-cost", "3")]);
        let chosen = choose(&rules, &Request { cost: 7, ..request(&lines) }).unwrap().rules.remove(0);
        assert_eq!((chosen.cost, chosen.cost_unreadable), (3, false));
    }
}

/// A limit that comes with the request takes the place of its tier's, on the same counter.
#[test]
fn a_request_may_bring_its_own_limits() {
    let rules = compile("  - {name: r}\n  - {name: w, algorithm: sliding_window}");
    let empty = HeaderMap::new();
    let own = |limit: Limit| Overrides::from([(Name::new("r").unwrap(), limit), (Name::new("elsewhere").unwrap(), limit)]);
    let limited = |limit, burst| Limit::Limited { limit, window: Window::Span(Span::from_secs(60)), burst };
    let ruled = choose(&rules, &request(&empty)).unwrap().rules;
    let with = |limits: &Overrides| choose(&rules, &Request { limits: Some(limits), ..request(&empty) }).map(|choice| choice.rules);
    let chosen = with(&own(limited(3, Some(9)))).unwrap();
    let expected = Bound { algorithm: Algorithm::TokenBucket, limit: 3, capacity: 9, window_us: 60_000_000, calendar: None };
    assert_eq!((bound(&chosen[0]), &chosen[0].source), (Some(expected), &Source::Override));
    assert_eq!(chosen[1], ruled[1], "the limit of a rule that is not named stays");
    let key = |chosen: &Chosen| match chosen.effective {
        Effective::Counted { key, .. } => key,
        _ => panic!("{chosen:?}"),
    };
    assert_eq!(key(&chosen[0]), key(&ruled[0]));
    assert_eq!(with(&own(Limit::Unlimited)).unwrap()[0].effective, Effective::Unlimited);
    assert!(matches!(with(&own(limited(0, None))).unwrap()[0].effective, Effective::Blocked(_)));
    let wrong = Overrides::from([(Name::new("w").unwrap(), limited(3, Some(9)))]);
    let error = with(&wrong).unwrap_err().to_string();
    assert_eq!(error, "limits/w/burst: only token_bucket has a burst, not sliding_window");
}

/// A request in flight is one, whatever it costs elsewhere; a look is none.
#[test]
fn a_request_in_flight_is_one() {
    let rules = compile("  - {name: c, algorithm: concurrency, limits: {'*': {limit: 2, window: 30s}}}\n  - {name: r}");
    let empty = HeaderMap::new();
    for (cost, in_flight) in [(0, 0), (1, 1), (7, 1)] {
        let chosen = choose(&rules, &Request { cost, ..request(&empty) }).unwrap().rules;
        assert_eq!((chosen[0].cost, chosen[1].cost), (in_flight, cost));
    }
}
