//! The examples of README's section on operations, as they stand there.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use tokio::sync::oneshot;
use weir_agent::run::run;
use weir_agent::settings::{AgentSettings, ListenSettings, Permissions, RulesFrom};

const RULES: &str = "/tmp/jobs.yaml";
const SOCKET: &str = "/tmp/weir.sock";
const LEASE: &str = "/tmp/lease.json";

/// A command and what it prints.
struct Example {
    command: String,
    shown: String,
}

/// The blocks of a section between fences, without the fences.
fn blocks<'t>(text: &'t str, section: &str) -> Vec<&'t str> {
    let start = text.find(&format!("\n## {section}\n")).unwrap() + 1;
    let end = text[start + 3..].find("\n## ").map_or(text.len(), |end| start + 3 + end);
    text[start..end].split("\n```").skip(1).step_by(2).map(|block| block.split_once('\n').unwrap().1).collect()
}

fn examples(block: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => examples.push(Example { command: command.to_owned(), shown: String::new() }),
            None => examples.last_mut().unwrap().shown.push_str(line),
        }
    }
    examples
}

/// Whether `text` is what is shown, where `...` stands for anything.
fn is_shown(text: &str, shown: &str) -> bool {
    let mut parts: Vec<&str> = shown.split("...").map(str::trim).collect();
    let Some(last) = parts.pop() else { return false };
    let mut rest = text.trim();
    for (i, part) in parts.iter().enumerate() {
        let Some(found) = rest.find(part).filter(|found| i > 0 || *found == 0) else { return false };
        rest = &rest[found + part.len()..];
    }
    if parts.is_empty() { rest == last } else { rest.ends_with(last) }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operations_do_what_the_readme_shows() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    let found = blocks(&readme, "Operations");
    let [rules, shell] = found.as_slice() else { panic!("{} blocks", found.len()) };
    let folder = tempfile::tempdir().unwrap();
    let own = |path: &str| folder.path().join(Path::new(path).file_name().unwrap()).display().to_string();
    std::fs::write(own(RULES), rules).unwrap();
    let mut settings = AgentSettings::new("readme".parse().unwrap(), RulesFrom::File(own(RULES).into()));
    settings.listen = ListenSettings { unix: Some(own(SOCKET).into()), socket_operations: Permissions::all(), ..ListenSettings::default() };
    let ((started, has_started), (stop, stopped)) = (oneshot::channel(), oneshot::channel::<()>());
    let running = tokio::spawn(run(
        settings,
        async {
            let _ = stopped.await;
        },
        |_, _| started.send(()).unwrap(),
    ));
    has_started.await.unwrap();

    let examples = examples(shell);
    assert!(examples.len() > 8);
    // One shell for all: they build on each other.
    let mark = "--- the next one";
    let script: Vec<String> = examples.iter().map(|e| e.command.replace(SOCKET, &own(SOCKET)).replace(LEASE, &own(LEASE))).collect();
    let script = script.join(&format!("\necho '{mark}'\n"));
    let output = tokio::task::spawn_blocking(move || Command::new("bash").arg("-c").arg(script).output().unwrap()).await.unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let printed: Vec<&str> = printed.split(mark).collect();
    assert_eq!(printed.len(), examples.len(), "{}", String::from_utf8_lossy(&output.stderr));
    for (example, printed) in examples.iter().zip(printed) {
        assert!(is_shown(printed, &example.shown), "{}\nprints {printed}\nnot {}", example.command, example.shown);
    }
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
}

#[test]
fn dots_stand_for_anything() {
    assert!(is_shown("{\"a\":1,\"b\":2}\n", "{\"a\":1, ... }"));
    assert!(is_shown("{\"lease\":\"1abc\"}", "{\"lease\":\"1...\"}"));
    assert!(!is_shown("{\"a\":1,\"b\":2}", "{\"b\":2}"));
    assert!(!is_shown("{\"a\":1,\"b\":2}", "{\"a\":1"));
}
