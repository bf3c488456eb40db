//! TTLs on real servers, on their own clock: every key has one, it fits the state, and nothing is left when nothing counts.

use std::time::Duration;

use weir_agent::limiter::memory::MemoryStore;
use weir_agent::limiter::store::CounterStore as _;
use weir_core::calendar::CalendarUnit;
use weir_core::clock::SystemClock;
use weir_core::key::CounterKey;
use weir_testbed::await_until;

use crate::calls::{DAY, HOUR, MINUTE, SECOND, acquire, bucket, calendar, call, each, key, key_of, leases, log, sliding};
use crate::servers::{Server, connect};

/// BB-08: 2,000 checks, 20 at once, 100 subjects, four algorithms; at every moment every key has a TTL, and two windows later none is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bb_08_every_counter_expires() {
    for server in Server::each().await {
        let tasks: Vec<_> = (0..20u64)
            .map(|task| {
                let url = server.process.url();
                tokio::spawn(async move {
                    let store = weir_agent::limiter::script::RedisStore::new(connect(&url).await);
                    for hit in 0..100 {
                        let bound = each(3, SECOND)[hit % 4];
                        let subject = format!("user{}", (task * 7 + hit as u64 * 13) % 100);
                        store.check(&[&[call(key_of(&subject, bound.algorithm.as_str()), bound, 1)]]).await.expect("a decision");
                    }
                })
            })
            .collect();
        while !tasks.iter().all(tokio::task::JoinHandle::is_finished) {
            assert_no_key_without_ttl(&server).await;
        }
        for task in tasks {
            task.await.expect("no task failed");
        }
        let gone = async || server.keys().await.is_empty();
        assert!(await_until(Duration::from_secs(10), gone).await, "keys are left");
    }
}

async fn assert_no_key_without_ttl(server: &Server) {
    for key in server.keys().await {
        assert_ne!(server.ttl_ms(&key).await, -1, "{}", String::from_utf8_lossy(&key));
    }
}

#[tokio::test]
async fn bb_08_a_counter_without_a_ttl_is_healed_by_the_next_check() {
    for server in Server::each().await {
        for bound in each(1, MINUTE) {
            let key = key_of("a", bound.algorithm.as_str());
            // Once by a check that passes, once by one that is refused.
            for (limit, allowed) in [(2, true), (2, false)] {
                let bound = weir_core::limit::Bound { limit, capacity: limit, ..bound };
                server.check(call(key, bound, 1)).await;
                server.ask::<i64>(redis::cmd("PERSIST").arg(key.as_bytes())).await;
                let reply = server.check(call(key, bound, 1)).await;
                assert_eq!(reply.allowed, allowed, "{:?}", bound.algorithm);
                let ttl = server.ttl_ms(key.as_bytes()).await;
                assert!(ttl > 0 && ttl <= 63_000, "{:?}: {ttl}", bound.algorithm);
            }
        }
    }
}

/// So it is for leases and for windows of a calendar, whose edges are hours away.
#[tokio::test]
async fn bb_08_leases_and_calendar_windows_are_healed_too() {
    for server in Server::each().await {
        let zoned = calendar(2, CalendarUnit::Day, "Asia/Kathmandu");
        let (held, counted) = (key("held"), key("counted"));
        for (number, passes) in [(1, true), (2, true), (3, false)] {
            let calls = [(acquire(held, leases(2, MINUTE), number), 63_000), (call(counted, zoned, 1), 25 * 3_600_000)];
            for (call, longest) in calls {
                assert_eq!(server.check(&call).await.allowed, passes, "{call:?}");
                let ttl = server.ttl_ms(call.key.as_bytes()).await;
                assert!(ttl > 0 && ttl <= longest, "{call:?}: {ttl}");
                server.ask::<i64>(redis::cmd("PERSIST").arg(call.key.as_bytes())).await;
            }
        }
    }
}

/// BB-21: the counters of two rules live as long as their own windows, whatever happens to the other.
#[tokio::test]
async fn bb_21_two_rules_of_one_user_expire_apart() {
    for server in Server::each().await {
        let (monthly, hourly) = (key_of("a", "monthly"), key_of("a", "hourly"));
        let month = log(10, 30 * DAY);
        server.check(call(monthly, month, 1)).await;
        let ttl = async |key: CounterKey| server.ttl_ms(key.as_bytes()).await;
        for _ in 0..6 {
            server.check(call(hourly, sliding(5, HOUR), 1)).await;
            let (long, short) = (ttl(monthly).await, ttl(hourly).await);
            assert!(long > 30 * 86_400_000 - 60_000 && long <= 30 * 86_400_000 + 2_001, "{long}");
            // An hour and the slot in which it began.
            assert!(short > 3_600_000 && short <= 3_600_000 + 60_000 + 2_001, "{short}");
        }
        server.check_all(&[call(monthly, month, 1), call(hourly, sliding(10, HOUR), 1)]).await;
        assert!(ttl(monthly).await > 29 * 86_400_000 && ttl(hourly).await < 2 * 3_600_000);
    }
}

