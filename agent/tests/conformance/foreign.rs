//! Keys that hold something else, and servers that have lost the script.

use redis::{Cmd, cmd};
use weir_agent::limiter::script;
use weir_core::key::CounterKey;
use weir_core::limit::Bound;

use crate::calls::{DAY, MINUTE, allowed, bucket, call, each, key, key_of};
use crate::servers::Server;

/// Commands that put something unreadable under a key.
fn foreign(key: &CounterKey) -> Vec<Cmd> {
    let set = |value: &[u8]| cmd("SET").arg(key.as_bytes()).arg(value).to_owned();
    let hash = |fields: &[(&str, &[u8])]| {
        let mut command = cmd("HSET");
        command.arg(key.as_bytes());
        for (field, value) in fields {
            command.arg(*field).arg(*value);
        }
        command
    };
    let mut commands: Vec<Cmd> = [
        &b"hello"[..],
        b"",
        b"17",
        b"{\"count\":3,\"reset\":1796052110}",
        // Of the lengths that our own states have.
        b"hello world!",
        b"a later version!",
        b"twenty bytes of text",
        &[0xFF; 12],
        &[0xFF; 16],
        &[0xFF; 20],
        // Used units that are not a number, infinite, negative; a time far ahead.
        &[&f64::NAN.to_le_bytes()[..], &[0; 8]].concat(),
        &[&f64::INFINITY.to_le_bytes()[..], &[0; 8]].concat(),
        &[&(-5.0f64).to_le_bytes()[..], &[0; 8]].concat(),
        &[&[1, 0, 0, 0, 0, 0][..], &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]].concat(),
    ]
    .into_iter()
    .map(set)
    .collect();
    let head = |sum: u64| {
        [&sum.to_le_bytes()[..7], &1_796_000_000u64.to_le_bytes()[..7], &1_000_000u64.to_le_bytes()[..6], &60_000_000u64.to_le_bytes()[..6]]
            .concat()
    };
    commands.extend([
        hash(&[("count", b"3")]),
        hash(&[("m", b"nan"), ("3", b"1")]),
        hash(&[("m", b"abcdefghijklmnopqrstuvwxyz")]),
        hash(&[("m", &head(1 << 54))]),
        cmd("RPUSH").arg(key.as_bytes()).arg("a").to_owned(),
        cmd("SADD").arg(key.as_bytes()).arg("a").to_owned(),
        cmd("ZADD").arg(key.as_bytes()).arg(1).arg("a").to_owned(),
        // Of the lengths that members of ours have: a log without units, with more units than in all, far ahead; leases far ahead, at no time.
        cmd("ZADD").arg(key.as_bytes()).arg(1_796_000_000_000_000u64).arg(&[5u8, 0, 0, 0, 0, 0, 0, 0, 0][..]).to_owned(),
        cmd("ZADD").arg(key.as_bytes()).arg(1_796_000_000_000_000u64).arg(&[5u8, 0, 0, 0, 0, 0, 0, 6, 0][..]).to_owned(),
        cmd("ZADD").arg(key.as_bytes()).arg(8_000_000_000_000_000u64).arg(&[5u8, 0, 0, 0, 0, 0, 0, 5, 0][..]).to_owned(),
        cmd("ZADD").arg(key.as_bytes()).arg("inf").arg(&[5u8, 0, 0, 0, 0, 0, 0, 5, 0][..]).to_owned(),
        cmd("ZADD").arg(key.as_bytes()).arg("-inf").arg(&[0xFFu8; 14][..]).to_owned(),
    ]);
    commands
}

/// BB-54: exactly the limit passes, the bad key is replaced once and gets a TTL, neighbours notice nothing.
#[tokio::test]
async fn bb_54_a_foreign_key_starts_empty_and_is_reported_once() {
    for server in Server::each().await {
        for bound in each(3, DAY) {
            let (bad, good) = (key_of("bad", bound.algorithm.as_str()), key_of("good", bound.algorithm.as_str()));
            server.check(call(good, bound, 1)).await;
            for seed in foreign(&bad) {
                server.ask::<redis::Value>(cmd("DEL").arg(bad.as_bytes())).await;
                server.ask::<redis::Value>(&seed).await;
                let what = format!("{:?} over {:?}", bound.algorithm, String::from_utf8_lossy(&seed.get_packed_command()));
                // A peek sees an empty counter and leaves the key alone.
                let peek = server.check(call(bad, bound, 0)).await;
                assert_eq!((peek.allowed, peek.remaining, peek.replaced), (true, 3, false), "{what}");
                let mut replies = Vec::new();
                for _ in 0..10 {
                    replies.push(server.check(call(bad, bound, 1)).await);
                }
                assert_eq!(allowed(&replies), 3, "{what}");
                let reported: Vec<usize> = (0..10).filter(|at| replies[*at].replaced).collect();
                assert_eq!(reported, [0], "{what}");
                assert!(server.ttl_ms(bad.as_bytes()).await > 0, "{what}");
            }
            let neighbour = server.check_all(&[call(bad, bound, 0), call(good, bound, 0)]).await[1];
            assert_eq!((neighbour.remaining, neighbour.replaced), (2, false));
        }
    }
}

