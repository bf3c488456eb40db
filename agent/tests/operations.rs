//! Peek, record, refund, reset, acquire and release, over HTTP: in memory and on a real server.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod served;

use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use served::{Answer, Served, settings};
use weir_agent::limiter::ShardConfig;
use weir_agent::settings::{AgentSettings, Counters, Permission, Permissions};
use weir_testbed::{Flavor, Mode, Proxy, Redis, await_until};

const RULES: &str = r#"
domain: default
tiers:
  - { name: free, default: true }
  - { name: staff }
rules:
  - name: bucket
    key: [subject]
    limits: { staff: { unlimited: true }, "*": { limit: 10, window: 366d } }
  - name: quota
    key: [subject]
    algorithm: fixed_window
    limits: { "*": { limit: 20, calendar: month, time_zone: Europe/Zurich } }
  - name: trial
    mode: shadow
    key: [subject]
    algorithm: sliding_window
    limits: { "*": { limit: 3, window: 1h } }
  - name: off-limits
    match: { path: /blocked }
    key: []
    limits: { "*": { limit: 0, window: 1m } }
"#;

const TOKEN: &str = "s3cret";

/// An agent that permits everything to who has the token.
fn permitting(rules: &str) -> AgentSettings {
    let mut settings = settings(rules);
    settings.listen.token = Some(TOKEN.into());
    settings.listen.tcp_operations = Permissions::all();
    settings
}

fn on(redis: &Redis, mut settings: AgentSettings) -> AgentSettings {
    let shard = ShardConfig::new("a".parse().unwrap(), redis.url().parse().unwrap());
    settings.counters = Counters::Shards(vec![shard]);
    settings
}

async fn redis() -> Redis {
    Redis::temporary(Flavor::available().unwrap()).await.unwrap()
}

async fn send(served: &Served, operation: &str, question: &Value) -> Answer {
    let headers = [("content-type", "application/json"), ("authorization", "Bearer s3cret")];
    served.send(Method::POST, &format!("/v1/{operation}"), &headers, question.to_string()).await
}

async fn ask(served: &Served, operation: &str, question: &Value) -> Value {
    let answer = send(served, operation, question).await;
    assert_eq!(answer.status, StatusCode::OK, "{operation}: {}", answer.json());
    answer.json()
}

/// One field of each limit, by rule.
fn each(limits: &Value, field: &str) -> Vec<(String, Value)> {
    limits.as_array().unwrap().iter().map(|limit| (limit["rule"].as_str().unwrap().to_owned(), limit[field].clone())).collect()
}

fn by_rule(values: &[(&str, Value)]) -> Vec<(String, Value)> {
    values.iter().map(|(rule, value)| ((*rule).to_owned(), value.clone())).collect()
}

async fn metrics(served: &Served) -> String {
    String::from_utf8(served.send(Method::GET, "/metrics", &[("authorization", "Bearer s3cret")], "").await.body.to_vec()).unwrap()
}

async fn keys(redis: &Redis) -> usize {
    let client = redis::Client::open(redis.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut connection).await.unwrap();
    // Beside counters there may be what the agent itself keeps there.
    keys.iter().filter(|key| key.len() == 28 && key.starts_with('{')).count()
}

/// The whole life of a request whose cost is known late: looked at, recorded, given back, cleared.
#[tokio::test]
async fn operations_in_memory() {
    operations(permitting(RULES)).await;
}

#[tokio::test]
async fn operations_on_a_shard() {
    let redis = redis().await;
    operations(on(&redis, permitting(RULES))).await;
}

