//! `concurrency`: who is in flight, under random histories, and on real servers.

use std::collections::HashMap;

use weir_agent::limiter::store::{CounterStore as _, Release};
use weir_core::counter::CounterCall;
use weir_core::limit::MAX_LOGGED;

use crate::calls::{MINUTE, SECOND, acquire, allowed, call, key, lease, leases, log};
use crate::clocked::Clocked;
use crate::servers::Server;

/// Whatever is acquired, released and left to expire: never more than the limit in flight, and never fewer than could be.
#[tokio::test]
async fn never_more_than_the_limit_in_flight() {
    const LIMIT: u64 = 7;
    for mut store in Clocked::everywhere().await {
        let bound = leases(LIMIT, MINUTE);
        let (mut held, mut random): (HashMap<u128, u64>, u64) = (HashMap::new(), 88_172_645_463_325_252);
        let mut now = 0;
        for round in 0..1_500u128 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            now += random % (7 * SECOND);
            held.retain(|_, acquired| *acquired + MINUTE > now);
            if random % 5 < 3 {
                let reply = store.check(now, acquire(key("a"), bound, round)).await;
                assert_eq!(reply.allowed, (held.len() as u64) < LIMIT, "{} round {round}", store.name());
                if reply.allowed {
                    held.insert(round, now);
                } else {
                    let earliest = held.values().min().expect("some");
                    assert_eq!(reply.retry_after_us, Some(earliest + MINUTE - now));
                }
                assert_eq!(reply.remaining, LIMIT - held.len() as u64);
                assert_eq!(reply.reset_after_us, held.values().max().map_or(0, |last| last + MINUTE - now));
            } else if let Some(number) = held.keys().min().copied() {
                held.remove(&number);
                let release = Release { key: key("a"), lease: lease(number) };
                assert_eq!(store.release(now, &[release, release]).await, [true, false], "{} round {round}", store.name());
            }
        }
    }
}

/// A window that is changed applies to leases that live: a lease is as old as it is.
#[tokio::test]
async fn a_changed_window_changes_the_life_of_leases() {
    for mut store in Clocked::everywhere().await {
        let (short, long) = (leases(1, 10 * SECOND), leases(1, MINUTE));
        assert!(store.check(0, acquire(key("a"), short, 1)).await.allowed);
        let reply = store.check(5 * SECOND, acquire(key("a"), long, 2)).await;
        assert_eq!((reply.allowed, reply.retry_after_us), (false, Some(55 * SECOND)), "{}", store.name());
        // The refusal has seen to it that the key lives as long.
        let reply = store.check(30 * SECOND, acquire(key("a"), long, 2)).await;
        assert_eq!((reply.allowed, reply.retry_after_us), (false, Some(30 * SECOND)), "{}", store.name());
        assert!(store.check(30 * SECOND, acquire(key("a"), short, 2)).await.allowed, "{}", store.name());
    }
}

/// A log of the largest size, and as many leases: exact, with no more in Redis than the limit, and gone when nothing counts.
#[tokio::test]
async fn the_largest_logs_count_exactly() {
    for server in Server::each().await {
        let (filled, bound) = (key("a"), log(MAX_LOGGED, MINUTE));
        let first = server.check(call(filled, bound, 1)).await.time_us;
        for _ in 1..MAX_LOGGED / 200 {
            let one = [call(filled, bound, 1)];
            let replies = server.store.check(&vec![one.as_slice(); 200]).await.expect("decisions").concat();
            assert_eq!(allowed(&replies), 200);
        }
        assert_eq!(server.check(call(filled, bound, 199)).await.remaining, 0);
        let one = [call(filled, bound, 1)];
        let refused = server.store.check(&[one.as_slice(); 200]).await.expect("decisions").concat();
        assert_eq!(allowed(&refused), 0);
        let size: u64 = server.ask(redis::cmd("ZCARD").arg(filled.as_bytes())).await;
        assert!(size <= MAX_LOGGED, "{size}");
        // The oldest leaves a window after it came, to the microsecond.
        let reply = refused.last().expect("one");
        assert_eq!(reply.retry_after_us.map(|us| us + reply.time_us), Some(first + MINUTE));

        let (held, bound) = (key("b"), leases(MAX_LOGGED, MINUTE));
        for hundred in 0..MAX_LOGGED / 100 {
            let calls: Vec<[CounterCall; 1]> = (0..100).map(|n| [acquire(held, bound, u128::from(hundred * 100 + n))]).collect();
            let batch: Vec<&[CounterCall]> = calls.iter().map(<[_; 1]>::as_slice).collect();
            assert_eq!(allowed(&server.store.check(&batch).await.expect("decisions").concat()), 100);
        }
        assert!(!server.check(acquire(held, bound, u128::MAX)).await.allowed);
        assert_eq!(server.store.release(&[Release { key: held, lease: lease(77) }]).await.expect("an answer"), [true]);
        assert!(server.check(acquire(held, bound, u128::MAX)).await.allowed);
        assert!(server.ttl_ms(held.as_bytes()).await > 0);
    }
}
