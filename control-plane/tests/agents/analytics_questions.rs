//! BB-50, and that numbers agree: chart, totals and table of one range say the same.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_proto::v1::Outcome;

use super::bed::Bed;
use super::events::{aggregate, batch, denial, now, subject};
use super::wire::Upload;

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn get(bed: &Bed, path: &str) -> Value {
    let answer = bed.admin.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.body
}

/// Traffic of the last half day, some of every outcome.
async fn traffic(bed: &Bed) {
    let mut upload = Upload::open(bed.control_plane.grpc_addr(), &bed.agent_token).await.unwrap();
    let now = now();
    let outcomes =
        [Outcome::Allowed, Outcome::Denied, Outcome::ShadowDenied, Outcome::DegradedAllowed, Outcome::DegradedDenied, Outcome::Unavailable];
    let mut events = batch("gw-1", 1);
    events.aggregates = (0..1_200_i64)
        .map(|i| {
            let outcome = outcomes[usize::try_from(i % 6).unwrap()];
            aggregate(now - 36 * i - 1, &format!("r{}", i % 5), outcome, 1 + u64::try_from(i % 4).unwrap())
        })
        .collect();
    (events.denials, events.subjects) = (vec![], vec![]);
    assert!(upload.store(events).await.unwrap().stored);
}

fn sum(series: &Value, outcome: &str) -> i64 {
    let all = series["series"].as_array().unwrap();
    let own = all.iter().filter(|s| s["key"]["outcome"] == outcome);
    own.flat_map(|s| s["requests"].as_array().unwrap()).map(|n| n.as_i64().unwrap()).sum()
}

#[tokio::test]
async fn chart_totals_and_groups_add_up_to_the_same() {
    let bed = Bed::new().await;
    bed.knew("default", "rule", &["r0", "r1", "r2", "r3", "r4"]).await;
    traffic(&bed).await;
    for range in ["from=-15m", "from=-1h&to=now", "from=-6h", "from=-24h&to=-2h", "from=-24h", "from=-7d", "from=-30d"] {
        let summary = get(&bed, &format!("/v1/analytics/summary?{range}")).await;
        for more in ["", "&group_by=rule", "&group_by=tier", "&group_by=rule&step=2h"] {
            let series = get(&bed, &format!("/v1/analytics/timeseries?{range}{more}")).await;
            for outcome in ["allowed", "denied", "shadow_denied", "degraded_allowed", "degraded_denied", "unavailable"] {
                assert_eq!(summary[outcome], sum(&series, outcome), "{outcome} of {range}{more}");
            }
            let points = series["times"].as_array().unwrap();
            assert!(points.windows(2).all(|w| w[1].as_i64().unwrap() - w[0].as_i64().unwrap() == series["step_seconds"]));
            assert!(series["series"].as_array().unwrap().iter().all(|s| s["requests"].as_array().unwrap().len() == points.len()));
            assert!(!points.is_empty() && points.len() <= 1_500);
        }
    }
    let day = get(&bed, "/v1/analytics/summary?from=-24h").await;
    assert_eq!(day["requests"], 2_600, "shadow denials are counted besides: {day}");
    assert_eq!(day["degraded"], day["degraded_allowed"].as_i64().unwrap() + day["degraded_denied"].as_i64().unwrap());
    let one = get(&bed, "/v1/analytics/timeseries?from=-24h&rule=r1&tier=free").await;
    let grouped = get(&bed, "/v1/analytics/timeseries?from=-24h&group_by=rule").await;
    let r1 = grouped["series"].as_array().unwrap().iter().filter(|s| s["key"]["rule"] == "r1" && s["key"]["outcome"] == "denied");
    let r1: i64 = r1.flat_map(|s| s["requests"].as_array().unwrap()).map(|n| n.as_i64().unwrap()).sum();
    assert!(r1 > 0 && sum(&one, "denied") == r1);
}

#[tokio::test]
async fn nothing_is_zeros_and_odd_questions_are_refused_with_their_place() {
    let bed = Bed::new().await;
    let empty = get(&bed, "/v1/analytics/timeseries?from=-1h").await;
    assert_eq!((empty["series"].as_array().unwrap().len(), empty["step_seconds"].as_i64()), (0, Some(30)));
    let summary = get(&bed, "/v1/analytics/summary").await;
    assert_eq!((&summary["requests"], &summary["denied_share"], &summary["unique_denied_subjects"]), (&json!(0), &json!(0.0), &json!(0)));
    assert_eq!(get(&bed, "/v1/analytics/top-subjects").await, json!({ "items": [], "sampled": false }));
    assert_eq!(get(&bed, "/v1/denials").await, json!({ "items": [], "next_page_token": "" }));
    for (path, pointer) in [
        ("timeseries?from=2026-11-30T12:00:00Z&to=2026-11-30T11:00:00Z", "from"),
        ("summary?from=now&to=-1h", "from"),
        ("top-subjects?from=x", "from"),
        ("timeseries?to=%00", "to"),
        ("timeseries?from=-1000d", "from"),
        ("timeseries?step=0", "step"),
        ("timeseries?from=-300d&step=1h", "step"),
        ("timeseries?rule=a%20b", "rule"),
        ("timeseries?tier=%25", "tier"),
        ("timeseries?domain=%27", "domain"),
        ("top-subjects?limit=0", "limit"),
        ("timeseries?group_by=shard", ""),
        ("timeseries?nonsense=1", ""),
    ] {
        let answer = bed.admin.get(&format!("/v1/analytics/{path}")).await;
        assert_eq!((answer.status, &answer.body["errors"][0]["pointer"]), (400, &json!(pointer)), "{path}: {}", answer.body);
    }
    for (path, pointer) in
        [("from=now&to=-1h", "from"), ("subject=%00", "subject"), ("page_size=-1", "page_size"), ("page_token=x", "page_token")]
    {
        let answer = bed.admin.get(&format!("/v1/denials?{path}")).await;
        assert_eq!((answer.status, &answer.body["errors"][0]["pointer"]), (400, &json!(pointer)), "{path}: {}", answer.body);
    }
}

