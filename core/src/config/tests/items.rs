//! Domains as items and back.

use super::SEEDS;
use crate::config::DomainConfig;
use crate::item::{Item, SetHash};

fn seeds() -> (DomainConfig, Vec<Item>) {
    let config = DomainConfig::from_yaml(SEEDS).unwrap();
    let items = config.items();
    (config, items)
}

#[test]
fn items_read_back_as_they_were() {
    let (config, items) = seeds();
    let names: Vec<_> = items.iter().map(|item| format!("{} {} {}", item.kind, item.name, item.requires.join(","))).collect();
    assert_eq!(
        names,
        [
            "domain default ",
            "tier free ",
            "tier paid ",
            "rule per-user algorithm:token_bucket",
            "rule search algorithm:sliding_window",
            "rule upload algorithm:sliding_window"
        ]
    );
    let (read, left_out) = DomainConfig::from_items(&items).unwrap();
    assert_eq!((&read, left_out.len()), (&config, 0));
    assert_eq!(SetHash::of(&read.items()), SetHash::of(&items));
}

/// An agent that knows no calendars reports the rule instead of counting by whatever it makes of it.
#[test]
fn rules_name_what_a_reader_must_know() {
    let document = "rules: [{ name: quota, key: [], algorithm: fixed_window, limits: { '*': { limit: 1, calendar: month } } }]";
    let items = DomainConfig::from_yaml(document).unwrap().items();
    assert_eq!(items[1].requires, ["algorithm:fixed_window", "calendar"]);
    assert_eq!(DomainConfig::from_items(&items).unwrap().1, [""; 0]);
}

/// BB-55: a time zone that only a newer database has costs the rules that name it.
#[test]
fn bb_55_an_unknown_time_zone_costs_only_its_rule() {
    let limit = |zone: &str| format!("{{ limit: 1, calendar: day, time_zone: {zone} }}");
    let (first, last) = (limit("Europe/Zurich"), limit("Asia/Tokyo"));
    let rule = |name: &str, tiers: &str| format!("{{ name: {name}, key: [subject], algorithm: fixed_window, limits: {tiers} }}");
    let tiers = format!("{{ '*': {first}, free: {last}, paid: {first} }}");
    let document = format!(
        "tiers: [{{ name: free, default: true }}, {{ name: paid }}]\nrules: [{}, {}]",
        rule("a", &tiers),
        rule("b", &format!("{{ '*': {first} }}"))
    );
    let mut items = DomainConfig::from_yaml(&document).unwrap().items();
    let a = items.iter_mut().find(|item| item.name == "a").unwrap();
    assert_eq!(a.requires, ["algorithm:fixed_window", "calendar", "time_zone:Asia/Tokyo", "time_zone:Europe/Zurich"]);
    a.requires[2] = "time_zone:Mars/Olympus_Mons".to_owned();
    a.body = String::from_utf8(std::mem::take(&mut a.body)).unwrap().replace("Asia/Tokyo", "Mars/Olympus_Mons").into_bytes();
    let (config, left_out) = DomainConfig::from_items(&items).unwrap();
    assert_eq!(config.rules.iter().map(|rule| rule.name.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(left_out, ["rule a: needs time_zone:Mars/Olympus_Mons, which this build does not have"]);
}

/// BB-55: what this build does not know costs that item, not the set, and is reported.
#[test]
fn bb_55_unknown_kinds_and_features_cost_only_their_item() {
    let (_, mut items) = seeds();
    items[4].requires.push("algorithm:leaky_bucket".to_owned());
    items[4].body = b"{\"whatever\":1}".to_vec();
    items.push(Item { kind: "override".into(), name: "o".into(), body: b"?".to_vec(), requires: vec![] });
    let (config, left_out) = DomainConfig::from_items(&items).unwrap();
    assert_eq!(config.rules.iter().map(|rule| rule.name.as_str()).collect::<Vec<_>>(), ["per-user", "upload"]);
    assert_eq!(
        left_out,
        ["rule search: needs algorithm:leaky_bucket, which this build does not have", "override o: items of this kind are unknown here"]
    );
}

#[test]
fn broken_sets_are_refused_with_the_item() {
    type Break = fn(&mut Vec<Item>);
    let table: [(Break, &str); 7] = [
        (|items| items[3].body = b"{".to_vec(), "/rule/per-user: is not JSON"),
        (|items| items[3].name = "other".into(), "/rule/other/name: differs from the item's name"),
        (|items| items[3].body = br#"{"name":"per-user"}"#.to_vec(), "/rule/per-user/key: is missing"),
        (|items| items.push(items[5].clone()), "/rule/upload: is in the set twice"),
        (|items| drop(items.remove(0)), "/domain: the set has no domain"),
        (|items| drop(items.remove(2)), "/rule/per-user/limits/paid: there is no such tier"),
        (
            |items| items.push(Item { kind: "domain".into(), name: "b".into(), body: br#"{"name":"b"}"#.to_vec(), requires: vec![] }),
            "/domain/b: the set already has the domain default",
        ),
    ];
    for (breaks, expected) in table {
        let (_, mut items) = seeds();
        breaks(&mut items);
        let found = DomainConfig::from_items(&items).unwrap_err().to_string();
        assert!(found.contains(expected), "{expected}: {found}");
    }
}
