//! Windows that follow a calendar: the agent sends their edges, the store chooses by its own clock.

use redis::cmd;
use weir_agent::limiter::script::RedisStore;
use weir_agent::limiter::store::CounterStore as _;
use weir_core::calendar::CalendarUnit::{self, Day, Hour, Month};
use weir_core::counter::CounterCall;
use weir_core::limit::Bound;

use crate::calls::{DAY, HOUR, MINUTE, SECOND, START, bucket, calendar, call, fixed, key, key_of, log};
use crate::clocked::{Clocked, State};
use crate::servers::{Server, connect};

/// Days from the start, 30 November 2026, to the first of months.
const JANUARY_2027: u64 = 32;
const FEBRUARY_2027: u64 = 63;
const MARCH_2027: u64 = 91;
const APRIL_2027: u64 = 122;
const MAY_2027: u64 = 152;
const JANUARY_2028: u64 = 397;
const FEBRUARY_2028: u64 = 428;
const MARCH_2028: u64 = 457;

/// BB-36: what was used on the first still counts on the last of a long month, and the quota begins anew on the first of the next.
#[tokio::test]
async fn bb_36_a_month_begins_on_its_first_day() {
    for mut store in Clocked::everywhere().await {
        let (name, quota) = (store.name(), calendar(100, Month, "UTC"));
        assert!(store.check(MARCH_2027 * DAY, call(key("a"), quota, 60)).await.allowed);
        assert_eq!(store.check((MARCH_2027 + 1) * DAY, call(key("a"), quota, 30)).await.remaining, 10, "{name}");
        let late = (MARCH_2027 + 30) * DAY + 12 * HOUR;
        let reply = store.check(late, call(key("a"), quota, 1)).await;
        assert_eq!((reply.remaining, reply.reset_after_us), (9, 12 * HOUR), "{name}");
        if let Some(State { ttl_ms, .. }) = store.state(late, &key("a")).await {
            // To the end of the month and a second, rounded up to a whole one.
            assert!((43_200_000..=43_202_000).contains(&ttl_ms), "{name}: {ttl_ms}");
        }
        assert_eq!(store.check(APRIL_2027 * DAY - 1, call(key("a"), quota, 10)).await.retry_after_us, Some(1), "{name}");
        assert_eq!(store.check(APRIL_2027 * DAY, call(key("a"), quota, 1)).await.remaining, 99, "{name}");
    }
}

/// BB-36: each month is as long as the calendar has it, on its last microsecond and on its first, in a leap year and over the year's end.
#[tokio::test]
async fn bb_36_months_have_their_own_lengths() {
    for mut store in Clocked::everywhere().await {
        let quota = calendar(10, Month, "UTC");
        for (month, first, next) in [
            ("January", JANUARY_2027, FEBRUARY_2027),
            ("February", FEBRUARY_2027, MARCH_2027),
            ("April", APRIL_2027, MAY_2027),
            ("December", 366, JANUARY_2028),
            ("February of a leap year", FEBRUARY_2028, MARCH_2028),
        ] {
            let (name, first, next) = (format!("{}: {month}", store.name()), first * DAY, next * DAY);
            assert_eq!(store.check(first, call(key("a"), quota, 10)).await.reset_after_us, next - first, "{name}");
            for (us, wait) in [(first + DAY, next - first - DAY), (next - SECOND, SECOND), (next - 1, 1)] {
                let reply = store.check(us, call(key("a"), quota, 1)).await;
                assert_eq!((reply.allowed, reply.retry_after_us), (false, Some(wait)), "{name} at {us}");
            }
            assert_eq!(store.check(next, call(key(month), quota, 1)).await.remaining, 9, "{name}");
        }
    }
}

/// BB-38: a day begins at its midnight in its zone, once, whether it has 23, 24 or 25 hours; no wait is longer than the day.
#[tokio::test]
async fn bb_38_each_day_begins_once_in_its_zone() {
    for mut store in Clocked::everywhere().await {
        let shanghai = calendar(10, Day, "Asia/Shanghai");
        // 23:00 there, 00:01 and 07:59 of the next day.
        assert!(store.check(15 * HOUR, call(key("a"), shanghai, 10)).await.allowed);
        assert_eq!(store.check(15 * HOUR, call(key("a"), shanghai, 1)).await.retry_after_us, Some(HOUR), "{}", store.name());
        assert_eq!(store.check(16 * HOUR + MINUTE, call(key("a"), shanghai, 1)).await.remaining, 9, "{}", store.name());
        assert_eq!(store.check(24 * HOUR - MINUTE, call(key("a"), shanghai, 1)).await.remaining, 8, "{}", store.name());

        let new_york = calendar(1, Day, "America/New_York");
        // 14 March and 7 November 2027, from two days before to two days after, every quarter of an hour.
        for (subject, middle) in [("spring", 104), ("autumn", 342)] {
            let mut passed = Vec::new();
            for quarter in 0..5 * 96 {
                let us = (middle - 2) * DAY + 5 * HOUR + quarter * 15 * MINUTE;
                let reply = store.check(us, call(key(subject), new_york, 1)).await;
                assert!(reply.retry_after_us.expect("within the limit") <= 25 * HOUR);
                if reply.allowed {
                    passed.push(us);
                }
            }
            let lengths: Vec<u64> = passed.windows(2).map(|pair| (pair[1] - pair[0]) / HOUR).collect();
            let expected = if subject == "spring" { vec![24, 24, 23, 24, 24] } else { vec![23, 24, 25, 24] };
            assert_eq!(lengths, expected, "{} in {subject}", store.name());
        }
    }
}

