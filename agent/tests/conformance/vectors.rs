//! The vectors of `lua/vectors/`: sequences of calls with the replies worked out by hand, for whoever writes another store.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use weir_agent::limiter::store::Refund;
use weir_core::counter::CounterCall;
use weir_core::limit::{Algorithm, Bound};

use crate::calls::{START, key};
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
    window_ms: u64,
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
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    key: String,
    bound: String,
    cost: u64,
    #[serde(default)]
    shadow: bool,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Reply {
    allowed: bool,
    remaining: u64,
    reset_after_us: u64,
    retry_after_us: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GiveBack {
    key: String,
    bound: String,
    units: u64,
    consumed_at_us: u64,
}

impl Sequence {
    fn bound(&self, name: &str) -> Bound {
        let limits = &self.bounds[name];
        let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.as_str() == limits.algorithm).expect("an algorithm");
        Bound { algorithm, limit: limits.limit, capacity: limits.capacity, window_us: limits.window_ms * 1_000, calendar: None }
    }

    async fn play(&self, store: &mut Clocked) {
        for (place, step) in self.steps.iter().enumerate() {
            let what = format!("{} on {}, step {place}", self.name, store.name());
            let keyed = |name: &str| key(&format!("{}/{name}", self.name));
            let to_call = |call: &Call| CounterCall {
                shadow: call.shadow,
                ..CounterCall::check(keyed(&call.key), self.bound(&call.bound), call.cost)
            };
            let requests: Vec<Vec<CounterCall>> = step.check.iter().map(|calls| calls.iter().map(to_call).collect()).collect();
            let requests: Vec<&[CounterCall]> = requests.iter().map(Vec::as_slice).collect();
            if !requests.is_empty() {
                let replies = store.check_batch(step.at_us, &requests).await;
                let said: Vec<Vec<Reply>> = replies.iter().map(|replies| replies.iter().map(Reply::from).collect()).collect();
                assert_eq!(said, step.replies, "{what}");
            }
            let to_refund = |back: &GiveBack| Refund {
                key: keyed(&back.key),
                bound: self.bound(&back.bound),
                units: back.units,
                time_us: START + back.consumed_at_us,
                lease: None,
            };
            let refunds: Vec<Refund> = step.refund.iter().map(to_refund).collect();
            if !refunds.is_empty() {
                assert_eq!(store.refund(step.at_us, &refunds).await, step.given, "{what}");
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
    assert!(sequences.len() >= 9, "the vectors are gone");
    for mut store in Clocked::each().await {
        let can_step_back = store.can_step_back();
        for sequence in sequences.iter().filter(|sequence| can_step_back || !sequence.clock_steps_back) {
            sequence.play(&mut store).await;
        }
    }
}
