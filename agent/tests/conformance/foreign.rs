//! Keys that hold something else, and servers that have lost the script.

use redis::{Cmd, cmd};
use weir_agent::limiter::script;
use weir_agent::limiter::store::{CounterStore as _, Refund};
use weir_core::counter::{CounterCall, CounterReply};
use weir_core::key::CounterKey;
use weir_core::limit::Bound;

use crate::calls::{DAY, MINUTE, acquire, allowed, bucket, call, each, key, key_of, leases};
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
                // Nothing comes back from it, and that makes it no more credible.
                let refund = Refund { key: bad, bound, units: 1, time_us: 0, lease: None };
                assert_eq!(server.store.refund(&[refund]).await.expect("an answer"), [0], "{what}");
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

/// BB-54: requests of one batch beside which, and within which, there is garbage are answered as if there were none.
#[tokio::test]
async fn bb_54_neighbours_of_garbage_in_one_batch_notice_nothing() {
    for server in Server::each().await {
        for (bound, wide) in each(3, DAY).into_iter().zip(each(100, DAY)) {
            let of = |name: &str| key_of(name, bound.algorithm.as_str());
            let bad = [of("bad"), of("worse")];
            for (seed, worse) in foreign(&bad[0]).into_iter().zip(foreign(&bad[1])) {
                server.ask::<redis::Value>(cmd("DEL").arg(bad[0].as_bytes()).arg(bad[1].as_bytes())).await;
                let good = [of("first"), of("second"), of("third")];
                server.ask::<redis::Value>(cmd("DEL").arg(&good.map(|key| key.as_str().to_owned()))).await;
                server.check_all(&[call(good[0], wide, 1), call(good[1], wide, 2), call(good[2], wide, 3)]).await;
                server.ask::<redis::Value>(&seed).await;
                server.ask::<redis::Value>(&worse).await;
                let batch = [
                    vec![call(good[0], wide, 1), call(bad[0], bound, 1), call(good[1], wide, 1)],
                    vec![call(good[2], wide, 1)],
                    vec![call(bad[1], bound, 1), call(good[0], wide, 1)],
                    // Refused, for the garbage is an empty counter by now: nothing is taken.
                    vec![call(bad[1], bound, 3), call(good[1], wide, 1)],
                    vec![call(good[1], wide, 1)],
                ];
                let batch: Vec<&[CounterCall]> = batch.iter().map(Vec::as_slice).collect();
                let replies = server.store.check(&batch).await.expect("a decision");
                let said = |replies: &[CounterReply]| -> Vec<(bool, u64, bool)> {
                    replies.iter().map(|reply| (reply.allowed, reply.remaining, reply.replaced)).collect()
                };
                let expected = [
                    vec![(true, 98, false), (true, 2, true), (true, 97, false)],
                    vec![(true, 96, false)],
                    vec![(true, 2, true), (true, 97, false)],
                    vec![(false, 2, false), (true, 97, false)],
                    vec![(true, 96, false)],
                ];
                let what = format!("{:?} beside {:?}", bound.algorithm, String::from_utf8_lossy(&seed.get_packed_command()));
                assert_eq!(replies.iter().map(|replies| said(replies)).collect::<Vec<_>>(), expected, "{what}");
            }
        }
    }
}

/// BB-54: so it is for leases. What another algorithm counted is no garbage to them, but says nothing about who is in flight.
#[tokio::test]
async fn bb_54_leases_over_garbage() {
    let bound = leases(3, DAY);
    for server in Server::each().await {
        let (bad, good) = (key("bad"), key("good"));
        server.check(acquire(good, bound, 1)).await;
        let mut replaced = 0;
        for seed in foreign(&bad) {
            server.ask::<redis::Value>(cmd("DEL").arg(bad.as_bytes())).await;
            server.ask::<redis::Value>(&seed).await;
            let what = String::from_utf8_lossy(&seed.get_packed_command()).into_owned();
            let peek = server.check(call(bad, bound, 0)).await;
            assert_eq!((peek.allowed, peek.remaining, peek.replaced), (true, 3, false), "{what}");
            let mut replies = server.check_all(&[acquire(bad, bound, 1), acquire(good, bound, 1)]).await;
            let neighbour = replies.pop().expect("two");
            assert_eq!((neighbour.allowed, neighbour.remaining, neighbour.replaced), (true, 2, false), "{what}");
            for number in 2..=10 {
                replies.push(server.check(acquire(bad, bound, number)).await);
            }
            assert_eq!(allowed(&replies), 3, "{what}");
            assert!(replies[1..].iter().all(|reply| !reply.replaced), "{what}");
            replaced += usize::from(replies[0].replaced);
            assert!(server.ttl_ms(bad.as_bytes()).await > 0, "{what}");
        }
        assert!(replaced >= 20, "{replaced} of them are garbage");
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
    use weir_agent::limiter::store::StoreError;
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
