//! A private Postgres: reachable, and kept apart from others.
#![allow(clippy::expect_used, reason = "a test may panic")]

use std::time::Duration;

use sqlx::{Connection, PgConnection, Row};
use weir_testbed::{Postgres, PostgresSettings, await_until};

const PATIENCE: Duration = Duration::from_secs(20);

async fn ask(url: &str, question: &'static str) -> Result<i64, sqlx::Error> {
    let mut connection = PgConnection::connect(url).await?;
    let row = sqlx::query(question).fetch_one(&mut connection).await?;
    row.try_get(0)
}

async fn run(url: &str, statement: &'static str) {
    let mut connection = PgConnection::connect(url).await.expect("connects");
    sqlx::query(statement).execute(&mut connection).await.expect(statement);
}

#[tokio::test]
async fn databases_are_separate() {
    let postgres = Postgres::temporary().await.expect("starts");
    let (one, two) = (postgres.create_database("one").await.expect("made"), postgres.create_database("odd \"name").await);
    run(&one, "CREATE TABLE here (n bigint)").await;
    assert_eq!(ask(&one, "SELECT count(*) FROM here").await.expect("answers"), 0);
    two.expect("an odd name is quoted");
    assert!(ask(&postgres.url(), "SELECT count(*) FROM here").await.is_err(), "the table is in one database only");
    let again = postgres.create_database("one").await.expect_err("exists");
    assert!(again.to_string().starts_with("cannot create the database one: "), "{again}");
}

#[tokio::test]
async fn tcp_needs_the_password() {
    let postgres = Postgres::start(PostgresSettings { tcp: true, ..PostgresSettings::default() }).await.expect("starts");
    assert_eq!(ask(&postgres.url(), "SELECT 1::bigint").await.expect("answers"), 1);
    let addr = postgres.addr().expect("listens on TCP");
    let wrong = format!("postgres://postgres:wrong@{addr}/postgres");
    let refused = ask(&wrong, "SELECT 1::bigint").await.expect_err("the password is wrong").to_string();
    assert!(refused.contains("password authentication failed"), "{refused}");
}

#[tokio::test]
async fn a_lasting_server_keeps_its_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = PostgresSettings { data: Some(folder.path().join("pg")), ..PostgresSettings::default() };
    let postgres = Postgres::start(settings.clone()).await.expect("starts");
    run(&postgres.url(), "CREATE TABLE kept AS SELECT 7::bigint AS n").await;
    let busy = Postgres::start(settings.clone()).await.expect_err("two servers on the same data");
    assert!(busy.to_string().ends_with("is in use by another process"), "{busy}");
    let place = postgres.folder().to_owned();
    drop(postgres);
    let postgres = Postgres::start(settings).await.expect("starts again");
    assert_eq!(postgres.folder(), place);
    assert_eq!(ask(&postgres.url(), "SELECT n FROM kept").await.expect("answers"), 7);
    drop(postgres);
    assert!(place.join("data/PG_VERSION").exists(), "the data stays");
    std::fs::remove_dir_all(place).expect("removable");
}

#[tokio::test]
async fn a_temporary_server_leaves_nothing() {
    let postgres = Postgres::temporary().await.expect("starts");
    let (place, process) = (postgres.folder().to_owned(), format!("/proc/{}", postgres.id().await));
    assert!(place.exists() && std::fs::exists(&process).expect("readable"));
    drop(postgres);
    assert!(!place.exists() && !std::fs::exists(&process).expect("readable"));
}

#[tokio::test]
async fn a_killed_server_comes_back_with_its_data() {
    let postgres = Postgres::start(PostgresSettings { tcp: true, ..PostgresSettings::default() }).await.expect("starts");
    run(&postgres.url(), "CREATE TABLE kept AS SELECT 7::bigint AS n; ").await;
    run(&postgres.url(), "CHECKPOINT").await;
    postgres.kill().await;
    assert!(ask(&postgres.url(), "SELECT 1::bigint").await.is_err(), "nobody answers");
    postgres.restart().await.expect("starts again");
    assert_eq!(ask(&postgres.url(), "SELECT n FROM kept").await.expect("the same address"), 7);
    postgres.stop().await;
    assert!(ask(&postgres.url(), "SELECT 1::bigint").await.is_err(), "nobody answers");
}

#[tokio::test]
async fn a_paused_server_keeps_connections_and_answers_nothing() {
    let postgres = Postgres::temporary().await.expect("starts");
    let mut connection = PgConnection::connect(&postgres.url()).await.expect("connects");
    postgres.pause().await;
    let mut question = Box::pin(sqlx::query("SELECT 1").execute(&mut connection));
    let answer = tokio::time::timeout(Duration::from_millis(300), &mut question).await;
    assert!(answer.is_err(), "its processes are all frozen, not only the first one");
    postgres.resume().await;
    tokio::time::timeout(PATIENCE, question).await.expect("answers in time").expect("on the same connection");
}

#[tokio::test]
async fn a_paused_server_can_be_dropped() {
    let postgres = Postgres::temporary().await.expect("starts");
    let _connection = PgConnection::connect(&postgres.url()).await.expect("connects");
    let process = format!("/proc/{}", postgres.id().await);
    postgres.pause().await;
    drop(postgres);
    assert!(await_until(PATIENCE, async || !std::fs::exists(&process).expect("readable")).await, "it is gone");
}

#[tokio::test]
async fn a_start_that_fails_says_why() {
    let extra = vec![("no_such_setting".to_owned(), "1".to_owned())];
    let error = Postgres::start(PostgresSettings { extra, ..PostgresSettings::default() }).await.expect_err("a wrong setting").to_string();
    assert!(error.contains("unrecognized configuration parameter \"no_such_setting\""), "{error}");
}
