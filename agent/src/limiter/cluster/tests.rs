use std::collections::HashSet;

use tokio::sync::oneshot;
use weir_core::key::{CounterKey, HashSecret, Tag, counter_key};
use weir_testbed::Flavor;

use super::super::about::tests::nowhere;
use super::super::address::Reach;
use super::super::store::{Refund, Release};
use super::super::work::{Asker, Work};
use super::fetch::TURN;
use super::*;

fn cluster() -> Arc<Cluster> {
    let about = Arc::new(nowhere("redis+cluster://127.0.0.1:1"));
    Cluster::start(about, Vec::new(), &LimiterSettings::default(), CancellationToken::new())
}

fn host(port: u16) -> Host {
    Host { name: "127.0.0.1".to_owned(), port }
}

fn key() -> CounterKey {
    counter_key(&HashSecret::built_in(), Tag::of_rule(&HashSecret::built_in(), "d", "r", &[]), "r", &[])
}

fn operation() -> (Operation, oneshot::Receiver<Result<Vec<u64>, Cause>>) {
    let (answer, receiver) = oneshot::channel();
    let asker = Asker { counters: 1, deadline: Instant::now() + CALM, answer };
    (Operation::new(Work::Resets(vec![key()]), asker), receiver)
}

fn refunds() -> Refunds {
    let release = Release { key: key(), lease: weir_core::lease::LeaseId::new([1; 16]) };
    Refunds { refunds: vec![Refund::from(release)], moved: false }
}

#[tokio::test]
async fn operations_and_refunds_follow_one_redirection() {
    let (cluster, slot) = (cluster(), slot_of(key().tag()));
    let (operation, mut answer) = operation();
    let to = Redirect::Moved(slot, host(2));
    cluster.redirect_operation(&to, operation);
    cluster.redirect_refunds(&cluster.home, &to, refunds());
    let line = cluster.line(slot);
    assert_eq!(line.node, Some(host(2)), "the owner is noted");
    let (operation, refunds) = (line.queue.take_operation(Instant::now(), true).unwrap(), line.queue.take_refunds(true));
    assert!(operation.moved && refunds.moved && answer.try_recv().is_err());
    let back = Redirect::Moved(slot, host(1));
    cluster.redirect_operation(&back, operation);
    cluster.redirect_refunds(&line, &back, refunds);
    assert_eq!((answer.try_recv(), cluster.about.metrics.lost_refunds.get()), (Ok(Err(Cause::Error)), 1));
    cluster.stop.cancel();
}

#[tokio::test]
async fn what_waited_for_a_map_goes_where_it_says() {
    let (cluster, slot) = (cluster(), slot_of(key().tag()));
    let (operation, _answer) = operation();
    cluster.line(slot).take_over_operation(operation);
    cluster.line(slot).refund(refunds());
    cluster.take(&[(0, SLOTS - 1, host(2))]);
    let queue = &cluster.line(slot).queue;
    assert!(queue.take_operation(Instant::now(), true).is_some() && queue.take_refunds(true).refunds.len() == 1);
    cluster.stop.cancel();
}

/// A dead primary whose slots another has taken over says nothing about the shard.
#[tokio::test]
async fn a_line_in_trouble_goes_with_its_slots() {
    let cluster = cluster();
    cluster.take(&[(0, SLOTS - 1, host(2))]);
    let dead = cluster.line(0);
    dead.failed(Failure::Connection, Instant::now(), "gone".to_owned());
    assert_eq!(cluster.about.worst(), BreakerState::Open);
    cluster.take(&[(0, SLOTS - 1, host(3))]);
    timeout(CALM, dead.closed()).await.unwrap();
    cluster.line(0).stop.cancel();
    timeout(CALM, cluster.line(0).closed()).await.unwrap();
    assert_eq!(cluster.about.worst(), BreakerState::Closed);
    cluster.stop.cancel();
}

/// No new connection for every question, and not all agents at the same node.
#[tokio::test]
async fn the_map_is_asked_for_over_one_connection_and_of_each_node_in_turn() {
    let servers = weir_testbed::Cluster::start(Flavor::available().unwrap(), 3).await.unwrap();
    let about = Arc::new(nowhere(&format!("redis+cluster://{}", servers.addrs().unwrap())));
    let Reach::Cluster(seeds) = about.config.address.reach.clone() else { panic!("a cluster") };
    let cluster = Cluster::start(about, seeds, &LimiterSettings::default(), CancellationToken::new());
    let (mut asked, mut hosts) = (None, HashSet::new());
    for _ in 0..40 {
        assert!(!cluster.fetch(&mut asked).await.unwrap().is_empty());
        let since = asked.as_ref().unwrap().since;
        cluster.fetch(&mut asked).await.unwrap();
        let last = asked.as_mut().unwrap();
        assert_eq!(last.since, since, "the same connection");
        hosts.insert(last.host.clone());
        last.since = since.checked_sub(TURN).unwrap();
    }
    assert_eq!(hosts.len(), 3);
    cluster.stop.cancel();
}