async fn operations(settings: AgentSettings) {
    let served = Served::start(settings).await;
    let subject = json!({ "subject": "s" });
    let with = |fields: Value| {
        let mut question = subject.clone();
        question.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        question
    };
    let remaining = async || each(&ask(&served, "peek", &subject).await["limits"], "remaining");
    let full = by_rule(&[("bucket", json!(10)), ("quota", json!(20)), ("trial", json!(3))]);
    assert_eq!(remaining().await, full);

    // A record goes past a limit, by at most one further capacity, also of a shadow rule.
    let recorded = ask(&served, "record", &with(json!({ "cost": 6 }))).await;
    assert_eq!(each(&recorded["limits"], "recorded"), by_rule(&[("bucket", json!(true)), ("quota", json!(true)), ("trial", json!(true))]));
    assert_eq!(each(&recorded["limits"], "remaining"), by_rule(&[("bucket", json!(4)), ("quota", json!(14)), ("trial", json!(0))]));
    assert_eq!((&recorded["revision"], &recorded["degraded"], &recorded["tier"]), (&json!(1), &json!(null), &json!("free")));
    ask(&served, "record", &with(json!({ "cost": 100 }))).await;
    let peeked = ask(&served, "peek", &subject).await;
    assert_eq!((&peeked["allowed"], &peeked["reason"], &peeked["remaining"]), (&json!(false), &json!("limited"), &json!(0)));
    // 10 beyond the bucket's 10, and 20 beyond the quota's: what one refund of 11 leaves.
    let refunded = ask(&served, "refund", &with(json!({ "cost": 11, "rules": ["bucket"] }))).await;
    assert_eq!(refunded, json!({ "rules": [{ "rule": "bucket", "refunded": 11, "error": null }], "revision": 1 }));
    assert_eq!(remaining().await, by_rule(&[("bucket", json!(1)), ("quota", json!(0)), ("trial", json!(0))]));
    // Never below 0.
    let refunded = ask(&served, "refund", &with(json!({ "cost": 100 }))).await;
    assert_eq!(each(&refunded["rules"], "refunded"), by_rule(&[("bucket", json!(9)), ("quota", json!(40)), ("trial", json!(6))]));
    assert_eq!(remaining().await, full);

    ask(&served, "check", &with(json!({ "cost": 2 }))).await;
    let cleared = ask(&served, "reset", &with(json!({ "rules": ["quota", "trial"] }))).await;
    assert_eq!(each(&cleared["rules"], "reset"), by_rule(&[("quota", json!(true)), ("trial", json!(true))]));
    assert_eq!(remaining().await, by_rule(&[("bucket", json!(8)), ("quota", json!(20)), ("trial", json!(3))]));
    let cleared = ask(&served, "reset", &subject).await;
    assert_eq!(each(&cleared["rules"], "reset"), by_rule(&[("bucket", json!(true)), ("quota", json!(false)), ("trial", json!(false))]));
    let cleared = ask(&served, "reset", &subject).await;
    assert_eq!(each(&cleared["rules"], "error"), by_rule(&[("bucket", json!(null)), ("quota", json!(null)), ("trial", json!(null))]));
    assert_eq!(remaining().await, full);

    let text = metrics(&served).await;
    for (operation, outcome, times) in
        [("record", "done", 2), ("refund", "done", 2), ("reset", "done", 2), ("reset", "nothing", 1), ("peek", "done", 6)]
    {
        let line = format!("weir_operations_total{{operation=\"{operation}\",outcome=\"{outcome}\"}} {times}\n");
        assert!(text.contains(&line), "{line}{text}");
    }
    // Only the check was a decision.
    assert!(text.contains("weir_decisions_total{domain=\"default\",rule=\"bucket\",tier=\"free\",outcome=\"allowed\"} 1\n"), "{text}");
    served.stop().await;
}

/// A look makes no counter, brings none into order, and takes no lease.
#[tokio::test]
async fn a_peek_writes_nothing() {
    let redis = redis().await;
    let served = Served::start(on(&redis, permitting(RULES))).await;
    let before = keys(&redis).await;
    for _ in 0..5 {
        let peeked = ask(&served, "peek", &json!({ "subject": "s", "cost": 4 })).await;
        assert_eq!((&peeked["allowed"], &peeked["remaining"]), (&json!(true), &json!(10)));
    }
    let refused = ask(&served, "peek", &json!({ "subject": "s", "cost": 11 })).await;
    assert_eq!((&refused["allowed"], &refused["reason"]), (&json!(false), &json!("cost_exceeds_capacity")));
    assert_eq!(keys(&redis).await, before);
    ask(&served, "check", &json!({ "subject": "s" })).await;
    assert_eq!(keys(&redis).await, before + 3);
    served.stop().await;
}

