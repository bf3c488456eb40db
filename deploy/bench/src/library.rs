//! The whole library: match, key, ring, batch, Lua, decision.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rand::{RngExt as _, SeedableRng as _};
use weir_agent::Agent;
use weir_testbed::Redis;

use crate::{Done, agent};

const SUBJECTS: u32 = 1_000_000;
const CALLERS: u64 = 1024;

/// An agent on one Redis.
pub(crate) struct Library {
    agent: Agent,
    degraded: Cell<u64>,
}

impl Library {
    pub(crate) async fn prepare(redis: &Redis) -> anyhow::Result<Self> {
        let agent = agent::on(std::slice::from_ref(redis), Duration::from_millis(500)).await?;
        Ok(Self { agent, degraded: Cell::new(0) })
    }

    /// Checks that were answered without the shard, in all slices.
    pub(crate) fn degraded(&self) -> u64 {
        self.degraded.get()
    }

    /// Checks of all callers for `length`, of other subjects in each round.
    pub(crate) async fn slice(&self, round: u64, length: Duration) -> anyhow::Result<Done> {
        let start = Instant::now();
        let end = start + length;
        let callers = (0..CALLERS).map(|caller| self.caller(round * CALLERS + caller, end));
        let checks = futures::future::try_join_all(callers).await?.into_iter().sum();
        Ok(Done { checks, seconds: start.elapsed().as_secs_f64() })
    }

    async fn caller(&self, seed: u64, end: Instant) -> anyhow::Result<u64> {
        let mut rng = rand::rngs::SmallRng::seed_from_u64(seed);
        let headers = http::HeaderMap::new();
        let mut done = 0;
        while Instant::now() < end {
            let id = rng.random_range(0..SUBJECTS).to_string();
            let decision = self.agent.check(&agent::request(&headers, &id)).await?;
            if decision.degraded.is_some() {
                self.degraded.set(self.degraded.get() + 1);
            }
            done += 1;
        }
        Ok(done)
    }
}
