//! The ways to a shard: sockets, passwords, ACL users.

use std::path::PathBuf;
use std::sync::Arc;

use weir_agent::limiter::breaker::BreakerState;
use weir_agent::limiter::tls::TlsFiles;
use weir_agent::limiter::{Limiter, LimiterSettings};
use weir_core::clock::SystemClock;
use weir_testbed::{Authority, Cluster, Flavor, Redis, RedisSettings, Sentineled, TlsProxy, await_until};

use crate::fault::answering;
use crate::support::*;

/// A limiter whose one shard is at `url`, which may hold credentials.
async fn reach(url: &str) -> Limiter {
    let limiter = Limiter::new(patient(), Arc::new(SystemClock));
    limiter.set_ring(ring([url]));
    limiter.settled().await;
    limiter
}

async fn counts(limiter: &Limiter, user: &str) {
    let question = query(key(user, "r"), 10);
    assert_eq!(decide(limiter, std::slice::from_ref(&question)).await[0].reply.remaining, 9, "{:?}", limiter.shards());
}

async fn start(settings: RedisSettings) -> Redis {
    Redis::start(settings).await.expect("starts")
}

#[tokio::test]
async fn exact_over_a_unix_socket() {
    let flavor = Flavor::available().expect("a server");
    let server = start(RedisSettings { flavor, unix: true, ..RedisSettings::default() }).await;
    counts(&reach(&server.url()).await, "a").await;
}

#[tokio::test]
async fn exact_with_a_password_and_as_an_acl_user() {
    let flavor = Flavor::available().expect("a server");
    let server = start(RedisSettings { flavor, password: Some("s3cret".into()), ..RedisSettings::default() }).await;
    counts(&reach(&server.url()).await, "a").await;
    // What an agent needs, and no more.
    let allowed = ["+evalsha", "+script|load", "+client", "+time", "+@read", "+@write", "-@dangerous", "+info"];
    let user = [&["ACL", "SETUSER", "weir", "on", ">other", "~{*"][..], &allowed[..]].concat();
    command(&server, &user).await;
    for command in [&["FLUSHALL"][..], &["SWAPDB", "0", "1"], &["KEYS", "*"], &["SET", "other", "1"]] {
        let refused = server.ask(&[&["ACL", "DRYRUN", "weir"][..], command].concat()).await.expect("answers");
        assert_ne!(refused.text(), "OK", "{command:?}");
    }
    let url = format!("redis://weir:other@{}", server.addr().expect("TCP"));
    counts(&reach(&url).await, "b").await;
}

#[tokio::test]
async fn fault_a_wrong_password_is_told_without_the_password() {
    let flavor = Flavor::available().expect("a server");
    let server = start(RedisSettings { flavor, password: Some("s3cret".into()), ..RedisSettings::default() }).await;
    let limiter = reach(&format!("redis://:wr0ng@{}", server.addr().expect("TCP"))).await;
    let answer = in_time(&limiter, &query(key("a", "r"), 10)).await;
    assert!(answer.degraded.is_some());
    let status = limiter.shards().remove(0);
    assert_ne!(status.breaker, BreakerState::Closed);
    let error = status.last_error.expect("told");
    assert!(!error.contains("wr0ng") && !format!("{limiter:?}").contains("wr0ng"), "{error}");
}

/// Files of a private authority.
struct Files {
    folder: tempfile::TempDir,
    authority: Authority,
}

impl Files {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), authority: Authority::new().expect("made") }
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).expect("written");
        path
    }

    fn ca(&self) -> Option<PathBuf> {
        Some(self.write("ca.pem", self.authority.certificate()))
    }
}

async fn reach_over_tls(url: &str, tls: TlsFiles) -> Limiter {
    let limiter = Limiter::new(LimiterSettings { tls, ..patient() }, Arc::new(SystemClock));
    limiter.set_ring(ring([url]));
    limiter.settled().await;
    limiter
}

fn told(limiter: &Limiter) -> String {
    limiter.shards().remove(0).last_error.expect("told")
}

