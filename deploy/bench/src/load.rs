//! A closed loop on the whole library: match, key, ring, batch, Lua, decision. Each caller asks again as soon as it is answered.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::ensure;
use rand::{RngExt as _, SeedableRng as _};
use weir_agent::Agent;

use crate::Done;
use crate::agent;

/// Which subject asks next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subjects {
    /// Any of so many.
    Any(u32),
    /// One of so many after the other.
    InTurn(u32),
    /// Always the same.
    One,
}

/// What is asked.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) path: String,
    pub(crate) callers: u64,
    pub(crate) subjects: Subjects,
    /// Whether all of it passes, or none.
    pub(crate) passes: bool,
}

impl Load {
    /// Checks of all callers for `length`.
    ///
    /// # Errors
    /// If an answer is not the one expected: then the figure would mean nothing.
    pub(crate) async fn run(&self, agent: &Agent, length: Duration) -> anyhow::Result<Done> {
        self.run_until(agent, Some(Instant::now() + length)).await
    }

    /// Each subject once, to make its counters.
    pub(crate) async fn once(&self, agent: &Agent) -> anyhow::Result<Done> {
        self.run_until(agent, None).await
    }

    async fn run_until(&self, agent: &Agent, end: Option<Instant>) -> anyhow::Result<Done> {
        let start = Instant::now();
        let turn = Cell::new(0);
        let callers = (0..self.callers).map(|_| self.caller(agent, &turn, end));
        let checks = futures::future::try_join_all(callers).await?.into_iter().sum();
        Ok(Done { checks, seconds: start.elapsed().as_secs_f64() })
    }

    async fn caller(&self, agent: &Agent, turn: &Cell<u32>, end: Option<Instant>) -> anyhow::Result<u64> {
        let mut rng = rand::rngs::SmallRng::seed_from_u64(rand::random());
        let headers = http::HeaderMap::new();
        let mut done = 0;
        while let Some(number) = self.next(&mut rng, turn, end) {
            let id = number.to_string();
            let decision = agent.check(&agent::request(&headers, &self.path, &id)).await?;
            ensure!(decision.degraded.is_none(), "a check was degraded: {:?}", decision.degraded);
            ensure!(end.is_none() || decision.allowed() == self.passes, "subject {id}: {:?}", decision.reason);
            done += 1;
        }
        Ok(done)
    }

    /// The next subject, unless the time is over (or, without an end, all have had their turn).
    fn next(&self, rng: &mut rand::rngs::SmallRng, turn: &Cell<u32>, end: Option<Instant>) -> Option<u32> {
        match (end, self.subjects) {
            (Some(end), _) if Instant::now() >= end => None,
            (Some(_), Subjects::One) => Some(0),
            (Some(_), Subjects::Any(count)) => Some(rng.random_range(0..count)),
            (Some(_), Subjects::InTurn(count)) => Some(turn.replace((turn.get() + 1) % count)),
            (None, subjects) => {
                let number = turn.replace(turn.get() + 1);
                (number < subjects.count()).then_some(number)
            }
        }
    }
}

impl Subjects {
    fn count(self) -> u32 {
        match self {
            Self::Any(count) | Self::InTurn(count) => count,
            Self::One => 1,
        }
    }
}
