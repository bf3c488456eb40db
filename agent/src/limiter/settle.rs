//! From what the shards said, or did not say, to one answer per limit: all or nothing over all of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_core::counter::CounterReply;
use weir_core::decision::{Cause, Degraded};
use weir_core::failure::FailureMode;

use super::batch::Answer;
use super::deny_cache::DenyCache;
use super::fallback::{self, Fallback, LocalCall};
use super::shard::Shard;
use super::store::Refund;
use super::{LimitAnswer, LimitQuery};

/// What one shard said about the limits that it counts.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) shard: Option<Arc<Shard>>,
    /// Positions in the request's queries.
    pub(super) members: Vec<usize>,
    pub(super) answer: Answer,
    /// How long the shard has been away.
    pub(super) away: Duration,
}

impl Heard {
    /// Nothing, because there is no shard.
    pub(super) fn nowhere(members: Vec<usize>, since: Instant, now: Instant) -> Self {
        let away = now.saturating_duration_since(since);
        Self { shard: None, members, answer: Err(Cause::NoShards), away }
    }

    /// Remembers what the shard refused when it was asked at `sent`.
    pub(super) fn note_denials(&self, queries: &[LimitQuery], denied: &DenyCache, sent: Instant) {
        let (Some(shard), Ok(replies)) = (&self.shard, &self.answer) else { return };
        for (member, reply) in self.members.iter().zip(replies) {
            denied.note(&queries[*member].call, reply, shard.name(), sent);
        }
    }
}

/// The answers to one request, and what has been taken where on its behalf.
pub(super) struct Settlement<'a> {
    queries: &'a [LimitQuery],
    fallback: &'a Fallback,
    answers: Vec<Option<LimitAnswer>>,
}

impl<'a> Settlement<'a> {
    /// Answers each of `queries` from what was heard, where it is not `known` before. If the request is refused, whatever was taken for it
    /// goes back: to the shards without waiting, and at most once.
    pub(super) fn of(
        queries: &'a [LimitQuery],
        known: Vec<Option<LimitAnswer>>,
        heard: &[Heard],
        fallback: &'a Fallback,
    ) -> Vec<Option<LimitAnswer>> {
        let mut settlement = Self { queries, fallback, answers: known };
        for group in heard {
            settlement.hear(group);
        }
        let local = settlement.decide_locally();
        if settlement.is_refused() {
            settlement.give_back(heard, &local);
        }
        settlement.answers
    }

    fn hear(&mut self, group: &Heard) {
        for (position, member) in group.members.iter().enumerate() {
            let query = &self.queries[*member];
            let (reply, degraded) = match &group.answer {
                Ok(replies) => {
                    // A shard gives one reply per limit; `script::decode` has seen to it.
                    let Some(reply) = replies.get(position) else { continue };
                    self.fallback.note(&query.call, reply);
                    let new_counters = Degraded { mode: FailureMode::Local, cause: Cause::NewCounters };
                    (*reply, reply.uncounted.then_some(new_counters))
                }
                Err(cause) => {
                    let mode = fallback::mode(&query.on_failure, group.away);
                    let reply = without_count(mode == FailureMode::Open, query.call.bound.capacity);
                    (reply, Some(Degraded { mode, cause: *cause }))
                }
            };
            let shard = group.shard.as_ref().map(|shard| shard.name().clone());
            self.answers[*member] = Some(LimitAnswer { reply, degraded, shard });
        }
    }

    /// Decides the limits of mode `local`; returns what would give their units back.
    fn decide_locally(&mut self) -> Vec<(usize, Refund)> {
        let is_local = |answer: &LimitAnswer| answer.degraded.is_some_and(|degraded| degraded.mode == FailureMode::Local);
        let lost =
            self.answers.iter_mut().enumerate().filter_map(|(member, answer)| Some((member, answer.as_mut().filter(|a| is_local(a))?)));
        let mut lost: Vec<(usize, &mut LimitAnswer)> = lost.collect();
        let queries = lost.iter().map(|(member, _)| &self.queries[*member]);
        let generosity = |query: &LimitQuery| query.on_failure.generosity;
        let calls = queries.zip(&lost).map(|(query, (_, answer))| LocalCall {
            call: &query.call,
            generosity: generosity(query),
            overflow: query.overflow.filter(|_| answer.degraded.is_some_and(|degraded| degraded.cause == Cause::NewCounters)),
        });
        let calls: Vec<_> = calls.collect();
        let mut refunds = Vec::with_capacity(lost.len());
        for ((member, answer), (reply, refund)) in lost.iter_mut().zip(self.fallback.decide(&calls)) {
            answer.reply = reply;
            refunds.push((*member, refund));
        }
        refunds
    }

    /// Whether this limit took the request's cost, or would have if another had not refused.
    fn allows(&self, member: usize) -> bool {
        self.answers[member].as_ref().is_some_and(|answer| answer.reply.allowed)
    }

    fn refuses(&self, member: usize) -> bool {
        !self.queries[member].call.shadow && !self.allows(member)
    }

    fn is_refused(&self) -> bool {
        (0..self.answers.len()).any(|member| self.refuses(member))
    }

    fn give_back(&mut self, heard: &[Heard], local: &[(usize, Refund)]) {
        for group in heard {
            let (Some(shard), Ok(replies)) = (&group.shard, &group.answer) else { continue };
            let refunds = self.taken(&group.members, replies);
            if !refunds.is_empty() {
                shard.refund(refunds);
            }
        }
        let members: Vec<usize> = local.iter().map(|(member, _)| *member).collect();
        let replies = members.iter().filter_map(|member| self.answers[*member].as_ref().map(|answer| answer.reply));
        let replies: Vec<CounterReply> = replies.collect();
        if !self.taken(&members, &replies).is_empty() {
            let taken = local.iter().filter(|(member, _)| self.queries[*member].call.writes() && self.allows(*member));
            self.fallback.refund(&taken.map(|(_, refund)| refund.clone()).collect::<Vec<_>>());
        }
    }

    /// What a store took for `members`, all of which it decided together with these replies: nothing if one of them refused. What goes back
    /// is in the answers' `remaining` again.
    fn taken(&mut self, members: &[usize], replies: &[CounterReply]) -> Vec<Refund> {
        let queries = self.queries;
        let mut decided = members.iter().zip(replies);
        if decided.any(|(member, reply)| !queries[*member].call.shadow && !reply.allowed) {
            return Vec::new();
        }
        let mut refunds = Vec::new();
        for (member, said) in members.iter().zip(replies) {
            let (call, Some(LimitAnswer { reply, .. })) = (&queries[*member].call, &mut self.answers[*member]) else { continue };
            if call.writes() && said.allowed && !said.uncounted {
                refunds.push(Refund::of(call, said));
                reply.remaining = reply.remaining.saturating_add(call.units()).min(call.bound.capacity);
            }
        }
        refunds
    }
}

/// A reply that no counter gave.
fn without_count(allowed: bool, remaining: u64) -> CounterReply {
    CounterReply { allowed, remaining, reset_after_us: 0, retry_after_us: None, time_us: 0, replaced: false, uncounted: false }
}