/// Every way to leave and enter a calendar window: nothing that was used in it is forgotten before it is over.
#[tokio::test]
async fn bb_32_a_changed_calendar_forgets_nothing() {
    for mut store in Clocked::everywhere().await {
        let bounds = [
            bucket(10, 10, DAY),
            log(10, DAY),
            fixed(10, HOUR),
            calendar(10, Hour, "Asia/Kathmandu"),
            calendar(10, Day, "Europe/Zurich"),
            calendar(10, Month, "America/New_York"),
        ];
        for (place, before) in bounds.into_iter().enumerate() {
            for (other, after) in bounds.into_iter().enumerate() {
                let (counter, noon) = (key_of("a", &format!("{place} to {other}")), 12 * HOUR);
                assert!(store.check(noon, call(counter, before, 7)).await.allowed);
                let reply = store.check(noon, call(counter, after, 4)).await;
                assert_eq!(
                    (reply.allowed, reply.remaining, reply.replaced),
                    (false, 3, false),
                    "{}: {before:?} to {after:?}",
                    store.name()
                );
                assert_eq!(store.check(noon, call(counter, after, 3)).await.remaining, 0);
                let wait = store.check(noon, call(counter, before, 1)).await.retry_after_us.expect("within the limit");
                assert!(store.check(noon + wait, call(counter, before, 1)).await.allowed, "{}: {before:?} to {after:?}", store.name());
            }
        }
    }
}

/// The store chooses the window by its own clock, whichever of the three around it the agent took for the current one. Where none fits it
/// decides nothing of the request, and all of the others.
#[tokio::test]
async fn stale_edges_decide_nothing_and_near_ones_change_nothing() {
    for mut store in Clocked::everywhere().await {
        for unit in CalendarUnit::ALL {
            let (name, quota, now) = (store.name(), calendar(10, unit, "Europe/Zurich"), 45 * DAY + 13 * HOUR);
            let dated = [call(key_of("a", unit.as_str()), quota, 1), call(key_of("a", "beside"), bucket(1_000, 1_000, DAY), 1)];
            let plain = [call(key_of("a", "alone"), fixed(1_000, DAY), 1)];
            let edges = quota.calendar.expect("one").edges(START + now);
            let [previous, start, end, next_end, _] = edges.map(|edge| edge - START);
            let mut left = Vec::new();
            for guess in [previous, start - 1, now, end, next_end - 1] {
                let Some(replies) = store.check_guessing(now, guess, &[&dated]).await else { break };
                let reply = replies[0].as_ref().expect("decided")[0];
                assert_eq!(reply.reset_after_us, end - now, "{name}: {unit:?} {guess}");
                left.push(reply.remaining);
            }
            if left.is_empty() {
                continue;
            }
            assert_eq!(left, [9, 8, 7, 6, 5], "{name}: {unit:?}");
            let mut peeks = [dated[0].clone(), dated[1].clone(), plain[0].clone()];
            peeks.iter_mut().for_each(|peek| peek.cost = 0);
            let before = store.check_batch(now, &[&peeks]).await.remove(0);
            for guess in [previous - 1, next_end, now + 3_000 * DAY] {
                let replies = store.check_guessing(now, guess, &[&dated, &plain, &dated]).await.expect("a server");
                let decided: Vec<bool> = replies.iter().map(Option::is_some).collect();
                assert_eq!(decided, [false, true, false], "{name}: {unit:?} {guess}");
            }
            let after = store.check_batch(now, &[&peeks]).await.remove(0);
            let used: Vec<u64> = before.iter().zip(after).map(|(before, after)| before.remaining - after.remaining).collect();
            assert_eq!(used, [0, 0, 3], "{name}: {unit:?}");
        }
    }
}

/// On real servers: a store that has never heard the server's clock takes it for 1970, is told, and asks once more for those requests only.
#[tokio::test]
async fn a_store_that_knows_no_time_counts_exactly() {
    for server in Server::each().await {
        let quota: Bound = calendar(100, Month, "Europe/Zurich");
        for round in 0..3u64 {
            let fresh = RedisStore::new(connect(&server.process.url()).await);
            let mixed: [[CounterCall; 1]; 3] =
                [[call(key("a"), quota, 1)], [call(key("b"), bucket(100, 100, DAY), 1)], [call(key("a"), quota, 1)]];
            let requests: Vec<&[CounterCall]> = mixed.iter().map(<[_; 1]>::as_slice).collect();
            let before: u64 = calls(&server).await;
            let left: Vec<u64> = fresh.check(&requests).await.expect("decisions").iter().map(|replies| replies[0].remaining).collect();
            assert_eq!(left, [99 - 2 * round, 99 - round, 98 - 2 * round]);
            assert_eq!(calls(&server).await - before, if round == 0 { 3 } else { 2 }, "round trips, the first with NOSCRIPT");
            // Heard once, it needs one.
            let before: u64 = calls(&server).await;
            fresh.check(&[&[call(key("c"), quota, 1)]]).await.expect("a decision");
            assert_eq!(calls(&server).await - before, 1);
        }
    }
}

/// Calls of the script so far, unsuccessful ones included.
async fn calls(server: &Server) -> u64 {
    let info: String = server.ask(cmd("INFO").arg("commandstats")).await;
    let line = info.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap_or_default();
    line.split([':', ',']).find_map(|part| part.strip_prefix("calls=")?.parse().ok()).unwrap_or_default()
}
