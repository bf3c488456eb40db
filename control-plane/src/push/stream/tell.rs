//! What an agent is told on its stream.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use weir_proto::v1;
use weir_proto::v1::server_message::Message as ToAgent;

use super::super::DEAD_AFTER;
use super::super::published::{Latest, RING};
use super::super::session::Due;
use super::{FAREWELL, Link, message, millis};

/// Between two pings.
const PING: Duration = Duration::from_secs(5);
/// The age at which a stream is asked to begin anew, so that streams spread over replicas; up to a quarter less by chance.
const MAX_AGE: Duration = Duration::from_secs(6 * 3_600);

impl Link {
    /// Sends what is due, and pings, until the agent does not read or the stream is old; why.
    pub(super) async fn tell(&self) -> &'static str {
        let mut latest = self.hub.watch();
        let mut ping = interval(PING);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let too_old = Instant::now() + MAX_AGE.mul_f64(1.0 - 0.25 * rand::random::<f64>());
        loop {
            if self.send_due(&mut latest).await.is_err() {
                return "the agent does not read";
            }
            let retry = self.session().next_retry().map_or(too_old, Instant::from_std);
            tokio::select! {
                _ = latest.changed() => {}
                () = self.wake.notified() => {}
                () = sleep_until(retry.min(too_old)) => {
                    if Instant::now() >= too_old {
                        return self.drain("it is old").await;
                    }
                }
                _ = ping.tick() => {
                    let message = self.ping(&latest.borrow_and_update().clone());
                    if self.send(message).await.is_err() {
                        return "the agent does not read";
                    }
                }
            }
        }
    }

    /// Sends all that is due, looking anew at the newest after each: what came while the agent was slow to read is skipped.
    async fn send_due(&self, latest: &mut watch::Receiver<Arc<Latest>>) -> Result<(), ()> {
        loop {
            let newest = latest.borrow_and_update().clone();
            let Some(due) = self.session().due(&newest, Instant::now().into_std()) else { return Ok(()) };
            match due {
                Due::Secrets => {
                    let secrets = newest.secrets.as_ref().map(|secrets| secrets.message()).unwrap_or_default();
                    self.send(ToAgent::Secrets(secrets)).await?;
                }
                Due::UpToDate(published) => {
                    self.note_runs(&published.set, published.revision, published.hash);
                    self.send(ToAgent::UpToDate(v1::UpToDate { current: Some(published.have()) })).await?;
                }
                Due::Snapshot(published) => {
                    for chunk in published.snapshot() {
                        self.send(ToAgent::Snapshot(chunk)).await?;
                    }
                    self.metrics().snapshots.inc();
                }
            }
        }
    }

    fn ping(&self, latest: &Latest) -> ToAgent {
        let wanted = || self.stream.sets.iter();
        ToAgent::Ping(v1::Ping {
            latest: wanted().filter_map(|set| Some(latest.sets.get(set)?.have())).collect(),
            live_agents: wanted()
                .filter(|set| ***set != *RING)
                // This agent lives, even if the count is not that far yet.
                .map(|domain| (domain.to_string(), latest.live_agents.get(&**domain).copied().unwrap_or(0).max(1)))
                .collect(),
        })
    }

    /// Asks the agent to reconnect.
    pub(super) async fn drain(&self, why: &'static str) -> &'static str {
        let after = Duration::from_millis(rand::random_range(200..2_000));
        let drain = ToAgent::Drain(v1::Drain { reconnect_after_ms: millis(after) });
        let _ = timeout(FAREWELL, self.outbound.send(Ok(message(drain)))).await;
        why
    }

    /// Sends a message; an agent that does not take it for as long as we would wait for one of its own is gone.
    async fn send(&self, to_agent: ToAgent) -> Result<(), ()> {
        timeout(DEAD_AFTER, self.outbound.send(Ok(message(to_agent)))).await.map_err(drop)?.map_err(drop)
    }
}
