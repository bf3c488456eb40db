//! Peek, record, reset, and calls that may create no counter, where only a server can show it.

use weir_agent::limiter::store::CounterStore as _;
use weir_core::counter::{Action, CounterCall};
use weir_core::limit::{Bound, MAX_UNITS};

use crate::calls::{DAY, HOUR, MINUTE, SECOND, acquire, bucket, call, each, each_large, key, key_of, leases};
use crate::clocked::Clocked;
use crate::servers::Server;

fn with(action: Action, call: &CounterCall) -> CounterCall {
    CounterCall { action, ..call.clone() }
}

/// What is under each key, with its TTL taken from the clock rather than from now.
async fn everything(server: &Server) -> Vec<(Vec<u8>, Vec<u8>, i64)> {
    let mut all = Vec::new();
    for key in server.keys().await {
        let dump: Vec<u8> = server.ask(redis::cmd("DUMP").arg(&key)).await;
        // -1 where there is none.
        let ttl = i64::from(server.ttl_ms(&key).await > 0);
        all.push((key, dump, ttl));
    }
    all.sort();
    all
}

/// A peek writes nothing at all: no new key, no conversion, no healed TTL, no expired member removed, no garbage replaced.
#[tokio::test]
async fn a_peek_writes_nothing() {
    for server in Server::each().await {
        for (name, bound) in each(5, MINUTE).into_iter().map(|bound| (bound.algorithm.as_str(), bound)) {
            server.check(call(key_of("used", name), bound, 4)).await;
            server.check(call(key_of("healthy", name), bound, 4)).await;
            server.ask::<i64>(redis::cmd("PERSIST").arg(key_of("used", name).as_bytes())).await;
            server.ask::<redis::Value>(redis::cmd("SET").arg(key_of("garbage", name).as_bytes()).arg("hello")).await;
        }
        server.check(acquire(key_of("used", "leases"), leases(1, MINUTE), 1)).await;
        let before = everything(&server).await;
        for bound in each(5, MINUTE).into_iter().chain(each(3, HOUR)).chain([leases(1, MINUTE)]) {
            for subject in ["used", "healthy", "garbage", "new"] {
                for other in each(5, MINUTE).map(|bound| bound.algorithm.as_str()).into_iter().chain(["leases"]) {
                    for cost in [0, 1, 5, 6] {
                        let peek = with(Action::Peek, &acquire(key_of(subject, other), bound, 9));
                        let reply = server.check(CounterCall { cost, ..peek }).await;
                        assert!(!reply.replaced && !reply.uncounted);
                        let fits = cost <= reply.remaining || bound.algorithm == leases(1, 1).algorithm && reply.remaining > 0;
                        assert!(reply.allowed == fits || cost == 0, "{bound:?} {subject} {other} {cost}: {reply:?}");
                    }
                }
            }
        }
        assert_eq!(everything(&server).await, before);
    }
}

/// What is recorded is past the limit by at most one further capacity, also at the largest limits; and it leaves like any unit.
#[tokio::test]
async fn a_record_goes_past_the_limit_by_at_most_one_capacity() {
    for mut store in Clocked::everywhere().await {
        for bound in each(10, MINUTE) {
            let counter = key_of("a", bound.algorithm.as_str());
            for _ in 0..5 {
                let reply = store.check(0, with(Action::Record, &call(counter, bound, 8))).await;
                assert_eq!((reply.allowed, reply.retry_after_us), (true, Some(0)), "{} {bound:?}", store.name());
            }
            // Twice the capacity is used, so a bucket needs a window until it refuses no more, and the others forget all at once.
            let reply = store.check(0, call(counter, bound, 1)).await;
            assert_eq!((reply.allowed, reply.remaining), (false, 0), "{} {bound:?}", store.name());
            let wait = reply.retry_after_us.expect("within the limit");
            assert!(wait <= MINUTE + 6 * SECOND, "{} {bound:?}: {wait}", store.name());
            assert!(store.check(wait, call(counter, bound, 1)).await.allowed, "{} {bound:?}", store.name());
        }
        for bound in each_large(MAX_UNITS, DAY) {
            let counter = key_of("large", bound.algorithm.as_str());
            for _ in 0..3 {
                assert!(store.check(0, with(Action::Record, &call(counter, bound, MAX_UNITS))).await.allowed);
            }
            assert!(!store.check(1, call(counter, bound, 2)).await.allowed, "{} {bound:?}", store.name());
            assert!(store.check(3 * DAY, call(counter, bound, MAX_UNITS)).await.allowed, "{} {bound:?}", store.name());
        }
        // Lowered far below what is used: nothing more is recorded, nothing is taken away.
        let (high, low): (Bound, Bound) = (bucket(100, 100, HOUR), bucket(10, 10, HOUR));
        assert!(store.check(0, call(key("b"), high, 100)).await.allowed);
        assert!(store.check(0, with(Action::Record, &call(key("b"), low, 5))).await.allowed);
        assert_eq!(store.check(0, call(key("b"), high, 0)).await.remaining, 0, "{}", store.name());
    }
}

