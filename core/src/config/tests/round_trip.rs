//! What is written reads back as it was, whatever it is.

use std::collections::BTreeMap;

use proptest::collection::{hash_map, hash_set, vec};
use proptest::option::of;
use proptest::prelude::*;

use crate::calendar::{Calendar, CalendarUnit, Zone};
use crate::config::DomainConfig;
use crate::domain::{Defaults, Domain, DomainMode};
use crate::failure::{Escalation, FailureMode, FailurePolicy};
use crate::limit::{Algorithm, Limit, MAX_LOGGED, MAX_UNITS, Window};
use crate::name::Name;
use crate::rule::{DescriptorMatch, HeaderMatch, KeyPart, Match, Rule, RuleMode, ValueMatch};
use crate::span::Span;
use crate::tier::Tier;

fn name() -> impl Strategy<Value = Name> {
    // "." and ".." are no names.
    "[A-Za-z0-9_.:-]{1,12}|true|null|1|1e3|-".prop_filter_map("no name", |text| Name::new(&text).ok())
}

/// Texts that YAML could take for something else.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ -~\u{a0}-\u{2ff}\n\t]{0,40}", "[ \n]{0,4}", "([a-z]{1,9} ){12,40}", Just("~".to_owned()), Just("0x1F".to_owned())]
}

fn value() -> impl Strategy<Value = String> {
    "[ -~\u{a1}-\u{ff}]{1,20}"
}

fn failure() -> impl Strategy<Value = FailurePolicy> {
    let modes = [FailureMode::Local, FailureMode::Open, FailureMode::Closed];
    (0..3_usize, 100..=10_000_u32, of((1..90_000_u64, 1..3_usize))).prop_map(move |(mode, thousandths, escalate)| FailurePolicy {
        mode: modes[mode],
        generosity: f64::from(thousandths) / 1_000.0,
        escalate: escalate.map(|(after, step)| Escalation { after: Span::from_millis(after), to: modes[(mode + step) % 3] }),
    })
}

/// An algorithm, and a limit that it can count by.
fn counted() -> impl Strategy<Value = (Algorithm, Limit)> {
    let window = || (1_000..31_622_400_000_u64).prop_map(|ms| Window::Span(Span::from_millis(ms)));
    let calendar = (0..CalendarUnit::ALL.len(), any::<prop::sample::Index>()).prop_map(|(unit, zone)| {
        let names: Vec<&str> = Zone::names().collect();
        Window::Calendar(Calendar { unit: CalendarUnit::ALL[unit], zone: Zone::new(names[zone.index(names.len())]).unwrap() })
    });
    let of = |algorithm: Algorithm, most: u64, window: BoxedStrategy<Window>| {
        (0..=most, window).prop_map(move |(limit, window)| (algorithm, Limit::Limited { limit, window, burst: None }))
    };
    let (window, calendar) = (window().boxed(), calendar.boxed());
    let bucket = Algorithm::TokenBucket;
    prop_oneof![
        (0..Algorithm::ALL.len()).prop_map(|i| (Algorithm::ALL[i], Limit::Unlimited)),
        of(bucket, MAX_UNITS, window.clone()),
        (1..=MAX_UNITS, 1..=366_u64).prop_map(move |(limit, days)| {
            let window = Window::Span(Span::from_secs(days * 86_400));
            (bucket, Limit::Limited { limit, window, burst: Some(limit) })
        }),
        of(Algorithm::SlidingWindow, MAX_UNITS, window.clone()),
        of(Algorithm::SlidingLog, MAX_LOGGED, window.clone()),
        of(Algorithm::Concurrency, MAX_LOGGED, window.clone()),
        of(Algorithm::FixedWindow, MAX_UNITS, window),
        of(Algorithm::FixedWindow, MAX_UNITS, calendar),
    ]
}

fn header() -> impl Strategy<Value = HeaderMatch> {
    let value = prop_oneof![
        Just(ValueMatch::Present(true)),
        value().prop_map(ValueMatch::Exact),
        value().prop_map(ValueMatch::Prefix),
        "[a-z]{1,4}(\\[0-9\\]\\+)?".prop_map(ValueMatch::Regex),
    ];
    ("[a-z][a-z0-9-]{0,8}", value).prop_map(|(name, value)| HeaderMatch { name, value })
}

