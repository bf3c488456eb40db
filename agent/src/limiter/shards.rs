//! The shards of one ring, and which of them a request asks.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;
use tokio::time::timeout_at;
use weir_core::counter::CounterCall;
use weir_core::decision::Cause;
use weir_core::key::CounterKey;
use weir_core::name::Name;

use super::LimitQuery;
use super::about::Facts;
use super::batch::Answer;
use super::metrics::LimiterMetrics;
use super::ring::Ring;
use super::settings::{LimiterSettings, MAX_WEIGHT, RingConfig};
use super::settle::Heard;
use super::shard::Shard;

/// The shards of one version of the ring. Never changed; a new ring is a new one.
#[derive(Debug)]
pub(super) struct Shards {
    pub(super) version: u64,
    /// In the order of their names.
    pub(super) list: Vec<Arc<Shard>>,
    ring: Ring,
    /// Since when there have been these shards, or none.
    pub(super) since: Instant,
}

impl Shards {
    pub(super) fn none(now: Instant) -> Self {
        Self { version: 0, list: Vec::new(), ring: Ring::new([]), since: now }
    }

    /// The shards of `config`. One of a name that occurs twice is taken once; those that are reached as before are the same.
    pub(super) fn replaced_by(&self, config: RingConfig, settings: &LimiterSettings, metrics: &LimiterMetrics, facts: &Arc<Facts>) -> Self {
        let mut shards = config.shards;
        shards.sort_by(|a, b| a.name.cmp(&b.name));
        shards.dedup_by(|a, b| a.name == b.name);
        let weights: Vec<u32> = shards.iter().map(|shard| shard.weight.clamp(1, MAX_WEIGHT)).collect();
        let list: Vec<Arc<Shard>> = shards
            .into_iter()
            .map(|shard| match self.list.iter().find(|old| old.is_reached_as(&shard)) {
                Some(old) => old.clone(),
                None => {
                    let handles = metrics.of(&shard.name);
                    Shard::start(shard, settings, handles, facts.clone())
                }
            })
            .collect();
        let ring = Ring::new(list.iter().zip(weights).map(|(shard, weight)| (shard.name().as_str(), weight)));
        let since = if self.list.is_empty() && list.is_empty() { self.since } else { Instant::now() };
        Self { version: config.version, list, ring, since }
    }

    /// Those of these shards that `new` does not have.
    pub(super) fn without<'a>(&'a self, new: &'a Self) -> impl Iterator<Item = &'a Arc<Shard>> {
        self.list.iter().filter(|old| !new.list.iter().any(|shard| Arc::ptr_eq(shard, old)))
    }

    pub(super) fn has(&self, name: &Name) -> bool {
        self.list.iter().any(|shard| shard.name() == name)
    }

    /// The shard that counts `key`; `None` if there are no shards.
    pub(super) fn owner(&self, key: &CounterKey) -> Option<&Arc<Shard>> {
        self.list.get(self.ring.owner(key.tag())?)
    }

    /// Asks the shards of these `members` of `queries` at once; nothing is asked if there are no shards.
    pub(super) fn ask(&self, queries: &[LimitQuery], members: impl Iterator<Item = usize>, wait_until: Instant) -> Vec<Question> {
        let mut questions: Vec<Question> = Vec::with_capacity(1);
        for member in members {
            let Some(shard) = self.owner(&queries[member].call.key) else { continue };
            let slot = shard.slot(&queries[member].call.key);
            match questions.iter_mut().find(|question| Arc::ptr_eq(&question.shard, shard) && question.slot == slot) {
                Some(question) => question.members.push(member),
                None => {
                    questions.push(Question { shard: shard.clone(), slot, members: vec![member], wait_until, sent: Err(Cause::NoShards) });
                }
            }
        }
        for question in &mut questions {
            let creates = question.shard.creates_counters(question.slot);
            let call = |query: &LimitQuery| CounterCall { may_create: creates || query.overflow.is_none(), ..query.call.clone() };
            let calls: Vec<CounterCall> = question.members.iter().map(|member| call(&queries[*member])).collect();
            question.sent = question.shard.ask(calls, question.slot, wait_until);
        }
        questions
    }
}

/// The limits of one request that one shard is asked about.
#[derive(Debug)]
pub(super) struct Question {
    shard: Arc<Shard>,
    /// On a cluster, the slot of all of them: a call stays within one.
    slot: Option<u16>,
    members: Vec<usize>,
    wait_until: Instant,
    sent: Result<oneshot::Receiver<Answer>, Cause>,
}

impl Question {
    /// What the shard says, or why it says nothing.
    pub(super) async fn hear(self) -> Heard {
        let answer = match self.sent {
            Ok(receiver) => match timeout_at(self.wait_until.into(), receiver).await {
                Ok(Ok(answer)) => answer,
                // The connection was given up with the call on its way.
                Ok(Err(_)) => Err(Cause::Error),
                Err(_) => Err(Cause::Timeout),
            },
            Err(cause) => Err(cause),
        };
        let away = if answer.is_err() { self.shard.away_for(self.slot, Instant::now()) } else { std::time::Duration::ZERO };
        Heard { shard: Some(self.shard), members: self.members, answer, away }
    }
}