/// A shard's certificate is good if the authority of the settings has signed it, for this host; a shard that asks for ours gets it.
#[tokio::test]
async fn exact_over_tls_with_an_own_authority_and_a_client_certificate() {
    let (files, strangers) = (Files::new(), Files::new());
    let server = redis().await;
    let (good, ours) = (files.authority.issue("localhost").expect("issued"), files.authority.issue("agent").expect("issued"));
    let tls = TlsProxy::start(server.addr().expect("TCP"), &good, Some(&files.authority)).await.expect("a port");
    let url = format!("rediss://localhost:{}", tls.addr().port());
    let identity = Some((files.write("cert.pem", &ours.certificate), files.write("key.pem", &ours.key)));
    counts(&reach_over_tls(&url, TlsFiles { ca_file: files.ca(), identity: identity.clone() }).await, "a").await;

    let cases = [
        ("ertificate", TlsFiles { ca_file: files.ca(), identity: None }, url.clone()),
        ("invalid peer certificate", TlsFiles { ca_file: strangers.ca(), identity: identity.clone() }, url.clone()),
        ("not valid for name", TlsFiles { ca_file: files.ca(), identity: identity.clone() }, format!("rediss://{}", tls.addr())),
        ("no-such-file", TlsFiles { ca_file: Some("/no-such-file.pem".into()), identity: None }, url),
    ];
    for (expected, tls, url) in cases {
        let limiter = reach_over_tls(&url, tls).await;
        assert!(told(&limiter).contains(expected), "{expected}: {}", told(&limiter));
    }
}

/// To sentinels, to the primary that they name, and to every node of a cluster: TLS, with our certificate where it is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn exact_over_tls_to_sentinels_and_cluster_nodes() {
    let files = Files::new();
    let (here, ours) = (files.authority.issue("127.0.0.1").expect("issued"), files.authority.issue("agent").expect("issued"));
    let identity = Some((files.write("cert.pem", &ours.certificate), files.write("key.pem", &ours.key)));
    let tls = || TlsFiles { ca_file: files.ca(), identity: identity.clone() };
    let guarded = async |target| TlsProxy::start(target, &here, Some(&files.authority)).await.expect("a port");

    let server = redis().await;
    let primary = guarded(server.addr().expect("TCP")).await;
    let port = primary.addr().port().to_string();
    let sentinel = guarded(answering(format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len())).await).await;
    let url = format!("rediss+sentinel://{}/main", sentinel.addr());
    counts(&reach_over_tls(&url, tls()).await, "a").await;
    let without = reach_over_tls(&url, TlsFiles { ca_file: files.ca(), identity: None }).await;
    assert!(told(&without).contains("sentinel"), "{}", told(&without));

    let cluster = Cluster::start(Flavor::available().expect("a server"), 3).await.expect("starts");
    let mut proxies = Vec::new();
    for node in cluster.nodes() {
        let (plain, proxy) = (node.addr().expect("TCP").port(), guarded(node.addr().expect("TCP")).await);
        node.ask(&["CONFIG", "SET", "cluster-announce-bus-port", &(plain + 10_000).to_string()]).await.expect("set");
        node.ask(&["CONFIG", "SET", "cluster-announce-port", &proxy.addr().port().to_string()]).await.expect("set");
        proxies.push(proxy);
    }
    // The nodes tell each other.
    let announced = async || {
        let slots = cluster.nodes()[0].ask(&["CLUSTER", "NODES"]).await.expect("answers");
        proxies.iter().all(|proxy| slots.text().contains(&format!(":{}@", proxy.addr().port())))
    };
    assert!(await_until(RECOVERY, announced).await);
    let limiter = reach_over_tls(&format!("rediss+cluster://{}", proxies[0].addr()), tls()).await;
    for n in 0..20 {
        counts(&limiter, &format!("user-{n}")).await;
    }
    assert_eq!(limiter.shards()[0].nodes.len(), 3, "{:?}", limiter.shards());
}

/// Sentinels have a login of their own, and say clearly what is wrong.
#[tokio::test]
async fn exact_through_sentinels_with_a_password() {
    for flavor in Flavor::ALL {
        through_sentinels(flavor).await;
    }
}

async fn through_sentinels(flavor: Flavor) {
    let watched = Sentineled::start(flavor, 3, Some("w4tch")).await.expect("starts");
    let addrs = watched.addrs().expect("TCP");
    let dead = weir_testbed::free_port().expect("a port");
    let url = |query: &str, name: &str| format!("redis+sentinel://127.0.0.1:{dead},{addrs}/{name}{query}");
    counts(&reach(&url("?sentinel_password=w4tch", watched.name())).await, "a").await;
    let error = told(&reach(&url("?sentinel_password=wr0ng", watched.name())).await);
    assert!(error.contains("sentinel") && error.to_lowercase().contains("auth") && !error.contains("wr0ng"), "{error}");
    assert!(told(&reach(&url("?sentinel_password=w4tch", "nobody")).await).contains("no primary called nobody"));
}