/// What counts nothing has nothing to give back, and says so.
#[tokio::test]
async fn rules_without_a_counter_are_left_alone() {
    let served = Served::start(permitting(RULES)).await;
    let staff = json!({ "subject": "s", "tier": "staff", "path": "/blocked", "cost": 2 });
    let recorded = ask(&served, "record", &staff).await;
    let expected = [("bucket", false), ("quota", true), ("trial", true), ("off-limits", false)];
    assert_eq!(each(&recorded["limits"], "recorded"), by_rule(&expected.map(|(rule, recorded)| (rule, json!(recorded)))));
    assert_eq!(
        each(&recorded["limits"], "limit"),
        by_rule(&[("bucket", json!(null)), ("quota", json!(20)), ("trial", json!(3)), ("off-limits", json!(0))])
    );
    let refunded = ask(&served, "refund", &staff).await;
    assert_eq!(
        each(&refunded["rules"], "refunded"),
        by_rule(&[("bucket", json!(0)), ("quota", json!(2)), ("trial", json!(2)), ("off-limits", json!(0))])
    );
    let peeked = ask(&served, "peek", &staff).await;
    assert_eq!((&peeked["status"], &peeked["reason"]), (&json!(403), &json!("blocked")));
    let mut reset = staff.clone();
    reset.as_object_mut().unwrap().remove("cost");
    let cleared = ask(&served, "reset", &reset).await;
    assert_eq!(each(&cleared["rules"], "reset")[3], ("off-limits".to_owned(), json!(false)));
    served.stop().await;
}

#[tokio::test]
async fn a_domain_that_is_off_has_nothing_to_do() {
    let served = Served::start(permitting(&RULES.replace("domain: default", "domain: default\nmode: off"))).await;
    let question = json!({ "subject": "s", "cost": 2 });
    assert_eq!(ask(&served, "peek", &question).await["allowed"], true);
    assert_eq!(ask(&served, "record", &question).await["limits"], json!([]));
    assert_eq!(ask(&served, "refund", &question).await["rules"], json!([]));
    assert_eq!(ask(&served, "reset", &json!({ "subject": "s" })).await["rules"], json!([]));
    let acquired = ask(&served, "acquire", &question).await;
    assert_eq!((&acquired["allowed"], &acquired["lease"]), (&json!(true), &json!(null)));
    served.stop().await;
}

/// In shadow nothing is refused, and all is counted.
#[tokio::test]
async fn a_domain_in_shadow_counts() {
    let served = Served::start(permitting(&RULES.replace("domain: default", "domain: default\nmode: shadow"))).await;
    let question = json!({ "subject": "s", "cost": 15 });
    ask(&served, "record", &question).await;
    let peeked = ask(&served, "peek", &json!({ "subject": "s" })).await;
    assert_eq!((&peeked["allowed"], &peeked["limits"][0]["allowed"]), (&json!(true), &json!(false)));
    assert_eq!(ask(&served, "refund", &question).await["rules"][0]["refunded"], 15);
    served.stop().await;
}

#[tokio::test]
async fn bad_questions_change_nothing() {
    let served = Served::start(permitting(RULES)).await;
    for (operation, question, pointer) in [
        ("refund", json!({ "subject": "s" }), "/cost"),
        ("record", json!({ "subject": "s", "cost": 0 }), "/cost"),
        ("record", json!({ "subject": "s", "cost": 1, "rules": ["bucket"] }), "/rules"),
        ("refund", json!({ "subject": "s", "cost": 1, "rules": ["bukket"] }), "/rules"),
        ("reset", json!({ "subject": "s", "rules": ["off-limits"] }), "/rules"),
        ("reset", json!({ "subject": "s", "cost": 1 }), "/cost"),
        ("peek", json!({ "domain": "elsewhere" }), "/domain"),
        ("refund", json!({ "domain": "elsewhere", "cost": 1 }), "/domain"),
        ("check", json!({ "subject": "s", "limits": { "quota": { "limit": 1, "window": "1s", "burst": 2 } } }), "/limits/quota/burst"),
    ] {
        let answer = send(&served, operation, &question).await;
        assert_eq!(
            (answer.status, &answer.json()["errors"][0]["pointer"]),
            (StatusCode::BAD_REQUEST, &json!(pointer)),
            "{operation} {question}"
        );
    }
    let unpermitted = served.post("/v1/check", &json!({})).await;
    assert_eq!(unpermitted.status, StatusCode::UNAUTHORIZED);
    let text = metrics(&served).await;
    assert!(text.contains("weir_operations_total{operation=\"refund\",outcome=\"bad\"} 2\n"), "{text}");
    served.stop().await;
}

