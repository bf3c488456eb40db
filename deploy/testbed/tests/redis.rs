//! A private Redis or Valkey: each test runs on both.
#![allow(clippy::expect_used, reason = "a test may panic")]

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use weir_testbed::{Flavor, Redis, RedisSettings};

const PATIENCE: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(200);

/// Sends one line and reads one answer.
async fn ask(stream: &mut TcpStream, line: &str) -> std::io::Result<String> {
    stream.write_all(format!("{line}\r\n").as_bytes()).await?;
    let mut answer = [0; 512];
    let length = stream.read(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer[..length]).trim_end().to_owned())
}

async fn connect(redis: &Redis) -> TcpStream {
    TcpStream::connect(redis.addr().expect("listens on TCP")).await.expect("connects")
}

async fn start(settings: RedisSettings) -> Redis {
    Redis::start(settings).await.expect("starts")
}

#[tokio::test]
async fn answers_and_forgets() {
    for flavor in Flavor::ALL {
        let redis = Redis::temporary(flavor).await.expect("starts");
        assert_eq!(redis.url(), format!("redis://{}", redis.addr().expect("listens on TCP")));
        assert_eq!(ask(&mut connect(&redis).await, "SET a 1").await.expect("answers"), "+OK");
        redis.restart().await.expect("starts again");
        assert_eq!(ask(&mut connect(&redis).await, "GET a").await.expect("answers"), "$-1", "{flavor:?} saves nothing");
        let place = redis.folder().to_owned();
        drop(redis);
        assert!(!place.exists());
    }
}

#[tokio::test]
async fn a_lasting_server_keeps_its_data() {
    for flavor in Flavor::ALL {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("redis");
        assert_eq!(Flavor::for_data(&data).expect("either"), Flavor::available().expect("either"));
        let settings = RedisSettings { flavor, data: Some(data.clone()), ..RedisSettings::default() };
        let redis = start(settings.clone()).await;
        assert_eq!(Flavor::for_data(&data).expect("the one that made it"), flavor);
        assert_eq!(ask(&mut connect(&redis).await, "SET a 1").await.expect("answers"), "+OK");
        let place = redis.folder().to_owned();
        drop(redis);
        let redis = start(settings).await;
        assert_eq!(ask(&mut connect(&redis).await, "GET a").await.expect("answers"), "$1\r\n1", "{flavor:?}");
        drop(redis);
        std::fs::remove_dir_all(place).expect("removable");
    }
}

#[tokio::test]
async fn a_password_is_asked_for() {
    for flavor in Flavor::ALL {
        let redis = start(RedisSettings { flavor, password: Some("s3cret".into()), ..RedisSettings::default() }).await;
        assert!(redis.url().starts_with("redis://:s3cret@127.0.0.1:"));
        let mut stream = connect(&redis).await;
        assert!(ask(&mut stream, "GET a").await.expect("answers").starts_with("-NOAUTH"));
        assert_eq!(ask(&mut stream, "AUTH s3cret").await.expect("answers"), "+OK");
    }
}

#[tokio::test]
async fn a_socket_instead_of_a_port() {
    for flavor in Flavor::ALL {
        let redis = start(RedisSettings { flavor, unix: true, ..RedisSettings::default() }).await;
        let path = redis.url().strip_prefix("unix://").expect("a path").to_owned();
        let mut stream = UnixStream::connect(&path).await.expect("connects");
        stream.write_all(b"PING\r\n").await.expect("written");
        let mut answer = [0; 7];
        stream.read_exact(&mut answer).await.expect("answers");
        assert_eq!(&answer, b"+PONG\r\n");
        assert_eq!(redis.addr().expect_err("no TCP").to_string(), "Redis listens on a Unix socket only");
    }
}

#[tokio::test]
async fn pause_kill_restart_stop() {
    for flavor in Flavor::ALL {
        let redis = Redis::temporary(flavor).await.expect("starts");
        let addr = redis.addr().expect("listens on TCP");
        let mut stream = connect(&redis).await;
        redis.pause().await;
        assert!(tokio::time::timeout(SHORT, ask(&mut stream, "PING")).await.is_err(), "{flavor:?} is frozen");
        redis.resume().await;
        let mut late = [0; 7];
        tokio::time::timeout(PATIENCE, stream.read_exact(&mut late)).await.expect("answers in time").expect("on the same connection");
        redis.kill().await;
        assert!(TcpStream::connect(addr).await.is_err(), "nobody listens");
        redis.restart().await.expect("starts again");
        assert_eq!(ask(&mut connect(&redis).await, "PING").await.expect("the same address"), "+PONG");
        redis.stop().await;
        assert!(TcpStream::connect(addr).await.is_err(), "nobody listens");
    }
}

#[tokio::test]
async fn a_start_that_fails_says_why() {
    for flavor in Flavor::ALL {
        let extra = vec![("no-such-directive".to_owned(), "1".to_owned())];
        let error =
            Redis::start(RedisSettings { flavor, extra, ..RedisSettings::default() }).await.expect_err("a wrong directive").to_string();
        assert!(error.contains("Bad directive or wrong number of arguments"), "{error}");
    }
}

#[tokio::test]
async fn a_taken_port_is_an_error_on_restart() {
    let redis = Redis::temporary(Flavor::Redis).await.expect("starts");
    redis.stop().await;
    let _thief = tokio::net::TcpListener::bind(redis.addr().expect("listens on TCP")).await.expect("free now");
    let error = redis.restart().await.expect_err("taken").to_string();
    assert!(error.contains("Address already in use"), "{error}");
}
