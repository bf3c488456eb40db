//! The database goes and comes; schemas of several releases meet.

use std::time::{Duration, Instant};

use sqlx::{Connection as _, PgConnection};
use weir_control_plane::{ControlPlane, Settings};
use weir_testbed::{Postgres, await_until};

use super::bed::{Bed, rule};

#[tokio::test]
async fn without_the_database_everything_says_so_and_nothing_is_half_done() {
    let bed = Bed::with_rules().await;
    bed.anybody().get("/readyz").await.expect(200);
    bed.postgres.stop().await;
    let begun = Instant::now();
    for answer in [bed.admin.get("/v1/rules").await, bed.admin.post("/v1/rules", &rule("x")).await, bed.anybody().get("/readyz").await] {
        assert!(!answer.header("retry-after").is_empty());
        answer.problem(503, "unavailable");
    }
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    bed.anybody().get("/livez").await.expect(200);
    bed.postgres.restart().await.unwrap();
    assert!(await_until(Duration::from_secs(20), async || bed.anybody().get("/readyz").await.status == 200).await, "it comes back");
    assert_eq!(bed.revision().await, 1, "the write that was refused is not there");
    bed.admin.post("/v1/rules", &rule("x")).await.expect(201);
}

#[tokio::test]
async fn replicas_may_start_together_again_and_beside_a_newer_release() {
    let postgres = Postgres::temporary().await.unwrap();
    let url = postgres.create_database("weir").await.unwrap();
    let start = || ControlPlane::start(Settings::new(&url));
    let (a, b, c) = tokio::join!(start(), start(), start());
    for plane in [a, b, c] {
        plane.unwrap().shutdown().await;
    }
    let mut database = PgConnection::connect(&url).await.unwrap();
    let applied: i64 = sqlx::query_scalar("SELECT count(*) FROM _sqlx_migrations WHERE success").fetch_one(&mut database).await.unwrap();
    assert!(applied >= 1);
    // A later release has added its own; this one goes on.
    let newer =
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (9999, 'newer', true, '', 0)";
    sqlx::query(newer).execute(&mut database).await.unwrap();
    start().await.unwrap().shutdown().await;
    let secrets: i64 =
        sqlx::query_scalar("SELECT count(*) FROM secrets WHERE name = 'hash_secret'").fetch_one(&mut database).await.unwrap();
    assert_eq!(secrets, 1, "one secret, whoever came first");
}

#[tokio::test]
async fn a_migration_that_was_cut_off_is_done_again() {
    let postgres = Postgres::temporary().await.unwrap();
    let url = postgres.create_database("weir").await.unwrap();
    // What a killed process leaves: the lock goes with its connection, and the open transaction with it.
    let mut dying = PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("BEGIN; CREATE TABLE sets (half int); CREATE TABLE documents (half int)").execute(&mut dying).await.unwrap();
    let id: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut dying).await.unwrap();
    let mut other = PgConnection::connect(&url).await.unwrap();
    sqlx::query("SELECT pg_terminate_backend($1)").bind(id).execute(&mut other).await.unwrap();
    ControlPlane::start(Settings::new(&url)).await.unwrap().shutdown().await;
}

#[tokio::test]
async fn a_taken_address_is_a_clear_error() {
    let bed = Bed::start().await;
    let settings = Settings { http_listen: bed.plane.http_addr(), ..Settings::new(&bed.database) };
    let error = ControlPlane::start(settings).await.err().unwrap().to_string();
    assert!(error.contains(&bed.plane.http_addr().to_string()), "{error}");
}
