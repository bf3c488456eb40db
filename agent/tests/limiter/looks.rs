//! When a connection follows its name.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use weir_agent::limiter::LimiterSettings;
use weir_agent::limiter::resolver::Resolver;
use weir_testbed::await_until;

use crate::support::*;

/// A name that leads to `other` for a moment, from the second time that it is asked for.
#[derive(Debug)]
struct Hiccup {
    usual: SocketAddr,
    other: SocketAddr,
    /// When it was asked for.
    asked: Mutex<Vec<Instant>>,
}

const MOMENT: Duration = Duration::from_millis(250);

impl Resolver for Hiccup {
    fn resolve<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, std::io::Result<Vec<SocketAddr>>> {
        let mut asked = self.asked.lock();
        asked.push(Instant::now());
        let is_other = asked.get(1).is_some_and(|second| second.elapsed() < MOMENT);
        let address = if is_other { self.other } else { self.usual };
        async move { Ok(vec![address]) }.boxed()
    }
}

/// One answer that is taken back moves nobody, though there is a server where it leads.
#[tokio::test(flavor = "multi_thread")]
async fn fault_one_look_is_not_believed() {
    let (server, other) = (redis().await, redis().await);
    let (usual, elsewhere) = (server.addr().expect("TCP"), other.addr().expect("TCP"));
    let names = Arc::new(Hiccup { usual, other: elsewhere, asked: Mutex::default() });
    let settings = LimiterSettings { resolver: names.clone(), ..LimiterSettings::default() };
    let limiter = limiter_with(settings, ["redis://shard.test:6379"]).await;
    let question = query(key("user:a", "r"), 1_000_000);
    // The connection; two looks, of which only the first leads elsewhere; and another when that is over.
    let looked = async || {
        assert_eq!(in_time(&limiter, &question).await.degraded, None, "{:?}", limiter.shards());
        names.asked.lock().len() >= 4
    };
    assert!(await_until(RECOVERY * 2, looked).await);
    let asked = names.asked.lock().clone();
    assert!(asked[1] - asked[0] >= Duration::from_secs(1), "a connection is not doubted at once");
    assert_eq!(metric(&limiter, "weir_shard_connections_total{shard=\"s0\"}"), 1.0);
    assert_eq!(other.ask(&["DBSIZE"]).await.expect("answers").text(), "0");
}