/// Each operation is refused where the listener's settings do not name it, before its body is looked at; what every listener serves is not.
#[tokio::test]
async fn operations_are_served_where_they_are_named() {
    for permission in [Permission::Record, Permission::Refund, Permission::Reset] {
        let mut settings = permitting(RULES);
        settings.listen.tcp_operations = Permission::ALL.into_iter().filter(|other| *other != permission).collect();
        let served = Served::start(settings).await;
        let answer = send(&served, permission.as_str(), &json!({ "nonsense": 1 })).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        let detail = format!(
            "the operation {permission} is not accepted by this listener; to allow it, name {permission} in WEIR_AGENT_TCP_OPERATIONS, and give the listener a token"
        );
        assert_eq!((&answer.json()["detail"], &answer.json()["type"]), (&json!(detail), &json!("urn:weir:problem:not-permitted")));
        for operation in ["check", "peek", "acquire"] {
            ask(&served, operation, &json!({ "subject": "s" })).await;
        }
        served.stop().await;
    }
}

/// Without its shards each operation says what it could not do, and does not fail.
#[tokio::test]
async fn without_shards_operations_say_so() {
    let mut settings = permitting(&RULES.replace("  - name: quota", "    on_failure: { mode: closed }\n  - name: quota"));
    settings.counters = Counters::Shards(Vec::new());
    let served = Served::start(settings).await;
    let question = json!({ "subject": "s", "cost": 2 });
    let peeked = ask(&served, "peek", &question).await;
    assert_eq!((&peeked["status"], &peeked["degraded"]["cause"]), (&json!(503), &json!("no_shards")));
    let recorded = ask(&served, "record", &question).await;
    let expected = [("bucket", false), ("quota", true), ("trial", true)];
    assert_eq!(each(&recorded["limits"], "recorded"), by_rule(&expected.map(|(rule, recorded)| (rule, json!(recorded)))));
    assert_eq!(recorded["degraded"], json!({ "mode": "closed", "cause": "no_shards" }));
    let refunded = ask(&served, "refund", &question).await;
    assert_eq!(refunded["rules"][0], json!({ "rule": "bucket", "refunded": null, "error": "no_shards" }));
    let cleared = ask(&served, "reset", &json!({ "subject": "s" })).await;
    assert_eq!(cleared["rules"][0], json!({ "rule": "bucket", "reset": null, "error": "no_shards" }));
    let text = metrics(&served).await;
    for operation in ["peek", "record", "refund", "reset"] {
        assert!(
            text.contains(&format!("weir_operations_total{{operation=\"{operation}\",outcome=\"degraded\"}} 1\n")),
            "{operation}: {text}"
        );
    }
    assert!(!text.contains("weir_decisions_total{"), "none of these is a decision: {text}");
    served.stop().await;
}

/// A limit that comes with the request meets the counter as it is, of every algorithm, and leaves it to the rule's own limit.
#[tokio::test]
async fn limits_of_a_request_meet_live_counters_in_memory() {
    limits_of_a_request(permitting).await;
}

#[tokio::test]
async fn limits_of_a_request_meet_live_counters_on_a_shard() {
    let redis = redis().await;
    limits_of_a_request(|rules| on(&redis, permitting(rules))).await;
}

