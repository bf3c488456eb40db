//! Each kind of trouble that a shard can have, under load: for five seconds, and for a minute in the long runs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use weir_agent::limiter::LimiterSettings;
use weir_agent::limiter::resolver::Resolver;
use weir_agent::limiter::tls::TlsFiles;
use weir_testbed::{Authority, Flavor, Mode, Proxy, Redis, Sentineled, TlsProxy, await_until};

use super::bed::{Bed, Effect, Run};
use super::refusing;
use crate::support::*;

const SHORT: Run = Run::of(Duration::from_secs(5));
const LONG: Run = Run::of(Duration::from_secs(60));

/// One kind of trouble as a test of five seconds (`fault_`) and one of a minute (`soak_`). A run in which the machine itself stood still is
/// repeated once, and then counts.
macro_rules! trouble {
    ($(#[$doc:meta])* $name:ident, $scenario:path) => {
        $(#[$doc])*
        mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn fault_five_seconds() {
                let _ = $scenario(super::SHORT).await || $scenario(super::SHORT.again()).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            #[ignore = "a long run: make soak"]
            async fn soak_a_minute() {
                let _ = $scenario(super::LONG).await || $scenario(super::LONG.again()).await;
            }
        }
    };
}

trouble!(/// BB-11 (a): nobody listens.
    bb_11_port_closed, super::port_closed);
trouble!(/// BB-11 (b): the process is stopped (SIGSTOP).
    bb_11_stopped, super::stopped);
trouble!(/// BB-11 (c): a peer that holds the socket and forwards nothing.
    bb_11_nothing_forwarded, super::nothing_forwarded);
trouble!(/// BB-11 (d): connections are accepted and never answered.
    bb_11_never_answered, super::never_answered);
trouble!(/// Answers come around the end of the budget.
    slow_answers, super::slow_answers);
trouble!(/// Connections are reset in the middle of a reply.
    reset_in_a_reply, super::reset_in_a_reply);
trouble!(/// BB-17: the script is flushed again and again.
    bb_17_script_flushed, super::script_flushed);
trouble!(/// BB-15: the primary becomes a replica behind open connections, and the address leads to another primary later.
    bb_15_read_only, super::read_only);
trouble!(/// BB-15: a server that loads its data.
    bb_15_loading, super::loading);
trouble!(/// BB-15: a server whose cluster is down.
    bb_15_cluster_down, super::cluster_down);
trouble!(/// BB-15: a server without memory to spare.
    bb_15_out_of_memory, super::out_of_memory);
trouble!(/// The password is another one.
    wrong_password, super::wrong_password);
trouble!(/// The server's certificate has expired.
    expired_certificate, super::expired_certificate);
trouble!(/// The server is gone, and its name leads to another one later.
    name_leads_elsewhere, super::name_leads_elsewhere);
trouble!(/// BB-15: the primary dies, and the sentinels promote its replica.
    bb_15_sentinel_failover, super::sentinel_failover);

async fn port_closed(run: Run) -> bool {
    let bed = Bed::new().await;
    bed.proxy.set_mode(Mode::Refuse).await;
    bed.servers[0].kill().await;
    let valid = bed.endures(run, Effect::Away).await;
    bed.servers[0].restart().await.expect("starts again");
    bed.proxy.set_mode(Mode::Forward).await;
    bed.recovers().await;
    valid
}

async fn stopped(run: Run) -> bool {
    let bed = Bed::new().await;
    bed.servers[0].pause().await;
    let valid = bed.endures(run, Effect::Away).await;
    bed.servers[0].resume().await;
    bed.recovers().await;
    valid
}

async fn proxied(run: Run, mode: Mode, effect: Effect) -> bool {
    let bed = Bed::new().await;
    bed.proxy.set_mode(mode).await;
    if mode == Mode::AcceptSilent {
        bed.proxy.cut().await;
    }
    let valid = bed.endures(run, effect).await;
    bed.proxy.set_mode(Mode::Forward).await;
    bed.recovers().await;
    valid
}

async fn nothing_forwarded(run: Run) -> bool {
    proxied(run, Mode::Blackhole, Effect::Away).await
}

async fn never_answered(run: Run) -> bool {
    proxied(run, Mode::AcceptSilent, Effect::Away).await
}

async fn slow_answers(run: Run) -> bool {
    proxied(run, Mode::Jitter(BUDGET * 2), Effect::Some).await
}

async fn reset_in_a_reply(run: Run) -> bool {
    proxied(run, Mode::ResetMidReply, Effect::Away).await
}

async fn script_flushed(run: Run) -> bool {
    let bed = Bed::new().await;
    let over = AtomicBool::new(false);
    let before = metric(&bed.limiter, "weir_shard_script_reloads_total{shard=\"s0\"}");
    let flushing = async {
        let mut flushes = 0.0;
        while !over.load(Ordering::Relaxed) {
            bed.servers[0].ask(&["SCRIPT", "FLUSH"]).await.expect("flushes");
            flushes += 1.0;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        flushes
    };
    let enduring = async {
        let valid = bed.endures(run, Effect::None).await;
        over.store(true, Ordering::Relaxed);
        valid
    };
    let (flushes, valid) = futures::join!(flushing, enduring);
    assert!(bed.is_normal().await);
    let reloads = metric(&bed.limiter, "weir_shard_script_reloads_total{shard=\"s0\"}") - before;
    assert_eq!(reloads, flushes, "one reload per flush");
    bed.recovers().await;
    valid
}

async fn read_only(run: Run) -> bool {
    let bed = Bed::new().await;
    let promoted = redis().await;
    let address = promoted.addr().expect("TCP");
    bed.servers[0].ask(&["REPLICAOF", "127.0.0.1", &address.port().to_string()]).await.expect("demoted");
    let valid = bed.endures(run, Effect::Away).await;
    bed.proxy.retarget(address);
    bed.recovers().await;
    let keys = promoted.ask(&["DBSIZE"]).await.expect("answers");
    assert_ne!(keys.text(), "0", "counts are taken on the new primary");
    valid
}

async fn refused(run: Run, error: &'static str) -> bool {
    let bed = Bed::new().await;
    bed.proxy.retarget(refusing(error).await);
    bed.proxy.cut().await;
    let valid = bed.endures(run, Effect::Away).await;
    let told = bed.limiter.shards()[0].last_error.clone().expect("told");
    assert!(error.split(' ').next().is_some_and(|code| told.to_uppercase().contains(code)), "{told}");
    bed.proxy.retarget(bed.servers[0].addr().expect("TCP"));
    bed.recovers().await;
    valid
}

async fn loading(run: Run) -> bool {
    refused(run, "LOADING Redis is loading the dataset in memory").await
}

async fn cluster_down(run: Run) -> bool {
    refused(run, "CLUSTERDOWN The cluster is down").await
}

async fn out_of_memory(run: Run) -> bool {
    let bed = Bed::new().await;
    bed.servers[0].ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await.expect("set");
    bed.servers[0].ask(&["CONFIG", "SET", "maxmemory", "1"]).await.expect("set");
    let valid = bed.endures(run, Effect::Away).await;
    bed.servers[0].ask(&["CONFIG", "SET", "maxmemory", "0"]).await.expect("set");
    bed.recovers().await;
    valid
}

async fn wrong_password(run: Run) -> bool {
    let servers_user = async |redis: &Redis, password: &str| {
        redis.ask(&["ACL", "SETUSER", "weir", "reset", "on", &format!(">{password}"), "~*", "+@all"]).await.expect("set");
    };
    let servers = redises(3).await;
    servers_user(&servers[0], "s3cret").await;
    let proxy = Proxy::start(servers[0].addr().expect("TCP")).await.expect("a port");
    let address = format!("redis://weir:s3cret@{}", proxy.addr());
    let bed = Bed::of(LimiterSettings::default(), servers, proxy, address).await;
    servers_user(&bed.servers[0], "another").await;
    bed.proxy.cut().await;
    let valid = bed.endures(run, Effect::Away).await;
    let told = bed.limiter.shards()[0].last_error.clone().expect("told");
    assert!(told.to_lowercase().contains("auth") && !told.contains("s3cret"), "{told}");
    servers_user(&bed.servers[0], "s3cret").await;
    bed.recovers().await;
    valid
}

async fn expired_certificate(run: Run) -> bool {
    let authority = Authority::new().expect("made");
    let folder = tempfile::tempdir().expect("a folder");
    let ca_file: PathBuf = folder.path().join("ca.pem");
    std::fs::write(&ca_file, authority.certificate()).expect("written");
    let servers = redises(3).await;
    let good = authority.issue("127.0.0.1").expect("issued");
    let tls = TlsProxy::start(servers[0].addr().expect("TCP"), &good, None).await.expect("a port");
    let proxy = Proxy::start(tls.addr()).await.expect("a port");
    let address = format!("rediss://{}", proxy.addr());
    let settings = LimiterSettings { tls: TlsFiles { ca_file: Some(ca_file), identity: None }, ..LimiterSettings::default() };
    let bed = Bed::of(settings, servers, proxy, address).await;
    tls.present(&authority.issue_expired("127.0.0.1").expect("issued"), None).expect("presented");
    bed.proxy.cut().await;
    let valid = bed.endures(run, Effect::Away).await;
    let told = bed.limiter.shards()[0].last_error.clone().expect("told");
    assert!(told.contains("expired"), "{told}");
    tls.present(&good, None).expect("presented");
    bed.recovers().await;
    valid
}

/// A name that leads where the test says.
#[derive(Debug)]
pub(super) struct Names(pub(super) Mutex<SocketAddr>);

impl Resolver for Names {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, std::io::Result<Vec<SocketAddr>>> {
        let told = if host == "shard.test" { Ok(*self.0.lock()) } else { format!("{host}:{port}").parse().map_err(std::io::Error::other) };
        async move { Ok(vec![told?]) }.boxed()
    }
}

async fn name_leads_elsewhere(run: Run) -> bool {
    let (servers, second) = (redises(3).await, redis().await);
    let proxy = Proxy::start(servers[0].addr().expect("TCP")).await.expect("a port");
    let names = Arc::new(Names(Mutex::new(proxy.addr())));
    let settings = LimiterSettings { resolver: names.clone(), ..LimiterSettings::default() };
    let bed = Bed::of(settings, servers, proxy, "redis://shard.test:6379".to_owned()).await;
    bed.proxy.set_mode(Mode::Blackhole).await;
    let valid = bed.endures(run, Effect::Away).await;
    *names.0.lock() = second.addr().expect("TCP");
    // The old address is there again, and nobody goes by it. (In a black hole the ends of connections go unheard too.)
    bed.proxy.set_mode(Mode::Forward).await;
    bed.recovers().await;
    // A connection that was under way when the name changed follows it too.
    assert!(await_until(RECOVERY, async || bed.proxy.open() == 0).await, "{:?}", bed.limiter.shards());
    bed.recovers().await;
    assert_ne!(second.ask(&["DBSIZE"]).await.expect("answers").text(), "0");
    valid
}

async fn sentinel_failover(run: Run) -> bool {
    let watched = Sentineled::start(Flavor::available().expect("a server"), 1, Some("s3cret")).await.expect("starts");
    let servers = redises(3).await;
    let proxy = Proxy::start(servers[0].addr().expect("TCP")).await.expect("a port");
    let address = format!("redis+sentinel://{}/{}?sentinel_password=s3cret", watched.addrs().expect("TCP"), watched.name());
    let bed = Bed::of(LimiterSettings::default(), servers, proxy, address).await;
    let before = watched.primary().await.expect("told");
    watched.servers()[0].kill().await;
    // What happens first, the failover or the end, is the sentinels' affair.
    let valid = bed.endures(run, Effect::Some).await;
    assert!(await_until(RECOVERY, async || watched.primary().await.expect("told") != before).await, "the sentinels promote");
    bed.recovers().await;
    assert_ne!(watched.servers()[1].ask(&["DBSIZE"]).await.expect("answers").text(), "0");
    valid
}