/// A record in a request that another limit refuses is not made.
#[tokio::test]
async fn a_record_is_all_or_nothing_too() {
    for mut store in Clocked::everywhere().await {
        let (recorded, refusing) = (bucket(10, 10, HOUR), bucket(1, 1, HOUR));
        let calls = [with(Action::Record, &call(key_of("a", "r"), recorded, 4)), call(key_of("a", "c"), refusing, 1)];
        for (left, passes) in [(6, true), (6, false)] {
            let replies = store.check_batch(0, &[&calls]).await.remove(0);
            assert_eq!((replies[0].allowed, replies[0].remaining, replies[1].allowed), (true, left, passes), "{}", store.name());
        }
    }
}

/// Where no counter may be created none is, whatever the algorithm; one that exists is used and lives on. Whatever exists counts as existing, a
/// value of another type too.
#[tokio::test]
async fn no_counter_is_created_where_none_may_be() {
    for server in Server::each().await {
        let bounds = each(5, MINUTE).into_iter().chain([leases(5, MINUTE)]);
        let guarded = |call: CounterCall| CounterCall { may_create: false, ..call };
        for bound in bounds {
            let name = bound.algorithm.as_str();
            let one = [guarded(acquire(key_of("new", name), bound, 1))];
            // In batches of a repeated key too.
            let replies = server.store.check(&[&one, &one]).await.expect("decisions").concat();
            assert!(replies.iter().all(|reply| reply.allowed && reply.uncounted && reply.remaining == 5), "{name}: {replies:?}");
            assert_eq!(server.keys().await.len(), 0, "{name}");

            let known = key_of("known", name);
            server.check(acquire(known, bound, 1)).await;
            let reply = server.check(guarded(acquire(known, bound, 2))).await;
            assert_eq!((reply.allowed, reply.uncounted, reply.remaining), (true, false, 3), "{name}");
            assert!(server.ttl_ms(known.as_bytes()).await > 0, "{name}");
            server.ask::<i64>(redis::cmd("DEL").arg(known.as_bytes())).await;

            server.ask::<i64>(redis::cmd("SADD").arg(known.as_bytes()).arg("x")).await;
            let reply = server.check(guarded(acquire(known, bound, 2))).await;
            assert_eq!((reply.allowed, reply.uncounted, reply.replaced), (true, false, true), "{name}");
            server.ask::<i64>(redis::cmd("DEL").arg(known.as_bytes())).await;
        }
        // A request of which one limit has no counter takes the others, if they pass.
        let both = |cost| [guarded(call(key_of("a", "new"), bucket(5, 5, MINUTE), 1)), call(key_of("a", "old"), bucket(5, 5, DAY), cost)];
        let replies = server.check_all(&both(4)).await;
        assert_eq!((replies[0].uncounted, replies[1].remaining), (true, 1));
        let replies = server.check_all(&both(4)).await;
        assert_eq!((replies[0].uncounted, replies[1].allowed, replies[1].remaining), (true, false, 1));
        assert_eq!(server.keys().await.len(), 1);
    }
}
