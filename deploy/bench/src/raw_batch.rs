//! The driver script with 32 checks per call and nothing around it: what the library could reach at most.

use std::time::{Duration, Instant};

use rand::{RngExt as _, SeedableRng as _};
use redis::aio::MultiplexedConnection;
use weir_agent::limiter::script;
use weir_core::counter::CounterCall;
use weir_core::key::{HashSecret, Tag, counter_key};
use weir_core::limit::{Algorithm, Bound};
use weir_core::subject::Subject;
use weir_testbed::Redis;

use crate::Done;

const SUBJECTS: u32 = 1_000_000;
const BATCH: usize = 32;
const IN_FLIGHT: u64 = 8;
/// Batches made beforehand for each caller, so that making them costs nothing while the clock runs: as many checks in all as there are
/// subjects.
const PREPARED: usize = SUBJECTS as usize / BATCH / IN_FLIGHT as usize;

/// A connection with prepared batches.
pub(crate) struct RawBatch {
    connection: MultiplexedConnection,
    batches: Vec<Vec<redis::Cmd>>,
}

impl RawBatch {
    pub(crate) async fn prepare(redis: &Redis) -> anyhow::Result<Self> {
        let mut connection = redis::Client::open(redis.url())?.get_multiplexed_async_connection().await?;
        script::load(&mut connection).await?;
        let batches = (0..IN_FLIGHT).map(|seed| (0..PREPARED).map(|i| batch(seed * 1000 + i as u64)).collect()).collect();
        Ok(Self { connection, batches })
    }

    /// Prepared batches for `length`.
    pub(crate) async fn slice(&self, length: Duration) -> anyhow::Result<Done> {
        let start = Instant::now();
        let end = start + length;
        let callers = self.batches.iter().map(|batches| self.caller(batches, end));
        let checks = futures::future::try_join_all(callers).await?.into_iter().sum();
        Ok(Done { checks, seconds: start.elapsed().as_secs_f64() })
    }

    async fn caller(&self, batches: &[redis::Cmd], end: Instant) -> anyhow::Result<u64> {
        let mut connection = self.connection.clone();
        let mut done = 0;
        // Where the last slice ended is forgotten: starting anywhere keeps the batches from being the same ones each time.
        let start = rand::rng().random_range(0..batches.len());
        for command in batches.iter().cycle().skip(start) {
            if Instant::now() >= end {
                break;
            }
            let _reply: Vec<u8> = command.query_async(&mut connection).await?;
            done += BATCH as u64;
        }
        Ok(done)
    }
}

fn batch(seed: u64) -> redis::Cmd {
    let mut rng = rand::rngs::SmallRng::seed_from_u64(seed);
    let secret = HashSecret::built_in();
    let bound = Bound { algorithm: Algorithm::TokenBucket, limit: 1_000, capacity: 1_000, window_us: 86_400_000_000, calendar: None };
    let calls: Vec<[CounterCall; 1]> = (0..BATCH)
        .map(|_| {
            let id = rng.random_range(0..SUBJECTS).to_string();
            let subject = Subject::new("user", id.as_bytes()).unwrap_or_else(|| Subject::from_ip(std::net::Ipv4Addr::LOCALHOST.into(), 64));
            let key = counter_key(&secret, Tag::of_subject(&secret, "default", &subject), "raw", &[]);
            [CounterCall::check(key, bound, 1)]
        })
        .collect();
    let requests: Vec<&[CounterCall]> = calls.iter().map(<[_; 1]>::as_slice).collect();
    script::encode(&requests, 0)
}
