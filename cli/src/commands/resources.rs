//! `weir rules`, `weir tiers`, `weir shards`: the same two verbs over three kinds.

use serde_json::Value;

use crate::args::{Connection, Read};
use crate::client::Client;
use crate::output;

/// A kind of resource: where it lives and how its table looks.
#[derive(Debug)]
pub(crate) struct Kind {
    path: &'static str,
    in_domain: bool,
    header: &'static [&'static str],
    row: fn(&Value) -> Vec<String>,
    empty: &'static str,
}

/// Rules of a domain.
pub(crate) const RULES: Kind = Kind {
    path: "/v1/rules",
    in_domain: true,
    header: &["RULE", "MODE", "MATCH", "KEY", "ALGORITHM", "LIMITS", "ON FAILURE"],
    row: rule,
    empty: "no rules yet: write a rules file and run `weir apply -f rules.yaml`",
};

/// Tiers of a domain.
pub(crate) const TIERS: Kind = Kind {
    path: "/v1/tiers",
    in_domain: true,
    header: &["TIER", "DEFAULT", "DESCRIPTION"],
    row: |tier| vec![text(&tier["name"]), if tier["default"] == true { "yes" } else { "" }.to_owned(), text(&tier["description"])],
    empty: "no tiers yet",
};

/// Shards of the ring.
pub(crate) const SHARDS: Kind = Kind {
    path: "/v1/shards",
    in_domain: false,
    header: &["SHARD", "ADDRESS", "WEIGHT", "WARNINGS"],
    row: |shard| vec![text(&shard["name"]), text(&shard["address"]), text(&shard["weight"]), warnings(&shard["warnings"])],
    empty: "no shards yet: agents answer by each rule's failure policy until there is one",
};

/// Lists them, or prints one.
pub(crate) async fn run(client: &Client, connection: &Connection, kind: &Kind, read: Read) -> anyhow::Result<()> {
    let domain = [("domain", connection.domain())];
    let query: &[(&str, &str)] = if kind.in_domain { &domain } else { &[] };
    match read {
        Read::Get { name } => output::json(&client.get(&format!("{}/{}", kind.path, segment(&name)), query).await?),
        Read::List => {
            let items = client.list(kind.path, query).await?;
            if connection.json {
                output::json(&Value::Array(items));
            } else {
                output::table(kind.header, items.iter().map(kind.row).collect(), kind.empty);
            }
        }
    }
    Ok(())
}

/// A name as one segment of a URL's path.
pub(crate) fn segment(name: &str) -> String {
    name.bytes()
        .map(|b| if b.is_ascii_alphanumeric() || b"-_.~:".contains(&b) { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

/// A JSON value as a table cell.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The codes of what agents find amiss; `weir shards get` has the texts.
fn warnings(warnings: &Value) -> String {
    warnings.as_array().map(|all| all.iter().map(|warning| text(&warning["code"])).collect::<Vec<_>>().join(", ")).unwrap_or_default()
}

fn rule(rule: &Value) -> Vec<String> {
    let mode = match &rule["enforce_percent"] {
        Value::Null => text(&rule["mode"]),
        percent => format!("{} {percent} %", text(&rule["mode"])),
    };
    let key = rule["key"].as_array().map(|parts| parts.iter().map(text).collect::<Vec<_>>().join(" x ")).unwrap_or_default();
    let key = if key.is_empty() { "(global)".to_owned() } else { key };
    let algorithm = or(&rule["algorithm"], "(default)");
    let on_failure = or(&rule["on_failure"]["mode"], "(default)");
    vec![text(&rule["name"]), mode, matches(&rule["match"]), key, algorithm, limits(&rule["limits"]), on_failure]
}

fn or(value: &Value, absent: &str) -> String {
    if value.is_null() { absent.to_owned() } else { text(value) }
}

fn matches(matches: &Value) -> String {
    let mut parts = Vec::new();
    for list in ["methods", "hosts"] {
        if let Some(items) = matches[list].as_array() {
            parts.push(items.iter().map(text).collect::<Vec<_>>().join(","));
        }
    }
    if let Some(path) = matches["path"].as_str() {
        parts.push(path.to_owned());
    }
    for (list, word) in [("headers", "header"), ("descriptors", "descriptor")] {
        if let Some(count) = matches[list].as_array().map(Vec::len) {
            parts.push(format!("+{count} {word}{}", if count == 1 { "" } else { "s" }));
        }
    }
    if parts.is_empty() { "(everything)".to_owned() } else { parts.join(" ") }
}

fn limits(limits: &Value) -> String {
    let one = |(tier, limit): (&String, &Value)| {
        if limit["unlimited"] == true {
            return format!("{tier}: unlimited");
        }
        let burst = if limit["burst"].is_null() { String::new() } else { format!(" burst {}", limit["burst"]) };
        format!("{tier}: {}/{}{burst}", limit["limit"], text(&limit["window"]))
    };
    limits.as_object().map(|map| map.iter().map(one).collect::<Vec<_>>().join("\n")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_one_readable_row() {
        let row = rule(&serde_json::json!({
            "name": "search", "mode": "enforce", "match": {"methods": ["GET"], "path": "/api/search"}, "key": ["subject", "route"],
            "algorithm": "sliding_window", "limits": {"*": {"limit": 50, "window": "1m"}},
        }));
        assert_eq!(row, ["search", "enforce", "GET /api/search", "subject x route", "sliding_window", "*: 50/1m", "(default)"]);
    }

    #[test]
    fn a_name_cannot_leave_its_segment() {
        assert_eq!(segment("a/../b?c#d %"), "a%2F..%2Fb%3Fc%23d%20%25");
    }
}
