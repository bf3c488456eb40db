//! The vectors of `lua/vectors/`: sequences of calls with the replies worked out by hand, for whoever writes another store.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use weir_agent::limiter::store::{Refund, Release};
use weir_core::calendar::{Calendar, CalendarUnit, Zone};
use weir_core::counter::{Action, CounterCall};
use weir_core::key::CounterKey;
use weir_core::limit::{Algorithm, Bound};

use crate::calls::{START, key_of, lease};
use crate::clocked::Clocked;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sequence {
    name: String,
    /// The clock steps back, so a store with a monotonic clock cannot play it.
    #[serde(default)]
    clock_steps_back: bool,
    bounds: HashMap<String, Limits>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    algorithm: String,
    limit: u64,
    capacity: u64,
    /// Of windows that follow no calendar.
    window_ms: Option<u64>,
    calendar: Option<Windows>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Windows {
    unit: String,
    zone: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// Microseconds after 2026-11-30 00:00:00 UTC.
    at_us: u64,
    /// Requests, each with its limits.
    #[serde(default)]
    check: Vec<Vec<Call>>,
    #[serde(default)]
    replies: Vec<Vec<Reply>>,
    #[serde(default)]
    refund: Vec<GiveBack>,
    #[serde(default)]
    given: Vec<u64>,
    /// Counters that are cleared, and whether there was one.
    #[serde(default)]
    reset: Vec<String>,
    #[serde(default)]
    existed: Vec<bool>,
    #[serde(default)]
    release: Vec<End>,
    #[serde(default)]
    ended: Vec<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    key: String,
    bound: String,
    cost: u64,
    #[serde(default)]
    shadow: bool,
    /// `peek` or `record`; a check if absent.
    action: Option<String>,
    /// The number of a lease.
    lease: Option<u128>,
    /// Whether a counter may come to be.
    may_create: Option<bool>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Reply {
    allowed: bool,
    remaining: u64,
    reset_after_us: u64,
    retry_after_us: Option<u64>,
    #[serde(default)]
    uncounted: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GiveBack {
    key: String,
    bound: String,
    units: u64,
    /// Absent: nobody knows.
    consumed_at_us: Option<u64>,
    lease: Option<u128>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    key: String,
    lease: u128,
}

impl Sequence {
    fn bound(&self, name: &str) -> Bound {
        let limits = &self.bounds[name];
        let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.as_str() == limits.algorithm).expect("an algorithm");
        let calendar = limits.calendar.as_ref().map(|windows| Calendar {
            unit: CalendarUnit::ALL.into_iter().find(|unit| unit.as_str() == windows.unit).expect("a unit"),
            zone: Zone::new(&windows.zone).expect("a zone"),
        });
        let window_us = calendar.map_or_else(|| limits.window_ms.expect("a window") * 1_000, |calendar| calendar.unit.longest_us());
        Bound { algorithm, limit: limits.limit, capacity: limits.capacity, window_us, calendar }
    }

    /// All counters of a sequence are one subject's, so that they may be in one call.
    fn key(&self, name: &str) -> CounterKey {
        key_of(&self.name, name)
    }

    fn call(&self, call: &Call) -> CounterCall {
        CounterCall {
            shadow: call.shadow,
            action: match call.action.as_deref() {
                None => Action::Check,
                Some("peek") => Action::Peek,
                Some("record") => Action::Record,
                Some(other) => panic!("{other} is no action"),
            },
            lease: call.lease.map(lease),
            may_create: call.may_create.unwrap_or(true),
            ..CounterCall::check(self.key(&call.key), self.bound(&call.bound), call.cost)
        }
    }

    fn refund(&self, back: &GiveBack) -> Refund {
        Refund {
            key: self.key(&back.key),
            bound: self.bound(&back.bound),
            units: back.units,
            time_us: back.consumed_at_us.map_or(0, |us| START + us),
            lease: back.lease.map(lease),
        }
    }

    async fn play(&self, store: &mut Clocked) {
        for (place, step) in self.steps.iter().enumerate() {
            let what = format!("{} on {}, step {place}", self.name, store.name());
            let requests: Vec<Vec<CounterCall>> =
                step.check.iter().map(|calls| calls.iter().map(|call| self.call(call)).collect()).collect();
            let requests: Vec<&[CounterCall]> = requests.iter().map(Vec::as_slice).collect();
            if !requests.is_empty() {
                let replies = store.check_batch(step.at_us, &requests).await;
                let said: Vec<Vec<Reply>> = replies.iter().map(|replies| replies.iter().map(Reply::from).collect()).collect();
                assert_eq!(said, step.replies, "{what}");
            }
            let refunds: Vec<Refund> = step.refund.iter().map(|back| self.refund(back)).collect();
            if !refunds.is_empty() {
                assert_eq!(store.refund(step.at_us, &refunds).await, step.given, "{what}");
            }
            let keys: Vec<CounterKey> = step.reset.iter().map(|name| self.key(name)).collect();
            if !keys.is_empty() {
                assert_eq!(store.reset(step.at_us, &keys).await, step.existed, "{what}");
            }
            let releases: Vec<Release> =
                step.release.iter().map(|end| Release { key: self.key(&end.key), lease: lease(end.lease) }).collect();
            if !releases.is_empty() {
                assert_eq!(store.release(step.at_us, &releases).await, step.ended, "{what}");
            }
        }
    }
}

impl From<&weir_core::counter::CounterReply> for Reply {
    fn from(reply: &weir_core::counter::CounterReply) -> Self {
        Self {
            allowed: reply.allowed,
            remaining: reply.remaining,
            reset_after_us: reply.reset_after_us,
            retry_after_us: reply.retry_after_us,
            uncounted: reply.uncounted,
        }
    }
}

fn sequences() -> Vec<Sequence> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lua/vectors");
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("the vectors").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let read = |file: &std::path::PathBuf| -> Vec<Sequence> {
        let text = std::fs::read_to_string(file).expect("a readable file");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    };
    files.iter().flat_map(read).collect()
}

#[tokio::test]
async fn every_store_gives_the_replies_of_the_vectors() {
    let sequences = sequences();
    assert!(sequences.len() >= 24, "the vectors are gone");
    for mut store in Clocked::everywhere().await {
        let can_step_back = store.can_step_back();
        for sequence in sequences.iter().filter(|sequence| can_step_back || !sequence.clock_steps_back) {
            sequence.play(&mut store).await;
        }
    }
}