fn matches() -> impl Strategy<Value = Match> {
    let distinct = |pattern: &'static str| hash_set(pattern, 0..4).prop_map(|set| set.into_iter().collect::<Vec<_>>());
    let descriptors = hash_map("[!-~]{1,8}", of(value()), 0..3)
        .prop_map(|map| map.into_iter().map(|(key, value)| DescriptorMatch { key, value }).collect());
    let headers = hash_map(header().prop_map(|h| h.name.clone()), header(), 0..3)
        .prop_map(|map| map.into_iter().map(|(name, header)| HeaderMatch { name, ..header }).collect());
    let path = of("(/[a-z]{1,4}|/\\*){0,3}/\\{id\\}(/\\*\\*)?|/");
    (distinct("[A-Z]{1,6}"), distinct("(\\*\\.)?[a-z]{1,5}\\.com"), path, headers, descriptors)
        .prop_map(|(methods, hosts, path, headers, descriptors)| Match { methods, hosts, path, headers, descriptors })
}

fn key() -> impl Strategy<Value = Vec<KeyPart>> {
    let part = prop_oneof![
        Just(KeyPart::Subject),
        Just(KeyPart::Ip),
        Just(KeyPart::Method),
        Just(KeyPart::Tier),
        "[a-z][a-z-]{0,6}".prop_map(KeyPart::Header),
        "[!-~]{1,6}".prop_map(KeyPart::Descriptor),
    ];
    hash_set(part, 0..5).prop_map(|set| set.into_iter().collect())
}

prop_compose! {
    fn rule()(
        name in name(), description in text(), group in of(name()), priority in any::<i32>(), matches in matches(), key in key(),
        (algorithm, limit) in counted(), on_failure in of(failure()), mode in 0..3_usize, enforce_percent in of(0..=100_u8),
        cost_header in of("[a-z][a-z-]{0,6}"),
    ) -> Rule {
        let mode = [RuleMode::Enforce, RuleMode::Shadow, RuleMode::Off][mode];
        let (algorithm, limits) = (Some(algorithm), BTreeMap::from([(None, limit)]));
        let cost_header = cost_header.filter(|_| algorithm != Some(Algorithm::Concurrency));
        Rule { name, description, group, priority, matches, key, algorithm, limits, on_failure, mode, enforce_percent, cost_header }
    }
}

prop_compose! {
    fn config()(
        name in name(), description in text(), mode in 0..3_usize, algorithm in of(0..Algorithm::ALL.len()), on_failure in of(failure()), group in of(name()),
        tiers in hash_map(name(), text(), 0..4), rules in vec(rule(), 0..4),
    ) -> DomainConfig {
        let mode = [DomainMode::Enforce, DomainMode::Shadow, DomainMode::Off][mode];
        let defaults = Defaults { algorithm: algorithm.map(|i| Algorithm::ALL[i]), on_failure, group };
        let tiers: Vec<Tier> = tiers.into_iter().enumerate().map(|(i, (name, description))| Tier { name, description, default: i == 0 }).collect();
        let mut rules: BTreeMap<Name, Rule> = rules.into_iter().map(|rule| (rule.name.clone(), rule)).collect();
        for rule in rules.values_mut() {
            let limit = rule.limits[&None];
            rule.limits.extend(tiers.iter().take(2).map(|tier| (Some(tier.name.clone()), limit)));
        }
        DomainConfig { domain: Domain { name, description, mode, defaults }, tiers, rules: rules.into_values().collect() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn written_documents_read_back(config in config()) {
        prop_assert!(config.validate().is_empty(), "{}", config.validate());
        let read = DomainConfig::read(&config.to_document());
        prop_assert_eq!(read.as_ref(), Ok(&config));
        let yaml = config.to_yaml();
        let read = DomainConfig::from_yaml(&yaml);
        prop_assert_eq!(read.as_ref(), Ok(&config), "{}", yaml);
        let (read, left_out) = DomainConfig::from_items(&config.items()).unwrap();
        prop_assert!(left_out.is_empty());
        prop_assert_eq!(&read, &config);
    }
}
