//! Asking for the map: one node at a time, over a connection that is kept for a while, so that many agents do not ask the same one and do not greet
//! it anew for every question.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::seq::SliceRandom as _;
use tokio::time::timeout;

use super::Cluster;
use crate::limiter::address::Host;
use crate::limiter::connection::{DialError, Link, Target};
use crate::limiter::line::Line;
use crate::limiter::slots::{self, Stretch};

/// How long one node is asked over the same connection before it is another's turn.
pub(super) const TURN: Duration = Duration::from_secs(5);

/// A node that gave its map, and the connection to ask it again.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) host: Host,
    link: Link,
    pub(super) since: Instant,
}

impl Cluster {
    /// Asks whoever was asked last, for its turn; then the nodes and then the seeds, in any order, until one has a map.
    pub(super) async fn fetch(&self, asked: &mut Option<Asked>) -> Result<Vec<Stretch>, DialError> {
        if let Some(mut last) = asked.take().filter(|last| last.since.elapsed() < TURN)
            && let Ok(stretches) = self.ask(&mut last).await
            && !stretches.is_empty()
        {
            *asked = Some(last);
            return Ok(stretches);
        }
        let up = |line: &Arc<Line>| line.is_up().then(|| line.node.clone()).flatten();
        let mut hosts: Vec<Host> = self.map.load().lines.iter().filter_map(up).collect();
        hosts.shuffle(&mut rand::rng());
        let mut seeds = self.seeds.clone();
        seeds.shuffle(&mut rand::rng());
        hosts.extend(seeds);
        let mut failed = DialError::NoMap;
        for host in hosts {
            let asking = async {
                let link = self.dialer.dial(&Target::Server(host.clone())).await?;
                let mut asked = Asked { host: host.clone(), link, since: Instant::now() };
                Ok((self.ask(&mut asked).await?, asked))
            };
            match asking.await {
                Ok((stretches, answered)) if !stretches.is_empty() => {
                    *asked = Some(answered);
                    return Ok(stretches);
                }
                Ok(_) => {}
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    async fn ask(&self, asked: &mut Asked) -> Result<Vec<Stretch>, DialError> {
        let mut question = redis::cmd("CLUSTER");
        question.arg("SLOTS");
        let asking = question.query_async(&mut asked.link.connection);
        let answer = timeout(self.settings.connect_timeout, asking).await.map_err(|_| DialError::Timeout)?.map_err(DialError::Redis)?;
        Ok(slots::read(&answer, &asked.host))
    }
}
