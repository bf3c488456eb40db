//! BB-43: every batch is stored exactly once, whatever breaks.

use tonic::Code;
use weir_proto::v1;
use weir_proto::v1::Outcome;
use weir_testbed::{Mode, Proxy, await_until};

use super::bed::{Bed, PATIENCE};
use super::events::{aggregate, batch, now, subject};
use super::wire::{Sync, Upload, channel, hello};

const REQUESTS: &str = "SELECT coalesce(sum(requests), 0)::bigint FROM traffic_10s";

#[tokio::test]
async fn bb_43_a_batch_that_is_sent_again_is_stored_once() {
    let bed = Bed::new().await;
    let mut upload = Upload::open(bed.control_plane.grpc_addr(), &bed.agent_token).await.unwrap();
    for sequence in 1..=3 {
        let ack = upload.store(batch("gw-1", sequence)).await.unwrap();
        assert_eq!((ack.sequence, ack.stored), (sequence, true));
    }
    let mut again = Upload::open(bed.control_plane.grpc_addr(), &bed.agent_token).await.unwrap();
    for sequence in 1..=3 {
        let ack = again.store(batch("gw-1", sequence)).await.unwrap();
        assert_eq!((ack.sequence, ack.stored, ack.reason.as_str()), (sequence, false, ""));
    }
    // Another process of the same agent counts anew.
    assert!(again.store(v1::EventBatch { boot: "boot-2".into(), ..batch("gw-1", 1) }).await.unwrap().stored);
    assert_eq!(bed.number(REQUESTS).await, 4);
    assert_eq!(bed.number("SELECT count(*) FROM denials").await, 4);
    assert_eq!(bed.number("SELECT sum(denied)::bigint FROM subjects_1m").await, 4);
}

#[tokio::test]
async fn bb_43_copies_that_come_at_the_same_time_are_one() {
    let bed = Bed::new().await;
    let address = bed.control_plane.grpc_addr();
    let replica = bed.replica().await;
    let copies = (0..8).map(|i| {
        let (address, token) = (if i % 2 == 0 { address } else { replica.grpc_addr() }, bed.agent_token.clone());
        tokio::spawn(async move {
            let mut upload = Upload::open(address, &token).await.unwrap();
            let mut stored = 0;
            for sequence in 1..=20 {
                stored += u64::from(upload.store(batch("gw-1", sequence)).await.unwrap().stored);
            }
            stored
        })
    });
    let mut stored = 0;
    for copy in copies.collect::<Vec<_>>() {
        stored += copy.await.unwrap();
    }
    assert_eq!(stored, 20, "of 160");
    assert_eq!(bed.number(REQUESTS).await, 20);
    replica.shutdown().await;
}

#[tokio::test]
async fn bb_43_nothing_is_acknowledged_while_the_database_is_away_and_nothing_is_lost() {
    let bed = Bed::new().await;
    let address = bed.control_plane.grpc_addr();
    let mut upload = Upload::open(address, &bed.agent_token).await.unwrap();
    assert!(upload.store(batch("gw-1", 1)).await.unwrap().stored);
    bed.postgres.kill().await;
    let away = upload.store(batch("gw-1", 2)).await.unwrap_err();
    assert_eq!(away.code(), Code::Unavailable);
    // Push goes on meanwhile.
    let mut stream = Sync::open(address, &bed.agent_token, hello("gw-1")).await.unwrap();
    stream.settle().await;
    bed.postgres.restart().await.unwrap();
    let stored = await_until(PATIENCE, async || {
        let mut upload = Upload::open(address, &bed.agent_token).await.unwrap();
        upload.store(batch("gw-1", 2)).await.is_ok()
    });
    assert!(stored.await);
    assert_eq!(bed.number(REQUESTS).await, 2);
}

#[tokio::test]
async fn bb_43_a_database_that_dies_after_the_commit_does_not_double() {
    let bed = Bed::new().await;
    let address = bed.control_plane.grpc_addr();
    // Serial numbers with a kill in their midst: whatever was committed without an ack is recognised when it comes again.
    let mut next = 1;
    for _ in 0..3 {
        let mut upload = Upload::open(address, &bed.agent_token).await.unwrap();
        for sequence in next..next + 10 {
            upload.to_server.send(batch("gw-1", sequence)).await.unwrap();
        }
        upload.ack().await.unwrap();
        bed.postgres.kill().await;
        while let Ok(ack) = upload.ack().await {
            assert!(ack.sequence < next + 10);
        }
        bed.postgres.restart().await.unwrap();
        let resent = await_until(PATIENCE, async || {
            let mut upload = Upload::open(address, &bed.agent_token).await.unwrap();
            for sequence in next..next + 10 {
                if upload.store(batch("gw-1", sequence)).await.is_err() {
                    return false;
                }
            }
            true
        });
        assert!(resent.await);
        next += 10;
    }
    assert_eq!(bed.number(REQUESTS).await, 30);
    assert_eq!(bed.number("SELECT count(*) FROM denials").await, 30);
}

