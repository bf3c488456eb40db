//! YAML: syntax errors, repeated keys, floods.

use super::SEEDS;
use crate::config::{DomainConfig, MAX_DOCUMENT};

fn error(text: &str) -> String {
    DomainConfig::from_yaml(text).expect_err("the text has a mistake").to_string()
}

#[test]
fn the_seeds_read() {
    let config = DomainConfig::from_yaml(SEEDS).unwrap();
    assert_eq!((config.domain.name.as_str(), config.tiers.len(), config.rules.len()), ("default", 2, 3));
    assert!(config.validate().is_empty());
}

/// A calendar without a zone is that of UTC, and is written with it.
#[test]
fn calendar_windows_read_and_write() {
    let text = "rules: [{ name: quota, key: [], algorithm: fixed_window, limits: { '*': { limit: 9, calendar: week } } }]";
    let config = DomainConfig::from_yaml(text).unwrap();
    let yaml = config.to_yaml();
    assert!(yaml.contains("calendar: week") && yaml.contains("time_zone: UTC"), "{yaml}");
    assert_eq!(DomainConfig::from_yaml(&yaml).unwrap(), config);
}

#[test]
fn syntax_errors_and_repeated_keys_are_reported_with_their_line() {
    for (text, line) in [
        ("domain: a\nrules: [\n", "line 2"),
        ("domain: a\ntiers: []\ndomain: b\n", "line 3"),
        ("a: b: c\n", "line 1"),
        ("domain: a\n---\ndomain: b\n", "line "),
    ] {
        assert!(error(text).contains(line), "{text:?}: {}", error(text));
    }
    assert!(error("rules:\n  - name: a\n    name: b\n").contains("line 3"));
}

#[test]
fn json_is_yaml() {
    assert_eq!(DomainConfig::from_yaml(r#"{"domain": "a", "tiers": [], "rules": []}"#).unwrap().domain.name, "a");
}

#[test]
fn types_are_not_guessed_from_names() {
    let config = DomainConfig::from_yaml("tiers: [{name: 'no', default: true}, {name: on}]").unwrap();
    assert_eq!(config.tiers[0].name, "no");
    assert!(error("tiers: [{name: 1, default: true}]").contains("/tiers/0/name: must be a string, not a number"));
    assert!(error("tiers: [{name: a, default: yes}]").contains("/tiers/0/default: must be true or false, not a string"));
}

#[test]
fn an_empty_document_is_refused() {
    for text in ["", "# nothing\n", "[]", "7"] {
        error(text);
    }
}

#[test]
fn floods_are_refused() {
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let parts = vec![format!("*a{}", i - 1); 9].join(", ");
        laughs.push_str(&format!("a{i}: &a{i} [{parts}]\n"));
    }
    error(&laughs);
    error(&format!("domain: {}", "[".repeat(100_000)));
    error(&format!("domain: {}{}", "[".repeat(20), "]".repeat(20)));
    assert!(error(&"#".repeat(MAX_DOCUMENT + 1)).contains("bytes"));
}

#[test]
fn ten_thousand_rules_are_not_a_flood() {
    let mut text = String::from("tiers: [{name: free, default: true}]\nrules:\n");
    for i in 0..10_000 {
        text.push_str(&format!(
            "  - {{name: r{i}, match: {{methods: [GET, POST], path: '/a/{i}', hosts: [a, b, c]}}, key: [subject, route], limits: {{free: {{limit: 1, window: 1s}}, '*': {{limit: 1, window: 1s}}}}}}\n"
        ));
    }
    let config = DomainConfig::from_yaml(&text).unwrap();
    assert_eq!(config.rules.len(), 10_000);
    assert_eq!(DomainConfig::from_yaml(&config.to_yaml()).as_ref(), Ok(&config));
}
