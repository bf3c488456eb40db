//! A private Redis Cluster, and a primary watched by sentinels.
#![allow(clippy::expect_used, reason = "a test may panic")]

use std::time::Duration;

use weir_testbed::{Cluster, Flavor, Sentineled, await_until, slot_of};

const PATIENCE: Duration = Duration::from_secs(15);

#[tokio::test]
async fn slots_move_with_their_keys() {
    for flavor in Flavor::ALL {
        let mut cluster = Cluster::start(flavor, 3).await.expect("starts");
        let slot = slot_of(b"foo");
        assert_eq!(slot, 12_182, "as the documentation of Redis has it");
        let owner = cluster.owner(slot).await.expect("somebody's");
        cluster.nodes()[owner].ask(&["SET", "foo", "1"]).await.expect("stored");
        cluster.add_node().await.expect("joins");
        cluster.begin_move(slot, 3).await.expect("begins");
        let ask = cluster.nodes()[owner].ask(&["GET", "{foo}b"]).await.expect_err("not there").to_string();
        assert!(ask.contains(&format!("ASK {slot} ")), "{ask}");
        cluster.finish_move(slot, 3).await.expect("ends");
        assert_eq!(cluster.owner(slot).await.expect("somebody's"), 3);
        assert_eq!(cluster.nodes()[3].ask(&["GET", "foo"]).await.expect("there").text(), "1");
        let moved = cluster.nodes()[owner].ask(&["GET", "foo"]).await.expect_err("gone").to_string();
        assert!(moved.contains(&format!("MOVED {slot} ")), "{moved}");
    }
}

#[tokio::test]
async fn the_replica_takes_over() {
    for flavor in Flavor::ALL {
        let watched = Sentineled::start(flavor, 1, Some("s3cret")).await.expect("starts");
        let addrs = watched.servers().each_ref().map(|server| server.addr().expect("TCP"));
        assert_eq!(watched.primary().await.expect("told"), Some(addrs[0]));
        watched.fail_over().await.expect("fails over");
        assert_eq!(watched.primary().await.expect("told"), Some(addrs[1]));
        let is_replica = async || watched.servers()[0].ask(&["ROLE"]).await.is_ok_and(|role| role.list()[0].text() == "slave");
        assert!(await_until(PATIENCE, is_replica).await, "the old primary is demoted");
        let follows =
            async || watched.servers()[0].ask(&["INFO", "replication"]).await.is_ok_and(|info| info.text().contains("link_status:up"));
        assert!(await_until(PATIENCE, follows).await, "and follows the new one");
        watched.servers()[1].kill().await;
        assert!(
            await_until(PATIENCE, async || watched.primary().await.is_ok_and(|now| now == Some(addrs[0]))).await,
            "and takes its place"
        );
    }
}