#[tokio::test]
async fn offenders_are_listed_by_what_they_were_denied() {
    let bed = Bed::new().await;
    bed.knew("default", "rule", &["upload"]).await;
    let mut upload = Upload::open(bed.control_plane.grpc_addr(), &bed.agent_token).await.unwrap();
    let second = now() - 30;
    let mut events = batch("gw-1", 1);
    events.subjects = vec![subject(second, "user:a", 5), subject(second, "user:b", 50), subject(second - 600, "user:a", 3)];
    events.subjects.push({
        let mut other = subject(second, "user:a", 1);
        other.rule = "upload".into();
        other.error = 1;
        other
    });
    assert!(upload.store(events).await.unwrap().stored);
    for range in ["-1h", "-12h", "-7d"] {
        let top = get(&bed, &format!("/v1/analytics/top-subjects?from={range}&limit=10")).await;
        let items = top["items"].as_array().unwrap();
        assert_eq!((items.len(), &items[0]["subject"], &items[0]["denied"]), (2, &json!("user:b"), &json!(50)), "{range}");
        assert_eq!((&items[1]["denied"], &items[1]["allowed"], &items[1]["rules"]), (&json!(9), &json!(3), &json!(["search", "upload"])));
        assert_eq!((&items[1]["denied_share"], &top["sampled"]), (&json!(0.75), &json!(true)));
        assert!(items[1]["first_seen"].as_str().unwrap() < items[1]["last_seen"].as_str().unwrap());
        assert_eq!(get(&bed, &format!("/v1/analytics/summary?from={range}")).await["unique_denied_subjects"], 2);
    }
    let upload_only = get(&bed, "/v1/analytics/top-subjects?rule=upload").await;
    assert_eq!(upload_only["items"][0]["denied"], 1);
}

#[tokio::test]
async fn bb_50_denials_are_found_by_any_text_and_paged() {
    let bed = Bed::new().await;
    let mut upload = Upload::open(bed.control_plane.grpc_addr(), &bed.agent_token).await.unwrap();
    let subjects = ["user:[", "user:100%", "user:back\\slash", "user:🙂", "user:a_b", "user:o'brien", "user:ÄpfelX"];
    let second = now() - 100;
    let mut events = batch("gw-1", 1);
    events.denials = subjects.iter().zip(second..).map(|(subject, second)| denial(second, subject)).collect();
    assert!(upload.store(events).await.unwrap().stored);
    let found = async |text: &str| {
        let body = get(&bed, &format!("/v1/denials?subject={}", encoded(text))).await;
        body["items"].as_array().unwrap().iter().map(|d| d["subject"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (text, subject) in [("[", 0), ("%", 1), ("\\", 2), ("🙂", 3), ("_", 4), ("'", 5), ("ÄPFELX", 6), ("USER:100", 1)] {
        assert_eq!(found(text).await, [subjects[subject]], "{text}");
    }
    assert!(found("nobody").await.is_empty());
    assert_eq!(found("").await.len(), subjects.len());

    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let page = get(&bed, &format!("/v1/denials?page_size=3&page_token={token}")).await;
        seen.extend(page["items"].as_array().unwrap().iter().map(|d| d["subject"].as_str().unwrap().to_owned()));
        token = page["next_page_token"].as_str().unwrap().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, subjects.iter().rev().map(|s| (*s).to_owned()).collect::<Vec<_>>(), "newest first, each once");
    let first = &get(&bed, "/v1/denials?page_size=1").await["items"][0];
    assert_eq!(
        (&first["rule"], &first["outcome"], &first["limit"], &first["weight"]),
        (&json!("search"), &json!("denied"), &json!(50), &json!(4.0))
    );
}

/// A day of 20 rules, 2 tiers and 3 outcomes, every minute of it: 170,000 rows.
#[tokio::test]
async fn a_day_is_answered_quickly() {
    let bed = Bed::new().await;
    let minute = now() - now() % 60;
    let sql = "INSERT INTO traffic_1m SELECT $1 - 60 * m, 'default', 'r' || r, 't' || t, o, 1 + r, 1 + r \
               FROM generate_series(0, 1439) m, generate_series(1, 20) r, generate_series(1, 2) t, generate_series(1, 3) o";
    sqlx::query(sql).bind(minute).execute(&bed.pool()).await.unwrap();
    sqlx::query("ANALYZE traffic_1m").execute(&bed.pool()).await.unwrap();
    let mut fastest = [Duration::MAX; 2];
    for _ in 0..5 {
        for (i, path) in ["timeseries?from=-23h&group_by=rule", "summary?from=-23h"].iter().enumerate() {
            let asked = Instant::now();
            get(&bed, &format!("/v1/analytics/{path}")).await;
            fastest[i] = fastest[i].min(asked.elapsed());
        }
    }
    assert!(fastest.iter().all(|time| *time < Duration::from_millis(1_000)), "{fastest:?}");
}
