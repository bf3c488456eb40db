//! What the documents name exists.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

const DOCUMENTS: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];
const FOLDERS: [&str; 10] = ["core", "proto", "lua", "agent", "control-plane", "cli", "migrations", "web", "deploy", "scripts"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn documents() -> impl Iterator<Item = (&'static str, String)> {
    DOCUMENTS.into_iter().map(|document| (document, std::fs::read_to_string(root().join(document)).unwrap()))
}

/// Texts in backquotes that look like a path of this repository.
fn quoted_paths(text: &str) -> impl Iterator<Item = &str> {
    let of_ours = |quoted: &&str| FOLDERS.iter().any(|folder| quoted.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')));
    text.split('`').skip(1).step_by(2).filter(of_ours).filter(|quoted| !quoted.contains([' ', '\n', '*']))
}

/// Lines within code fences.
fn fenced(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n```").skip(1).step_by(2).flat_map(str::lines)
}

/// The words of a line of shell that look like files of this repository, as paths from its root: `cd web && npx vitest run src/a.test.ts`.
fn files_of_command(line: &str) -> Vec<String> {
    let mut folder = String::new();
    let mut files = Vec::new();
    let mut words = line.split_whitespace().peekable();
    while let Some(word) = words.next() {
        if word == "cd" {
            folder = words.next().map(|folder| format!("{folder}/")).unwrap_or_default();
            continue;
        }
        let word = word.trim_matches(|c: char| "'\"();,".contains(c));
        let (first, rest) = word.split_once('/').unwrap_or_default();
        let is_ours = if folder.is_empty() { FOLDERS.contains(&first) } else { root().join(&folder).join(first).is_dir() };
        if is_ours && !first.is_empty() && rest.contains('.') && !word.contains('*') {
            files.push(format!("{folder}{word}"));
        }
    }
    files
}

#[test]
fn files_that_documents_name_exist() {
    let mut missing = Vec::new();
    for (document, text) in documents() {
        let in_commands: Vec<String> = fenced(&text).flat_map(files_of_command).collect();
        let named = quoted_paths(&text).chain(in_commands.iter().map(String::as_str));
        // A placeholder for a name of the reader's.
        let missed = named.filter(|path| !path.contains("NAME") && !root().join(path).exists());
        missing.extend(missed.map(|path| format!("{document}: {path}")));
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn files_are_found_in_commands() {
    assert_eq!(files_of_command("cd web && npx vitest run src/format.test.ts"), ["web/src/format.test.ts"]);
    assert_eq!(files_of_command("psql -f migrations/0001_gone.sql (see 'lua/driver.lua')"), ["migrations/0001_gone.sql", "lua/driver.lua"]);
    assert!(files_of_command("curl -s http://127.0.0.1:7080/v1/check -H 'content-type: application/json' -o web/dist").is_empty());
}

#[test]
fn make_targets_that_documents_name_exist() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    for (document, text) in documents() {
        let quoted = text.split('`').skip(1).step_by(2);
        for command in quoted.chain(fenced(&text)).filter_map(|command| command.strip_prefix("make ")) {
            let target = command.split_whitespace().next().unwrap();
            assert!(
                target.starts_with('#') || makefile.lines().any(|line| line.starts_with(&format!("{target}:"))),
                "{document}: make {target}"
            );
        }
    }
}

#[test]
fn no_document_has_a_placeholder() {
    for (document, text) in documents() {
        let is_placeholder = |line: &&str| line.len() >= 8 && line.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        assert_eq!(text.lines().find(is_placeholder), None, "{document}");
    }
}

#[test]
fn the_readme_says_how_its_figures_are_made() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for named in ["make bench", "library_vs_evalsha"] {
        assert!(readme.contains(named), "{named}");
    }
}
