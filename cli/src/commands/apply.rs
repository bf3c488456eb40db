//! `weir apply`: from a rules file to a domain, all or nothing, with a diff.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use reqwest::Method;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use weir_core::config;

use crate::args::{Apply, Connection};
use crate::client::Client;
use crate::output;

/// Reads, validates, sends, and prints what changed.
pub(crate) async fn run(client: &Client, connection: &Connection, apply: &Apply) -> anyhow::Result<()> {
    let text = read(&apply.file)?;
    let document = match config::parse_yaml(&text) {
        Ok(document) => in_domain(document, connection.domain.as_deref())?,
        Err(mistakes) => bail!("{} cannot be read:\n{}", apply.file.display(), indent(&mistakes.to_string())),
    };
    let flag = |on: bool| if on { "true" } else { "false" };
    let query = [("validate_only", flag(apply.dry_run)), ("prune", flag(apply.prune))];
    let answer = client.call(Method::POST, "/v1/apply", &query, Some(&document)).await?;
    if connection.json {
        output::json(&answer);
        return Ok(());
    }
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        output::note(format_args!("warning: {}: {}", text_of(&warning["pointer"]), text_of(&warning["detail"])));
    }
    let changes = answer["changes"].as_array().map(Vec::as_slice).unwrap_or_default();
    for change in changes {
        for line in describe(change) {
            output::diff_line(&line);
        }
    }
    let count = |action: &str| changes.iter().filter(|c| c["action"] == action).count();
    let (create, update, delete) = (count("create"), count("update"), count("delete"));
    let revision = &answer["revision"];
    let domain = text_of(&answer["domain"]);
    output::line(match (changes.is_empty(), apply.dry_run) {
        (true, _) => format!("domain {domain}: nothing to change (revision {revision})"),
        (false, true) => {
            format!("domain {domain}: {create} to create, {update} to update, {delete} to delete (dry run: nothing was changed)")
        }
        (false, false) => {
            format!("domain {domain}: {create} created, {update} updated, {delete} deleted; published as revision {revision}")
        }
    });
    Ok(())
}

/// The document, which goes as it is written: what it does not mention is not touched. Where it names no domain, the one that was asked for.
fn in_domain(mut document: Value, asked: Option<&str>) -> anyhow::Result<Value> {
    let Some(asked) = asked else { return Ok(document) };
    // What is no object is for the control plane to refuse.
    let Some(fields) = document.as_object_mut() else { return Ok(document) };
    match fields.get("domain") {
        None => drop(fields.insert("domain".to_owned(), asked.into())),
        Some(named) if named == asked => {}
        Some(named) => bail!("the file is for the domain {}, and --domain (or WEIR_DOMAIN) says {asked}", text_of(named)),
    }
    Ok(document)
}

fn read(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A change as diff lines: a heading, then the lines that differ with one line around them.
fn describe(change: &Value) -> Vec<String> {
    let sign = match change["action"].as_str() {
        Some("create") => '+',
        Some("delete") => '-',
        _ => '~',
    };
    let mut lines = vec![format!("{sign} {} {}", text_of(&change["kind"]), text_of(&change["name"]))];
    let (before, after) = (yaml(&change["before"]), yaml(&change["after"]));
    let diff = TextDiff::from_lines(&before, &after);
    for group in diff.grouped_ops(1) {
        for op in group {
            for line in diff.iter_changes(&op) {
                let sign = match line.tag() {
                    ChangeTag::Equal => ' ',
                    ChangeTag::Insert => '+',
                    ChangeTag::Delete => '-',
                };
                lines.push(format!("{sign}   {}", line.value().trim_end()));
            }
        }
    }
    lines
}

fn yaml(value: &Value) -> String {
    if value.is_null() {
        return String::new();
    }
    serde_saphyr::to_string(value).unwrap_or_else(|_| format!("{value:#}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_domain_comes_from_the_file_or_else_from_the_command_line() {
        let named = json!({ "domain": "staging", "rules": [] });
        assert_eq!(in_domain(named.clone(), None).unwrap(), named);
        assert_eq!(in_domain(named.clone(), Some("staging")).unwrap(), named);
        let conflict = in_domain(named, Some("default")).unwrap_err().to_string();
        assert!(conflict.contains("staging") && conflict.contains("default"), "{conflict}");
        assert_eq!(in_domain(json!({ "rules": [] }), Some("staging")).unwrap()["domain"], "staging");
        assert_eq!(in_domain(json!({ "rules": [] }), None).unwrap(), json!({ "rules": [] }));
    }

    #[test]
    fn a_change_reads_as_a_small_diff() {
        let change = serde_json::json!({
            "action": "update", "kind": "rule", "name": "search",
            "before": {"name": "search", "limit": 50, "window": "1m"}, "after": {"name": "search", "limit": 60, "window": "1m"},
        });
        assert_eq!(describe(&change), ["~ rule search", "    name: search", "-   limit: 50", "+   limit: 60", "    window: 1m"]);
    }
}