#[tokio::test]
async fn a_ttl_lasts_until_nothing_counts_and_a_second() {
    for server in Server::each().await {
        for bound in each(10, MINUTE) {
            let key = key_of("a", bound.algorithm.as_str());
            let reply = server.check(call(key, bound, 5)).await;
            let (ttl, due) =
                (server.ttl_ms(key.as_bytes()).await, i64::try_from(reply.reset_after_us.div_ceil(1_000)).expect("it fits") + 1_000);
            // Rounded up to a whole second of the clock.
            assert!(ttl <= due + 1_001 && ttl > due - 500, "{:?}: {ttl} for {due}", bound.algorithm);
        }
        // The life of a key follows its window, also when the check that finds the change is refused.
        let key = key("b");
        server.check(call(key, sliding(1, HOUR), 1)).await;
        assert!(!server.check(call(key, sliding(1, MINUTE), 1)).await.allowed);
        let ttl = server.ttl_ms(key.as_bytes()).await;
        assert!(ttl > 59_000 && ttl <= 63_000, "{ttl}");
    }
}

/// BB-10: at the very end of its life a counter is there or not: it goes on with its count, or begins anew, and lives on either way.
#[tokio::test]
async fn bb_10_a_counter_about_to_expire_is_whole() {
    for server in Server::each().await {
        for bound in each(1_000, HOUR) {
            for (round, ttl) in [1, 1, 2, 1, 0, 1, 1, 2, 1, 1].into_iter().enumerate() {
                let key = key_of(&format!("user{round}"), bound.algorithm.as_str());
                let first = server.check(call(key, bound, 400)).await;
                server.ask::<i64>(redis::cmd("PEXPIRE").arg(key.as_bytes()).arg(ttl)).await;
                let second = server.check(call(key, bound, 1)).await;
                let what = format!("{:?}: {first:?}, {second:?}", bound.algorithm);
                assert!(second.allowed && [599, 999].contains(&second.remaining), "{what}");
                // Refilled by the time that has passed, not by the end of the old key.
                assert!(second.remaining == 999 || second.reset_after_us > first.reset_after_us / 2, "{what}");
                assert!(server.ttl_ms(key.as_bytes()).await > 1_000, "{what}");
            }
        }
    }
}

/// The largest drain times are centuries; they must not become an invalid TTL.
#[tokio::test]
async fn the_slowest_bucket_has_a_ttl() {
    for server in Server::each().await {
        let slow = bucket(1, weir_core::limit::MAX_UNITS, 366 * 24 * HOUR);
        let reply = server.check(call(key("a"), slow, weir_core::limit::MAX_UNITS)).await;
        assert!(reply.allowed);
        assert!(server.ttl_ms(key("a").as_bytes()).await > 8_000_000_000_000);
    }
}

/// In real time: what retry-after says is enough, on servers and in memory.
#[tokio::test]
async fn waiting_as_told_passes() {
    let memory = MemoryStore::new(100, std::sync::Arc::new(SystemClock));
    for bound in each(2, SECOND) {
        let one = [call(key_of("a", bound.algorithm.as_str()), bound, 1)];
        let refused = loop {
            let reply = memory.check_now(&[&one])[0][0];
            if !reply.allowed {
                break reply;
            }
        };
        tokio::time::sleep(Duration::from_micros(refused.retry_after_us.expect("it can pass"))).await;
        assert!(memory.check_now(&[&one])[0][0].allowed, "{:?}", bound.algorithm);
    }
    for server in Server::each().await {
        for bound in each(2, SECOND) {
            let one = call(key_of("a", bound.algorithm.as_str()), bound, 1);
            let refused = loop {
                let reply = server.check(&one).await;
                if !reply.allowed {
                    break reply;
                }
            };
            tokio::time::sleep(Duration::from_micros(refused.retry_after_us.expect("it can pass"))).await;
            assert!(server.check(&one).await.allowed, "{:?}", bound.algorithm);
        }
    }
}