#[tokio::test]
async fn bb_43_a_half_sent_batch_leaves_nothing() {
    let bed = Bed::new().await;
    let proxy = Proxy::start(bed.control_plane.grpc_addr()).await.unwrap();
    let mut upload = Upload::over(channel(proxy.addr()).await, &bed.agent_token).await.unwrap();
    assert!(upload.store(batch("gw-1", 1)).await.unwrap().stored);
    // The network goes silent, a large batch is begun, and then the connection breaks.
    proxy.set_mode(Mode::Blackhole).await;
    let mut large = batch("gw-1", 2);
    large.aggregates = (0..5_000).map(|i| aggregate(now() - 1, &format!("r{i}"), Outcome::Allowed, 1)).collect();
    upload.to_server.send(large.clone()).await.unwrap();
    proxy.cut().await;
    assert!(upload.ack().await.is_err());
    assert_eq!(bed.number(REQUESTS).await, 1);
    proxy.set_mode(Mode::Forward).await;
    let mut upload = Upload::over(channel(proxy.addr()).await, &bed.agent_token).await.unwrap();
    assert!(upload.store(large).await.unwrap().stored);
    assert_eq!(bed.number(REQUESTS).await, 5_001);
}

#[tokio::test]
async fn one_hostile_batch_holds_up_nobody() {
    let bed = Bed::new().await;
    let address = bed.control_plane.grpc_addr();
    let mut upload = Upload::open(address, &bed.agent_token).await.unwrap();
    let mut bad = batch("gw-1", 1);
    bad.aggregates.push(aggregate(now() - 400 * 86_400, "search", Outcome::Denied, 1));
    bad.aggregates.push(aggregate(now() + 86_400, "search", Outcome::Denied, 1));
    bad.aggregates.push(aggregate(now(), "'; DROP TABLE agents; --", Outcome::Denied, 1));
    bad.aggregates.push(v1::Aggregate { units: u64::MAX, ..aggregate(now(), "search", Outcome::Denied, 1) });
    bad.denials[0].path = "/\0\u{1b}[31m".into();
    bad.denials[0].subject = "user:\0".repeat(900);
    bad.subjects.push(subject(now(), &"x".repeat(100_000), 1));
    let ack = upload.store(bad).await.unwrap();
    assert!(ack.stored && ack.reason.contains("5 rows"), "{ack:?}");
    for (broken, word) in [
        (v1::EventBatch { boot: "\0".into(), ..batch("gw-1", 2) }, "boot"),
        (v1::EventBatch { sequence: u64::MAX, ..batch("gw-1", 2) }, "sequence"),
        (v1::EventBatch { denials: vec![v1::Denial::default(); 5_000], ..batch("gw-1", 2) }, "at most"),
    ] {
        let ack = upload.store(broken).await.unwrap();
        assert!(!ack.stored && ack.reason.contains(word), "{ack:?}");
    }
    assert!(upload.store(batch("gw-1", 3)).await.unwrap().stored);
    assert_eq!(bed.number(REQUESTS).await, 2);
    assert_eq!(bed.number("SELECT refused FROM ingest_progress").await, 5);
}

#[tokio::test]
async fn all_levels_hold_the_same_sums_late_rows_too() {
    let bed = Bed::new().await;
    let mut upload = Upload::open(bed.control_plane.grpc_addr(), &bed.agent_token).await.unwrap();
    let now = now();
    for sequence in 1..=20_u64 {
        let mut events = batch("gw-1", sequence);
        let outcome = if sequence % 3 == 0 { Outcome::Denied } else { Outcome::Allowed };
        let age = i64::try_from(sequence).unwrap() * 5_000;
        events.aggregates = (0..50).map(|i| aggregate(now - age - i, &format!("r{}", i % 7), outcome, sequence)).collect();
        assert!(upload.store(events).await.unwrap().stored);
    }
    let sums = |table: &str| {
        let sql = format!(
            "SELECT rule, outcome, sum(requests)::bigint, sum(units)::bigint, min(bucket) / 3600 FROM {table} GROUP BY rule, outcome ORDER BY 1, 2"
        );
        let pool = bed.pool();
        async move { sqlx::query_as::<_, (String, i16, i64, i64, i64)>(sqlx::AssertSqlSafe(sql)).fetch_all(&pool).await.unwrap() }
    };
    let fine = sums("traffic_10s").await;
    assert_eq!(fine.iter().map(|row| row.2).sum::<i64>(), 50 * 210);
    assert_eq!(fine, sums("traffic_1m").await);
    assert_eq!(fine, sums("traffic_1h").await);
}

#[tokio::test]
async fn many_agents_at_once_are_merged() {
    let bed = Bed::new().await;
    let address = bed.control_plane.grpc_addr();
    let second = now() - 20;
    let agents = (0..40).map(|i| {
        let token = bed.agent_token.clone();
        tokio::spawn(async move {
            let mut upload = Upload::open(address, &token).await.unwrap();
            for sequence in 1..=10 {
                let mut events = batch(&format!("gw-{i}"), sequence);
                events.aggregates = vec![aggregate(second, "search", Outcome::Allowed, 1)];
                assert!(upload.store(events).await.unwrap().stored);
            }
        })
    });
    for agent in agents.collect::<Vec<_>>() {
        tokio::time::timeout(4 * PATIENCE, agent).await.unwrap().unwrap();
    }
    assert_eq!(bed.number(REQUESTS).await, 400);
    assert_eq!(bed.number("SELECT count(*) FROM traffic_10s").await, 1);
    assert_eq!(bed.number("SELECT sum(batches)::bigint FROM ingest_progress").await, 400);
}
