//! What is done with counters besides checks: give back, clear, end a lease. Each is sent at most once, to the shard that owns the counter.

use std::sync::Arc;
use std::time::Instant;

use tokio::time::timeout_at;
use weir_core::decision::Cause;
use weir_core::key::CounterKey;

use super::batch::MAX_COUNTERS;
use super::settings::CountOn;
use super::shard::Shard;
use super::store::{Refund, Release};
use super::work::Work;
use super::{Limiter, wait_until};

/// One of several things to do, with the counter that it is done to.
trait Item: Clone {
    fn key(&self) -> &CounterKey;
    fn work(items: Vec<Self>) -> Work;
}

impl Item for Refund {
    fn key(&self) -> &CounterKey {
        &self.key
    }

    fn work(items: Vec<Self>) -> Work {
        Work::Refunds(items)
    }
}

impl Item for CounterKey {
    fn key(&self) -> &CounterKey {
        self
    }

    fn work(items: Vec<Self>) -> Work {
        Work::Resets(items)
    }
}

impl Limiter {
    /// Gives units back that were consumed, each at most once, by `deadline` at the latest. Returns the units that really came back: none
    /// where the counter is gone, counts by another algorithm now, or has begun another fixed window.
    ///
    /// # Errors
    /// Per refund, why the shard did not answer. It may have come back all the same, except where the shard was not asked.
    pub async fn refund(&self, refunds: Vec<Refund>, deadline: Instant) -> Vec<Result<u64, Cause>> {
        if self.settings.count_on == CountOn::Memory {
            return self.memory.refund_now(&refunds).into_iter().map(Ok).collect();
        }
        let given = self.send(&refunds, deadline).await;
        for refund in &refunds {
            self.forget_denials(&refund.key);
        }
        given
    }

    /// Clears counters, by `deadline` at the latest: what this process counted in place of their shard too. Returns whether there was one.
    ///
    /// # Errors
    /// Per counter, why the shard did not answer. It may be cleared all the same, except where the shard was not asked.
    pub async fn reset(&self, keys: &[CounterKey], deadline: Instant) -> Vec<Result<bool, Cause>> {
        if self.settings.count_on == CountOn::Memory {
            return self.memory.reset_now(keys).into_iter().map(Ok).collect();
        }
        let cleared = self.send(keys, deadline).await;
        // Only now, since a check that is answered in between notes what the shard had left before.
        for key in keys {
            self.fallback.reset(key);
            self.forget_denials(key);
        }
        cleared.into_iter().map(|count| count.map(|count| count > 0)).collect()
    }

    /// Ends leases, by `deadline` at the latest. Returns whether each was there.
    ///
    /// # Errors
    /// Per lease, why the shard did not answer; the lease expires by itself.
    pub async fn release(&self, releases: &[Release], deadline: Instant) -> Vec<Result<bool, Cause>> {
        if self.settings.count_on == CountOn::Memory {
            return self.memory.release_now(releases).into_iter().map(Ok).collect();
        }
        let locally = self.fallback.release(releases);
        let elsewhere = releases.iter().zip(&locally).filter(|(_, here)| !**here).map(|(release, _)| Refund::from(*release));
        let elsewhere: Vec<Refund> = elsewhere.collect();
        let mut sent = self.send(&elsewhere, deadline).await.into_iter();
        let released = locally.into_iter().map(|here| match here {
            true => Ok(true),
            false => sent.next().map_or(Err(Cause::Error), |count| count.map(|count| count > 0)),
        });
        released.collect()
    }

    /// Ends leases without waiting. What cannot be sent is counted as lost, and expires by itself.
    pub fn release_later(&self, releases: &[Release]) {
        if self.settings.count_on == CountOn::Memory {
            self.memory.release_now(releases);
            return;
        }
        let locally = self.fallback.release(releases);
        let elsewhere = releases.iter().zip(locally).filter(|(_, here)| !here).map(|(release, _)| *release);
        self.release_on_shards(elsewhere);
    }

    /// Ends leases on their shards without waiting, whatever this process holds under their names.
    pub fn release_on_shards(&self, releases: impl IntoIterator<Item = Release>) {
        let shards = self.shards.load();
        for release in releases {
            if let Some(shard) = shards.owner(&release.key) {
                shard.refund(vec![Refund::from(release)]);
            }
        }
    }

    /// Sends each item to the shard that owns its counter: all at once, those of one shard (of a cluster: one slot) together.
    async fn send<T: Item>(&self, items: &[T], deadline: Instant) -> Vec<Result<u64, Cause>> {
        let wait_until = wait_until(Instant::now(), deadline);
        let shards = self.shards.load_full();
        let mut groups: Vec<(&Arc<Shard>, Option<u16>, Vec<usize>)> = Vec::new();
        let mut results = vec![Err(Cause::Error); items.len()];
        for (member, item) in items.iter().enumerate() {
            let Some(shard) = shards.owner(item.key()) else {
                results[member] = Err(Cause::NoShards);
                continue;
            };
            let slot = shard.slot(item.key());
            let joins = |group: &&mut (&Arc<Shard>, Option<u16>, Vec<usize>)| {
                Arc::ptr_eq(group.0, shard) && group.1 == slot && group.2.len() < MAX_COUNTERS
            };
            match groups.iter_mut().find(joins) {
                Some((_, _, members)) => members.push(member),
                None => groups.push((shard, slot, vec![member])),
            }
        }
        let sent = groups.into_iter().map(|(shard, slot, members)| {
            let group = members.iter().map(|member| items[*member].clone()).collect();
            let receiver = shard.operate(T::work(group), slot, wait_until);
            (members, receiver)
        });
        let sent: Vec<_> = sent.collect();
        for (members, receiver) in sent {
            let answer = match receiver {
                Ok(receiver) => match timeout_at(wait_until.into(), receiver).await {
                    Ok(answer) => answer.unwrap_or(Err(Cause::Error)),
                    Err(_) => Err(Cause::Timeout),
                },
                Err(cause) => Err(cause),
            };
            for (place, member) in members.into_iter().enumerate() {
                results[member] = answer.as_ref().map_err(|cause| *cause).and_then(|counts| counts.get(place).copied().ok_or(Cause::Error));
            }
        }
        results
    }
}
