//! The program itself: its commands, and how it ends.

use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use weir_testbed::Postgres;

use super::client::Client;

fn weir(database: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-control-plane"));
    command.env_clear().env("WEIR_DATABASE_URL", database).env("WEIR_HTTP_LISTEN", "127.0.0.1:0").env("WEIR_GRPC_LISTEN", "127.0.0.1:0");
    command.args(arguments).kill_on_drop(true).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

async fn output(database: &str, arguments: &[&str]) -> (bool, String, String) {
    let output = weir(database, arguments).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap().trim().to_owned();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn the_first_token_comes_from_the_command_line_and_the_process_ends_in_order() {
    let postgres = Postgres::temporary().await.unwrap();
    let database = postgres.create_database("weir").await.unwrap();
    let (fine, token, _) = output(&database, &["token", "create", "--name", "first"]).await;
    assert!(fine && token.starts_with("weir_") && token.lines().count() == 1, "{token}");
    let (fine, _, errors) = output(&database, &["token", "create", "--name", "first"]).await;
    assert!(!fine && errors.contains("first"), "{errors}");
    let (fine, _, errors) = output(&database, &["token", "create", "--name", "a", "--kind", "agent", "--role", "admin"]).await;
    assert!(!fine && errors.contains("role"), "{errors}");
    let (fine, link, _) = output(&database, &["sign-in-link", "--public-url", "https://weir.example"]).await;
    assert!(fine && link.starts_with("https://weir.example/sign-in#code="), "{link}");

    let mut process = weir(&database, &[]).spawn().unwrap();
    let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
    let address = async {
        loop {
            let line = log.next_line().await.unwrap().expect("it says where it listens");
            if let Some((_, rest)) = line.split_once("http=") {
                break rest.split_whitespace().next().unwrap().to_owned();
            }
        }
    };
    let address = tokio::time::timeout(Duration::from_secs(30), address).await.unwrap();
    let admin = Client::new(address.parse().unwrap()).with_token(&token);
    admin.get("/v1/rules").await.expect(200);
    let begun = Instant::now();
    let id = process.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().await.unwrap().success());
    assert!(process.wait().await.unwrap().success());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn wrong_settings_are_all_named_and_secrets_are_not() {
    let mut command = weir("mysql://user:hunter2@db/weir", &["--http-listen", "0.0.0.0:7070"]);
    let output = command.env("WEIR_PUBLIC_URL", "weir.example").output().await.unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    for name in ["database_url", "http_listen", "public_url"] {
        assert!(errors.contains(name), "{errors}");
    }
    assert!(!errors.contains("hunter2"), "{errors}");
    let nowhere = weir("postgres://user:hunter2@127.0.0.1:1/weir", &[]).output().await.unwrap();
    let errors = String::from_utf8(nowhere.stderr).unwrap();
    assert!(!nowhere.status.success() && errors.contains("database") && !errors.contains("hunter2"), "{errors}");
}