/// A hash of ours that another hand damaged: the sum and the slots disagree, or a slot is no number.
#[tokio::test]
async fn bb_54_damaged_slots_are_found_before_they_refuse_anybody() {
    let bound = crate::calls::sliding(3, MINUTE);
    for server in Server::each().await {
        for (place, damage) in ["nan", "1e999", "-1", "2.5", "999999", "", "missing"].into_iter().enumerate() {
            let counter = key(&format!("user{place}"));
            server.check(call(counter, bound, 3)).await;
            let fields: Vec<String> = server.ask(cmd("HKEYS").arg(counter.as_bytes())).await;
            let slot = fields.iter().find(|field| *field != "m").expect("a slot");
            let command = match damage {
                "missing" => cmd("HDEL").arg(counter.as_bytes()).arg(slot).to_owned(),
                value => cmd("HSET").arg(counter.as_bytes()).arg(slot).arg(value).to_owned(),
            };
            server.ask::<i64>(&command).await;
            let reply = server.check(call(counter, bound, 1)).await;
            assert_eq!((reply.allowed, reply.remaining, reply.replaced), (true, 2, true), "{damage}");
        }
    }
}

/// State above the capacity is what a lowered limit leaves behind, but then it has a TTL.
#[tokio::test]
async fn a_bucket_above_its_capacity_without_a_ttl_is_garbage() {
    for server in Server::each().await {
        let (high, low) = (bucket(100, 100, MINUTE), bucket(2, 2, MINUTE));
        server.check(call(key("a"), high, 50)).await;
        assert!(!server.check(call(key("a"), low, 1)).await.allowed);
        server.ask::<i64>(cmd("PERSIST").arg(key("a").as_bytes())).await;
        let reply = server.check(call(key("a"), low, 1)).await;
        assert_eq!((reply.allowed, reply.remaining, reply.replaced), (true, 1, true));
    }
}

/// BB-51: states with absurd old times, as a server might hold them, are full buckets.
#[tokio::test]
async fn bb_51_absurd_stored_times_are_full_buckets() {
    for server in Server::each().await {
        for step in [0u64, 1, 1 << 20] {
            let state = [&(7u64 << 16).to_le_bytes()[..6], &step.to_le_bytes()[..6]].concat();
            server.ask::<redis::Value>(cmd("SET").arg(key("a").as_bytes()).arg(state)).await;
            let reply = server.check(call(key("a"), bucket(10, 10, MINUTE), 1)).await;
            assert_eq!((reply.allowed, reply.remaining), (true, 9), "{step}");
            assert!(server.ttl_ms(key("a").as_bytes()).await > 0);
        }
    }
}

/// BB-17: a server that lost the script is given it again by the call that finds out.
#[tokio::test]
async fn bb_17_a_lost_script_is_loaded_and_the_call_sent_once_more() {
    for server in Server::each().await {
        let bound = bucket(100, 100, MINUTE);
        for round in 0..5u64 {
            server.ask::<redis::Value>(cmd("SCRIPT").arg("FLUSH")).await;
            let reply = server.check(call(key("a"), bound, 1)).await;
            assert_eq!((reply.allowed, reply.remaining), (true, 99 - round));
        }
        let known: Vec<i64> = server.ask(cmd("SCRIPT").arg("EXISTS").arg(script::sha1())).await;
        assert_eq!(known, [1]);
    }
}

/// BB-16: an error of the server is an error, whatever the call.
#[tokio::test]
async fn bb_16_a_script_error_is_never_an_allow() {
    use weir_agent::limiter::store::{CounterStore as _, StoreError};
    for server in Server::each().await {
        server.ask::<redis::Value>(cmd("CONFIG").arg("SET").arg("maxmemory").arg("1")).await;
        let bound: Bound = bucket(100, 100, MINUTE);
        let answer = server.store.check(&[&[call(key("a"), bound, 1)]]).await;
        assert!(matches!(answer, Err(StoreError::Redis(_))), "{answer:?}");
    }
}

/// No two keys of a request are ever in different slots of a cluster, so the script names no key that is not in KEYS.
#[tokio::test]
async fn the_script_builds_no_keys_and_uses_no_randomness() {
    let source = script::source();
    for banned in ["math.random", "os.time", "KEYS[1] ..", "#!lua"] {
        assert!(!source.contains(banned), "{banned}");
    }
    let calls = source.lines().filter(|line| line.contains("call('") || line.contains("try('"));
    for line in calls.filter(|line| !line.contains("'TIME'")) {
        let keyed = line.contains(", key") || line.contains("unpack(KEYS)") || line.contains("unpack(missing)");
        assert!(keyed, "{line}");
    }
}
