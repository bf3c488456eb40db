//! Trouble of a real server rather than of what stands in for it: data that is being loaded.

use std::time::Duration;

use weir_agent::limiter::LimiterSettings;
use weir_testbed::{Flavor, Proxy, Redis, RedisSettings, await_until};

use super::bed::{Bed, Effect, Run};
use crate::support::*;

/// BB-15: a server that loads its data for seconds refuses every command, and the other shards notice nothing.
#[tokio::test(flavor = "multi_thread")]
async fn fault_bb_15_a_server_that_really_loads() {
    let run = Run::of(Duration::from_secs(2));
    let _ = loads(run).await || loads(run.again()).await;
}

async fn loads(run: Run) -> bool {
    let extra = vec![("enable-debug-command".to_owned(), "yes".to_owned())];
    let settings = RedisSettings { flavor: Flavor::available().expect("a server"), extra, ..RedisSettings::default() };
    let mut servers = vec![Redis::start(settings).await.expect("starts")];
    servers.extend(redises(2).await);
    let proxy = Proxy::start(servers[0].addr().expect("TCP")).await.expect("a port");
    let address = servers[0].url_through(proxy.addr());
    let bed = Bed::of(LimiterSettings::default(), servers, proxy, address).await;
    let server = &bed.servers[0];
    let counted = remaining(&bed.limiter, &bed.questions[0]).await;
    // 400 keys of 2 KB, 10 ms each; it looks at its connections after each.
    server.ask(&["EVAL", "for n = 1, 400 do redis.call('SET', 'load-' .. n, string.rep(n, 700)) end", "0"]).await.expect("filled");
    for (name, value) in [("rdbcompression", "no"), ("loading-process-events-interval-bytes", "1024"), ("key-load-delay", "10000")] {
        server.ask(&["CONFIG", "SET", name, value]).await.expect("set");
    }
    let (loaded, valid) = futures::join!(server.ask(&["DEBUG", "RELOAD"]), async {
        let told = async || {
            let degraded = in_time(&bed.limiter, &bed.questions[0]).await.degraded.is_some();
            degraded && bed.limiter.shards()[0].last_error.as_ref().is_some_and(|error| error.to_uppercase().contains("LOADING"))
        };
        assert!(await_until(RECOVERY, told).await, "{:?}", bed.limiter.shards());
        bed.endures(run, Effect::Away).await
    });
    loaded.expect("loaded");
    bed.recovers().await;
    let left = remaining(&bed.limiter, &bed.questions[0]).await;
    assert!(left < counted && left > counted - 10_000, "counts go on: {left} of {counted}");
    valid
}
