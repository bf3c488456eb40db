//! The document form as YAML, in and out.

use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{MergeKeyPolicy, Options};

use crate::mistake::Mistakes;

/// The longest document, in bytes.
pub const MAX_DOCUMENT: usize = 16 * 1024 * 1024;
/// The deepest nesting: a rule's matchers are 6 deep.
const MAX_DEPTH: usize = 16;
/// Room for 10,000 rules with a hundred values each.
const MAX_NODES: usize = 2_000_000;
/// Aliases are for a handful of shared values; together with the cap on replayed events they cannot multiply into a flood.
const MAX_ALIASES: usize = 10_000;
const MAX_REPLAYED: usize = 100_000;

/// Reads YAML (a superset of JSON) into a JSON value. Keys given twice are refused, as are more than one document, deep nesting and alias
/// floods.
///
/// # Errors
/// The syntax error with its line; the document's text is not repeated.
pub fn parse(text: &str) -> Result<Value, Mistakes> {
    let mut mistakes = Mistakes::new();
    if text.len() > MAX_DOCUMENT {
        mistakes.add("", format!("must have at most {MAX_DOCUMENT} bytes, not {}", text.len()));
        return Err(mistakes);
    }
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        let message = error.without_snippet().to_string();
        let detail = match error.location() {
            Some(place) => format!("line {}, column {}: {message}", place.line(), place.column()),
            None => message,
        };
        mistakes.add("", detail);
        mistakes
    })
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 2 * MAX_NODES,
            max_nodes: MAX_NODES,
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_documents: 1,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_recorded_anchor_events: MAX_REPLAYED,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_REPLAYED,
            max_replay_stack_depth: 8,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Merge,
        strict_booleans: true,
    }
}

/// Prints a document.
pub(super) fn print(document: &Value) -> String {
    // A JSON value has string keys and finite numbers only, so there is nothing that YAML cannot hold.
    serde_saphyr::to_string(document).unwrap_or_default()
}
