//! The proxy's modes, as a client sees them.
#![allow(clippy::expect_used, reason = "a test may panic")]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use weir_testbed::{Flavor, Mode, Proxy, Redis, await_until};

const PATIENCE: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(150);

/// A server that answers each packet with `name` and the packet.
async fn echo(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addr = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut packet = [0; 1024];
                while let Ok(length @ 1..) = stream.read(&mut packet).await {
                    let answer = [name.as_bytes(), &packet[..length]].concat();
                    if stream.write_all(&answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    addr
}

async fn connect(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(proxy.addr()).await.expect("connects")
}

async fn read(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut packet = [0; 1024];
    let length = tokio::time::timeout(PATIENCE, stream.read(&mut packet)).await.expect("in time")?;
    Ok(String::from_utf8_lossy(&packet[..length]).into_owned())
}

async fn ask(stream: &mut TcpStream, question: &str) -> std::io::Result<String> {
    stream.write_all(question.as_bytes()).await?;
    read(stream).await
}

async fn stays_silent(stream: &mut TcpStream) -> bool {
    tokio::time::timeout(SHORT, stream.read(&mut [0; 16])).await.is_err()
}

#[tokio::test]
async fn forwards_and_counts() {
    let proxy = Proxy::start(echo("a").await).await.expect("starts");
    assert_eq!((proxy.open(), proxy.accepted()), (0, 0));
    let (mut one, mut two) = (connect(&proxy).await, connect(&proxy).await);
    assert_eq!(ask(&mut one, "1").await.expect("answers"), "a1");
    assert_eq!(ask(&mut two, "2").await.expect("answers"), "a2");
    assert_eq!((proxy.open(), proxy.accepted()), (2, 2));
    one.shutdown().await.expect("half closed");
    assert_eq!(read(&mut one).await.expect("closed in order"), "");
    assert!(await_until(PATIENCE, async || proxy.open() == 1).await);
}

#[tokio::test]
async fn retargets_new_connections() {
    let proxy = Proxy::start(echo("a").await).await.expect("starts");
    let mut old = connect(&proxy).await;
    assert_eq!(ask(&mut old, "1").await.expect("answers"), "a1");
    proxy.retarget(echo("b").await);
    assert_eq!(ask(&mut connect(&proxy).await, "2").await.expect("answers"), "b2");
    assert_eq!(ask(&mut old, "3").await.expect("answers"), "a3");
    proxy.cut().await;
    assert_eq!(ask(&mut old, "4").await.expect_err("cut").kind(), ErrorKind::ConnectionReset);
    assert_eq!(ask(&mut connect(&proxy).await, "5").await.expect("answers"), "b5");
}

#[tokio::test]
async fn refuses_and_comes_back() {
    let proxy = Proxy::start(echo("a").await).await.expect("starts");
    let mut stream = connect(&proxy).await;
    assert_eq!(ask(&mut stream, "1").await.expect("answers"), "a1");
    proxy.set_mode(Mode::Refuse).await;
    assert_eq!(read(&mut stream).await.expect_err("reset").kind(), ErrorKind::ConnectionReset);
    assert_eq!(TcpStream::connect(proxy.addr()).await.expect_err("closed").kind(), ErrorKind::ConnectionRefused);
    assert_eq!(proxy.open(), 0);
    proxy.set_mode(Mode::Forward).await;
    assert_eq!(ask(&mut connect(&proxy).await, "2").await.expect("the same port"), "a2");
}

#[tokio::test]
async fn a_black_hole_holds_everything_back() {
    let proxy = Proxy::start(echo("a").await).await.expect("starts");
    let mut old = connect(&proxy).await;
    assert_eq!(ask(&mut old, "1").await.expect("answers"), "a1");
    proxy.set_mode(Mode::Blackhole).await;
    let mut new = connect(&proxy).await;
    old.write_all(b"2").await.expect("written");
    new.write_all(b"3").await.expect("written");
    assert!(stays_silent(&mut old).await && stays_silent(&mut new).await);
    proxy.set_mode(Mode::Forward).await;
    assert_eq!(read(&mut old).await.expect("arrives after all"), "a2");
    assert_eq!(read(&mut new).await.expect("arrives after all"), "a3");
}

#[tokio::test]
async fn accepts_and_says_nothing() {
    let proxy = Proxy::start(echo("a").await).await.expect("starts");
    proxy.set_mode(Mode::AcceptSilent).await;
    let mut stream = connect(&proxy).await;
    stream.write_all(b"1").await.expect("written");
    assert!(stays_silent(&mut stream).await);
    proxy.set_mode(Mode::Forward).await;
    assert_eq!(read(&mut stream).await.expect_err("reset, as its request was thrown away").kind(), ErrorKind::ConnectionReset);
    assert_eq!(ask(&mut connect(&proxy).await, "2").await.expect("answers"), "a2");
}

#[tokio::test]
async fn delays_replies_without_queueing() {
    const DELAY: Duration = Duration::from_millis(200);
    let proxy = Proxy::start(echo("a").await).await.expect("starts");
    let mut stream = connect(&proxy).await;
    assert_eq!(ask(&mut stream, "0").await.expect("answers"), "a0");
    proxy.set_mode(Mode::Delay(DELAY)).await;
    let start = Instant::now();
    let mut asked = Vec::new();
    for question in ["1", "2", "3"] {
        asked.push(start.elapsed());
        stream.write_all(question.as_bytes()).await.expect("written");
        assert!(await_until(PATIENCE, async || start.elapsed() > asked[asked.len() - 1] + DELAY / 10).await);
    }
    let mut replies = String::new();
    while !replies.contains('3') {
        replies += &read(&mut stream).await.expect("answers");
        assert!(start.elapsed() >= DELAY, "the first reply is late");
    }
    assert_eq!(replies.replace('a', ""), "123");
    assert!(start.elapsed() < asked[2] + DELAY * 3, "the delays overlap");
}

#[tokio::test]
async fn resets_in_the_middle_of_a_reply() {
    let redis = Redis::temporary(Flavor::Redis).await.expect("starts");
    let proxy = Proxy::start(redis.addr().expect("listens on TCP")).await.expect("starts");
    proxy.set_mode(Mode::ResetMidReply).await;
    let mut stream = connect(&proxy).await;
    assert_eq!(ask(&mut stream, "INCR n\r\n").await.expect("the first half"), ":1");
    assert_eq!(read(&mut stream).await.expect_err("reset").kind(), ErrorKind::ConnectionReset);
    proxy.set_mode(Mode::Forward).await;
    assert_eq!(ask(&mut connect(&proxy).await, "GET n\r\n").await.expect("answers"), "$1\r\n1\r\n", "the server had carried it out");
}

#[tokio::test]
async fn a_dead_target_resets() {
    let redis = Redis::temporary(Flavor::Redis).await.expect("starts");
    let proxy = Proxy::start(redis.addr().expect("listens on TCP")).await.expect("starts");
    redis.stop().await;
    assert_eq!(read(&mut connect(&proxy).await).await.expect_err("reset").kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn ends_with_its_handle() {
    let proxy = Proxy::start(echo("a").await).await.expect("starts");
    let (addr, mut stream) = (proxy.addr(), connect(&proxy).await);
    assert_eq!(ask(&mut stream, "1").await.expect("answers"), "a1");
    drop(proxy);
    assert_eq!(read(&mut stream).await.expect_err("reset").kind(), ErrorKind::ConnectionReset);
    assert!(await_until(PATIENCE, async || TcpStream::connect(addr).await.is_err()).await, "nobody listens");
}
