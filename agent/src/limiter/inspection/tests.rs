use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use weir_testbed::{Cluster, Flavor};

use super::super::about::tests::nowhere;
use super::super::address::Host;
use super::super::connection::{Dialer, Target};
use super::super::settings::LimiterSettings;
use super::*;

#[test]
fn versions_before_6_2_are_old() {
    let old = |info: &str| old_version(&Info(info.to_owned())).map(str::to_owned);
    assert_eq!(old("# Server\r\nredis_version:5.0.14\r\n"), Some("5.0.14".to_owned()));
    assert_eq!(old("redis_version:6.0.16\r\n"), Some("6.0.16".to_owned()));
    assert_eq!(old("redis_version:6.2.0\r\n"), None);
    assert_eq!(old("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n"), None);
    assert_eq!((old("redis_version:devel\r\n"), old("")), (None, None));
}

/// A new connection to a node that does not have the mark (any more) does not make a foreign shard ours.
#[tokio::test]
async fn a_first_look_that_is_redirected_takes_nothing_back() {
    let servers = Cluster::start(Flavor::available().unwrap(), 3).await.unwrap();
    let about = Arc::new(nowhere(&format!("redis+cluster://{}", servers.addrs().unwrap())));
    about.facts.set_fingerprint("bbbb".to_owned());
    let (mut ours, mut elsewhere) = (0, 0);
    for server in servers.nodes() {
        let address = server.addr().unwrap();
        let host = Host { name: address.ip().to_string(), port: address.port() };
        let dialer = Dialer::new(&about.config, &LimiterSettings::default());
        let link = dialer.dial(&Target::Server(host.clone())).await.unwrap();
        let line = Line::new(about.clone(), Some(host.clone()), Arc::new(Notify::new()), CancellationToken::new());
        about.set_warnings(Some(&host), vec![ShardWarning { code: Code::ForeignHashSecret, text: "aaaa's".to_owned() }]);
        Inspector::new(Arc::new(line), link.connection).begin().await;
        // The node that the mark belongs on bears none yet.
        *(if about.is_foreign() { &mut elsewhere } else { &mut ours }) += 1;
        about.forget_line(Some(&host));
    }
    assert_eq!((ours, elsewhere), (1, 2));
}
