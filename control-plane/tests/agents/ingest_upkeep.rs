//! Partitions are there before they are needed and go when their time is over; lists stay short.

use weir_control_plane::ingest::{partitions, upkeep};
use weir_proto::v1;
use weir_proto::v1::Outcome;
use weir_testbed::await_until;

use super::bed::{Bed, PATIENCE};
use super::events::{aggregate, batch, now};
use super::wire::Upload;

const DAY: i64 = 86_400;

async fn partitions_of(bed: &Bed, table: &'static str) -> Vec<i64> {
    let sql = "SELECT replace(c.relname, $1 || '_', '')::bigint FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid \
               WHERE inhparent = $1::regclass ORDER BY 1";
    sqlx::query_scalar(sql).bind(table).fetch_all(&bed.pool()).await.unwrap()
}

#[tokio::test]
async fn partitions_are_made_ahead_and_dropped_in_time() {
    let bed = Bed::new().await;
    let today = now() - now() % DAY;
    assert_eq!(partitions_of(&bed, "traffic_10s").await, (-2..=3).map(|day| today + day * DAY).collect::<Vec<_>>());
    let mut upload = Upload::open(bed.control_plane.grpc_addr(), &bed.agent_token).await.unwrap();
    assert!(upload.store(batch("gw-1", 1)).await.unwrap().stored);

    // A week later: the fine level is gone, the coarser ones and the samples are not.
    assert!(partitions::maintain(&bed.pool(), now() + 7 * DAY).await.unwrap());
    assert_eq!(partitions_of(&bed, "traffic_10s").await, (5..=10).map(|day| today + day * DAY).collect::<Vec<_>>());
    assert_eq!(bed.number("SELECT count(*) FROM traffic_10s").await, 0);
    assert_eq!(bed.number("SELECT sum(requests)::bigint FROM traffic_1m").await, 1);
    assert_eq!(bed.number("SELECT count(*) FROM denials").await, 1);
    // Two months later only the hours are left, and a second run changes nothing.
    for _ in 0..2 {
        assert!(partitions::maintain(&bed.pool(), now() + 60 * DAY).await.unwrap());
        assert_eq!(bed.number("SELECT count(*) FROM traffic_1m").await, 0);
        assert_eq!(bed.number("SELECT sum(requests)::bigint FROM traffic_1h").await, 1);
        assert_eq!(bed.number("SELECT count(*) FROM denials").await, 0);
    }
}

#[tokio::test]
async fn a_missing_partition_is_made_when_an_event_needs_it() {
    let bed = Bed::new().await;
    for start in partitions_of(&bed, "traffic_1m").await {
        sqlx::query(sqlx::AssertSqlSafe(format!("DROP TABLE traffic_1m_{start}"))).execute(&bed.pool()).await.unwrap();
    }
    let mut upload = Upload::open(bed.control_plane.grpc_addr(), &bed.agent_token).await.unwrap();
    assert!(upload.store(batch("gw-1", 1)).await.unwrap().stored);
    assert_eq!(bed.number("SELECT sum(requests)::bigint FROM traffic_1m").await, 1);
    assert_eq!(bed.number("SELECT sum(requests)::bigint FROM traffic_10s").await, 1);
}

#[tokio::test]
async fn a_flood_of_invented_subjects_stays_bounded_and_the_heaviest_stay() {
    let bed = Bed::new().await;
    let minute = now() - now() % 60;
    for (table, bucket) in [("subjects_1m", minute), ("subjects_1h", minute - minute % 3_600)] {
        let sql = format!(
            "INSERT INTO {table} SELECT {bucket}, 'default', 'user:' || i, 'search', 'free', i, 0, 0, {minute}, {minute} FROM generate_series(1, 10000) i"
        );
        sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&bed.pool()).await.unwrap();
    }
    upkeep::once(&bed.pool(), now()).await.unwrap();
    for table in ["subjects_1m", "subjects_1h"] {
        let sql = format!("SELECT count(*), min(denied) FROM {table}");
        let (rows, lightest): (i64, i64) = sqlx::query_as(sqlx::AssertSqlSafe(sql)).fetch_one(&bed.pool()).await.unwrap();
        assert_eq!((rows, lightest), (2_000, 8_001), "{table}");
    }
}

#[tokio::test]
async fn invented_names_and_processes_stay_bounded() {
    let bed = Bed::new().await;
    bed.knew("", "shard", &["a"]).await;
    let mut upload = Upload::open(bed.control_plane.grpc_addr(), &bed.agent_token).await.unwrap();
    let second = now() - 1;
    let invented = |i: u64| {
        let mut events = batch("gw-1", 1);
        events.boot = format!("boot-{i}");
        let known = aggregate(second, "search", Outcome::Denied, 1);
        events.aggregates = vec![
            known.clone(),
            v1::Aggregate { rule: format!("rule-{i}"), ..known.clone() },
            v1::Aggregate { tier: format!("tier-{i}"), ..known.clone() },
            v1::Aggregate { shard: format!("shard-{i}"), ..known.clone() },
            v1::Aggregate { cause: format!("cause-{i}"), ..known.clone() },
            v1::Aggregate { domain: format!("domain-{i}"), ..known },
        ];
        events.denials[0].rule = format!("rule-{i}");
        events.subjects[0].second = second;
        events.subjects[0].tier = format!("tier-{i}");
        events
    };
    for i in 0..300 {
        let ack = upload.store(invented(i)).await.unwrap();
        assert!(ack.stored && ack.reason.contains("1 rows"), "{ack:?}");
    }
    assert_eq!(bed.number("SELECT count(*) FROM traffic_10s").await, 5, "what is known, and one row for each kind of invention");
    assert_eq!(bed.number("SELECT count(*) FROM traffic_10s WHERE '(unknown)' IN (rule, tier, shard, cause)").await, 4);
    assert_eq!(bed.number("SELECT count(DISTINCT rule) FROM denials").await, 1);
    assert_eq!(bed.number("SELECT count(*) FROM subjects_1m").await, 1);
    assert_eq!(bed.number("SELECT count(*) FROM ingest_progress").await, 256);
    assert!(!upload.store(invented(299)).await.unwrap().stored, "the newest processes are remembered");

    // A rule that has only just been made is known.
    let mut document = super::bed::rules(5);
    document["rules"][0]["name"] = "brand-new".into();
    bed.apply(&document).await;
    let told = await_until(PATIENCE, async || {
        let mut events = batch("gw-2", u64::try_from(now()).unwrap());
        events.boot = format!("boot-{}", uuid::Uuid::now_v7());
        events.aggregates[0].rule = "brand-new".into();
        upload.store(events).await.unwrap();
        bed.number("SELECT count(*) FROM traffic_10s WHERE rule = 'brand-new'").await > 0
    });
    assert!(told.await);
}
