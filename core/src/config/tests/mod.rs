//! Reading, writing and validation of documents.

mod items;
mod mistakes;
mod numbers;
mod round_trip;
mod yaml;

use serde_json::{Value, json};

use super::DomainConfig;

/// The rules that every new installation starts with.
pub(crate) const SEEDS: &str = r#"
domain: default
tiers:
  - { name: free, default: true }
  - { name: paid }
defaults: { algorithm: token_bucket, on_failure: { mode: local } }
rules:
  - name: per-user
    match: { path: "/**" }
    key: [subject]
    limits:
      free: { limit: 100,  window: 60s, burst: 100 }
      paid: { limit: 1000, window: 60s }
    on_failure: { mode: local, escalate: { after: 5s, to: closed } }
  - name: search
    match: { methods: [GET], path: "/api/search" }
    key: [subject, route]
    algorithm: sliding_window
    limits: { "*": { limit: 50, window: 60s } }
  - name: upload
    match: { methods: [POST], path: "/api/upload" }
    key: [subject, route]
    algorithm: sliding_window
    limits: { "*": { limit: 5, window: 60s } }
"#;

/// A document with one rule, into which `rule` is merged.
fn with_rule(rule: &Value) -> Value {
    let mut whole = json!({ "name": "r", "key": ["subject"], "limits": { "*": { "limit": 1, "window": "1s" } } });
    for (field, value) in rule.as_object().unwrap() {
        whole[field] = value.clone();
    }
    json!({ "tiers": [{ "name": "free", "default": true }], "rules": [whole] })
}

/// The mistakes of a document as `pointer: detail` lines.
fn mistakes(document: &Value) -> Vec<String> {
    let found = DomainConfig::read(document).expect_err("the document has a mistake");
    found.into_iter().map(|mistake| format!("{}: {}", mistake.pointer, mistake.detail)).collect()
}
