//! The commands against a real control plane, as a shell would call them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::process::Output;

use tokio::process::Command;
use weir_control_plane::auth::Role;
use weir_control_plane::{ControlPlane, NewToken, Settings, TokenKind};
use weir_testbed::Postgres;

struct Plane {
    _postgres: Postgres,
    control_plane: ControlPlane,
    token: String,
    folder: tempfile::TempDir,
}

impl Plane {
    async fn start() -> Self {
        use secrecy::ExposeSecret as _;
        let postgres = Postgres::temporary().await.unwrap();
        let control_plane = ControlPlane::start(Settings::new(postgres.create_database("weir").await.unwrap())).await.unwrap();
        let new = NewToken {
            name: "shell".into(),
            kind: TokenKind::Api,
            role: Some(Role::Admin),
            domains: None,
            expires_at: None,
            created_by: "tests".into(),
        };
        let token = control_plane.create_token(&new).await.unwrap().expose_secret().to_owned();
        Self { _postgres: postgres, control_plane, token, folder: tempfile::tempdir().unwrap() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(args).env("WEIR_URL", format!("http://{}", self.control_plane.http_addr())).env("WEIR_TOKEN", &self.token);
        command.env("NO_COLOR", "1").kill_on_drop(true);
        command
    }

    async fn weir(&self, args: &[&str]) -> Output {
        self.command(args).output().await.unwrap()
    }

    /// Standard output of a command that must succeed.
    async fn ok(&self, args: &[&str]) -> String {
        let output = self.weir(args).await;
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{args:?}: {out}{err}");
        out
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_string_lossy().into_owned()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const SEEDS: &str = include_str!("../src/dev/seeds.yaml");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apply_is_idempotent_prints_a_diff_and_export_gives_it_back() {
    let plane = Plane::start().await;
    let file = plane.file("rules.yaml", SEEDS);
    let out = plane.ok(&["apply", "-f", &file, "--dry-run"]).await;
    assert!(out.contains("+ rule search") && out.contains("dry run"), "{out}");
    assert!(plane.ok(&["rules", "list"]).await.is_empty(), "a dry run stores nothing");
    let out = plane.ok(&["apply", "-f", &file]).await;
    assert!(out.contains("published as revision"), "{out}");
    let out = plane.ok(&["apply", "-f", &file]).await;
    assert!(out.contains("nothing to change"), "{out}");

    let changed = plane.file("changed.yaml", &SEEDS.replace("limit: 50", "limit: 60"));
    let out = plane.ok(&["apply", "-f", &changed]).await;
    assert!(out.contains("~ rule search") && out.contains("limit: 50") && out.contains("limit: 60"), "{out}");
    let exported = plane.ok(&["export"]).await;
    let again = plane.file("exported.yaml", &exported);
    assert!(plane.ok(&["apply", "-f", &again, "--prune"]).await.contains("nothing to change"), "{exported}");

    let table = plane.ok(&["rules", "list"]).await;
    assert!(table.contains("GET /api/search") && table.contains("*: 60/1m"), "{table}");
    let json: serde_json::Value = serde_json::from_str(&plane.ok(&["rules", "list", "--json"]).await).unwrap();
    assert_eq!(json.as_array().map(Vec::len), Some(3));
    let pruned = plane.file("pruned.yaml", &SEEDS[..SEEDS.find("  - name: upload").unwrap()]);
    let out = plane.ok(&["apply", "-f", &pruned, "--prune"]).await;
    assert!(out.contains("- rule upload") && out.contains("1 deleted"), "{out}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_are_all_named_with_their_places() {
    let plane = Plane::start().await;
    let bad = SEEDS.replace("window: 60s }, paid", "window: 60s }").replace("limit: 50", "limit: -1").replace("sliding_window", "sliding");
    let file = plane.file("bad.yaml", &bad);
    let output = plane.weir(&["apply", "-f", &file]).await;
    let err = text(&output.stderr);
    assert!(!output.status.success() && err.contains("/rules/1/limits/*/limit") && err.contains("/rules/2/algorithm"), "{err}");
    let output = plane.weir(&["rules", "get", "nothing"]).await;
    assert!(!output.status.success() && text(&output.stderr).contains("404"), "{}", text(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_made_shown_once_and_revoked() {
    let plane = Plane::start().await;
    let secret = plane.ok(&["tokens", "create", "edge", "--kind", "agent"]).await;
    assert!(secret.starts_with("weir_"), "{secret}");
    let tokens: serde_json::Value = serde_json::from_str(&plane.ok(&["tokens", "list", "--json"]).await).unwrap();
    let edge = tokens.as_array().unwrap().iter().find(|token| token["name"] == "edge").unwrap();
    assert!(!tokens.to_string().contains(secret.trim()));
    plane.ok(&["tokens", "revoke", edge["id"].as_str().unwrap()]).await;
    assert!(!plane.ok(&["tokens", "list"]).await.contains("edge"));
    assert!(plane.ok(&["agents"]).await.is_empty(), "no agent has connected");
    assert!(plane.ok(&["shards", "list"]).await.is_empty(), "no shard yet");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_domain_asked_for_is_the_one_written() {
    let plane = Plane::start().await;
    let file = plane.file("rules.yaml", "rules:\n  - { name: extra, key: [subject], limits: { \"*\": { limit: 1, window: 1s } } }\n");
    let out = plane.ok(&["--domain", "staging", "apply", "-f", &file]).await;
    assert!(out.contains("domain staging: 2 created"), "{out}");
    assert!(plane.ok(&["rules", "list"]).await.is_empty(), "nothing was written into `default`");
    let named = plane.file("named.yaml", "domain: other\nrules: []\n");
    let output = plane.weir(&["--domain", "staging", "apply", "-f", &named]).await;
    let err = text(&output.stderr);
    assert!(!output.status.success() && err.contains("other") && err.contains("staging"), "{err}");
    let output = plane.weir(&["tokens", "create", "edge", "--kind", "agent", "--role", "admin"]).await;
    assert!(!output.status.success() && text(&output.stderr).contains("/role"), "{}", text(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_closes_the_pipe_has_read_enough() {
    let plane = Plane::start().await;
    plane.ok(&["apply", "-f", &plane.file("rules.yaml", SEEDS)]).await;
    for args in [&["export"][..], &["rules", "list"], &["rules", "list", "--json"]] {
        let mut command = plane.command(args);
        let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().await.unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{args:?}: {}", text(&output.stderr));
    }
}