async fn limits_of_a_request(settings: impl Fn(&str) -> AgentSettings) {
    for algorithm in ["token_bucket", "sliding_window", "sliding_log", "fixed_window", "concurrency"] {
        let rules = format!(
            "{{ domain: default, rules: [{{ name: {algorithm}, key: [], algorithm: {algorithm}, limits: {{ '*': {{ limit: 2, window: 300d }} }} }}] }}"
        );
        let served = Served::start(settings(&rules)).await;
        let plain = async || ask(&served, "acquire", &json!({})).await["allowed"] == true;
        let with = async |limit: Value| ask(&served, "acquire", &json!({ "limits": { algorithm: limit } })).await;
        assert!(plain().await && plain().await && !plain().await, "{algorithm}");
        let raised = with(json!({ "limit": 3, "window": "300d" })).await;
        assert_eq!(
            (&raised["allowed"], &raised["limits"][0]["source"], &raised["limit"], &raised["remaining"]),
            (&json!(true), &json!("override"), &json!(3), &json!(0)),
            "{algorithm}"
        );
        assert_eq!(with(json!({ "limit": 3, "window": "300d" })).await["allowed"], false);
        assert_eq!(with(json!({ "unlimited": true })).await["allowed"], true);
        let blocked = with(json!({ "limit": 0, "window": "1s" })).await;
        assert_eq!((&blocked["status"], &blocked["reason"]), (&json!(403), &json!("blocked")));
        assert!(!plain().await, "{algorithm}");
        ask(&served, "reset", &json!({})).await;
        assert!(plain().await, "{algorithm}");
        served.stop().await;
    }
}

/// For the subjects that a rule does not enforce yet it counts, whatever the algorithm, and whatever is asked.
#[tokio::test]
async fn a_rule_that_enforces_for_nobody_counts_for_all() {
    for algorithm in ["sliding_log", "concurrency", "fixed_window"] {
        let rules = format!(
            "{{ domain: default, rules: [{{ name: r, key: [subject], algorithm: {algorithm}, enforce_percent: 0, limits: {{ '*': {{ limit: 1, window: 1h }} }} }}] }}"
        );
        let served = Served::start(permitting(&rules)).await;
        for (remaining, would) in [(0, true), (0, false)] {
            let acquired = ask(&served, "acquire", &json!({ "subject": "s" })).await;
            let limit = &acquired["limits"][0];
            assert_eq!(
                (&acquired["allowed"], &limit["allowed"], &limit["mode"], &limit["remaining"]),
                (&json!(true), &json!(would), &json!("shadow"), &json!(remaining)),
                "{algorithm}"
            );
        }
        let text = metrics(&served).await;
        assert!(text.contains("outcome=\"shadow_denied\"} 1\n") && text.contains("outcome=\"allowed\"} 1\n"), "{algorithm}: {text}");
        served.stop().await;
    }
}

/// What a shard acquired although it answered too late is given back there, while the lease in its place lives on here.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_the_shard_took_too_late_is_given_back() {
    let redis = redis().await;
    let proxy = Proxy::start(redis.addr().unwrap()).await.unwrap();
    let mut settings = permitting(
        "domain: default\ntiers: [{ name: free, default: true }]\nrules:\n  - name: jobs\n    key: [subject]\n    algorithm: concurrency\n    \
         limits: { \"*\": { limit: 5, window: 1h } }\n",
    );
    let url = redis.url_through(proxy.addr());
    settings.counters = Counters::Shards(vec![ShardConfig::new("a".parse().unwrap(), url.parse().unwrap())]);
    settings.budget = Duration::from_millis(50);
    let served = Served::start(settings).await;
    let question = json!({"subject": "user-1"});
    let quick = async || ask(&served, "acquire", &question).await["degraded"].is_null();
    assert!(await_until(Duration::from_secs(5), quick).await, "the shard decides");
    let before = keys(&redis).await;
    proxy.set_mode(Mode::Delay(Duration::from_millis(200))).await;
    let late = ask(&served, "acquire", &json!({"subject": "user-2"})).await;
    assert_eq!((&late["degraded"]["cause"], late["lease"].is_string()), (&json!("timeout"), true), "{late}");
    proxy.set_mode(Mode::Forward).await;
    // One lease left its key behind before it went, so only the first subject has any.
    let gone = async || {
        let read = metrics(&served).await;
        keys(&redis).await == before && read.contains("weir_shard_refunds_total{shard=\"a\"} 1\n")
    };
    assert!(await_until(Duration::from_secs(5), gone).await, "{} keys, {before} before\n{}", keys(&redis).await, metrics(&served).await);
    assert_eq!(ask(&served, "release", &json!({"lease": late["lease"]})).await["released"], json!(true));
}
