//! What the documents name exists.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

const DOCUMENTS: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Texts in backquotes that look like a path of this repository.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let folders = ["core/", "proto/", "lua/", "agent/", "control-plane/", "cli/", "migrations/", "web/", "deploy/", "scripts/"];
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(move |quoted| folders.iter().any(|folder| quoted.starts_with(folder)) && !quoted.contains([' ', '*']))
}

#[test]
fn files_that_documents_name_exist() {
    let mut missing = Vec::new();
    for document in DOCUMENTS {
        let text = std::fs::read_to_string(root().join(document)).unwrap();
        let generic = |path: &&str| path.contains("NAME");
        missing.extend(paths(&text).filter(|path| !generic(path) && !root().join(path).exists()).map(|path| format!("{document}: {path}")));
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn make_targets_that_documents_name_exist() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    for document in DOCUMENTS {
        let text = std::fs::read_to_string(root().join(document)).unwrap();
        for command in text.split('`').skip(1).step_by(2).filter_map(|quoted| quoted.strip_prefix("make ")) {
            let target = command.split(' ').next().unwrap();
            assert!(makefile.lines().any(|line| line.starts_with(&format!("{target}:"))), "{document}: make {target}");
        }
    }
}
