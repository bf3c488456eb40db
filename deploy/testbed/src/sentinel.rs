use std::net::SocketAddr;
use std::time::Duration;

use crate::error::Error;
use crate::redis::{Flavor, Redis, RedisSettings};
use crate::resp::Reply;
use crate::wait::await_until;

/// What the sentinels call the primary.
const NAME: &str = "mymaster";
/// After how many milliseconds without an answer a sentinel believes that a server is gone.
const DOWN_AFTER: &str = "500";
/// How many milliseconds a failover may take before another is tried.
const FAILOVER_TIMEOUT: &str = "3000";
const PATIENCE: Duration = Duration::from_secs(30);

/// A primary with one replica, and sentinels that watch both and promote the replica when the primary is gone.
#[derive(Debug)]
pub struct Sentineled {
    servers: [Redis; 2],
    sentinels: Vec<Redis>,
}

impl Sentineled {
    /// Starts the two servers and this many sentinels, and waits until the sentinels know of the replica and of each other.
    ///
    /// # Errors
    /// A server does not start, or the sentinels do not find each other.
    pub async fn start(flavor: Flavor, sentinels: usize, password: Option<&str>) -> Result<Self, Error> {
        // Replicas are served at once: nobody waits for more of them.
        let at_once = ("repl-diskless-sync-delay".to_owned(), "0".to_owned());
        let primary = Redis::start(RedisSettings { flavor, extra: vec![at_once.clone()], ..RedisSettings::default() }).await?;
        let port = primary.addr()?.port().to_string();
        let follows = ("replicaof 127.0.0.1".to_owned(), port.clone());
        let replica = Redis::start(RedisSettings { flavor, extra: vec![follows, at_once], ..RedisSettings::default() }).await?;
        let (quorum, mut watching) = (sentinels / 2 + 1, Vec::new());
        for _ in 0..sentinels {
            let settings = RedisSettings {
                flavor,
                password: password.map(str::to_owned),
                extra: [
                    (format!("sentinel monitor {NAME} 127.0.0.1 {port}"), quorum.to_string()),
                    (format!("sentinel down-after-milliseconds {NAME}"), DOWN_AFTER.to_owned()),
                    (format!("sentinel failover-timeout {NAME}"), FAILOVER_TIMEOUT.to_owned()),
                ]
                .into_iter()
                .chain(password.map(|password| ("sentinel sentinel-pass".to_owned(), password.to_owned())))
                .collect(),
                ..RedisSettings::default()
            };
            let sentinel = Redis::start_sentinel(settings).await?;
            // Looks at the servers more often than every 10 s; old versions cannot be told to.
            let _ = sentinel.ask(&["SENTINEL", "DEBUG", "info-period", "200", "publish-period", "200"]).await;
            watching.push(sentinel);
        }
        let found = Self { servers: [primary, replica], sentinels: watching };
        let (replicas, others) = ("num-slaves", (sentinels - 1).to_string());
        let synced =
            async || found.servers[1].ask(&["INFO", "replication"]).await.is_ok_and(|info| info.text().contains("master_link_status:up"));
        found.awaited("the replica does not follow", synced).await?;
        found
            .awaited("the sentinels do not find each other", async || {
                found.all_say(replicas, "1").await && found.all_say("num-other-sentinels", &others).await
            })
            .await?;
        found.awaited("the sentinels do not trust the replica", async || found.all_trust_the_replica().await).await?;
        Ok(found)
    }

    /// What the sentinels call the primary.
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// The addresses of the sentinels, `127.0.0.1:port`, separated by commas.
    ///
    /// # Errors
    /// None: every sentinel listens on TCP.
    pub fn addrs(&self) -> Result<String, Error> {
        let addrs = self.sentinels.iter().map(|sentinel| Ok(sentinel.addr()?.to_string())).collect::<Result<Vec<_>, Error>>()?;
        Ok(addrs.join(","))
    }

    /// The server that was the primary at the start, then the one that was its replica.
    pub fn servers(&self) -> &[Redis; 2] {
        &self.servers
    }

    /// Where the first sentinel says that the primary is.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn primary(&self) -> Result<Option<SocketAddr>, Error> {
        let reply = self.sentinels[0].ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).await?;
        let [host, port] = reply.list() else { return Ok(None) };
        Ok(format!("{}:{}", host.text(), port.text()).parse().ok())
    }

    /// Has the sentinels promote the replica though the primary is well: the primary becomes the replica.
    ///
    /// # Errors
    /// They refuse, or take too long.
    pub async fn fail_over(&self) -> Result<(), Error> {
        let before = self.primary().await?;
        // A replica is suitable once the sentinels have heard of its state.
        let ordered = self.awaited("no replica is suitable", async || self.sentinels[0].ask(&["SENTINEL", "FAILOVER", NAME]).await.is_ok());
        ordered.await?;
        self.awaited("no failover", async || self.primary().await.is_ok_and(|now| now != before)).await
    }

    /// Whether every sentinel has seen the replica follow the primary, so that it would promote it.
    async fn all_trust_the_replica(&self) -> bool {
        for sentinel in &self.sentinels {
            let Ok(replicas) = sentinel.ask(&["SENTINEL", "REPLICAS", NAME]).await else { return false };
            let good = |replica: &Reply| {
                replica.list().chunks_exact(2).any(|pair| pair[0].text() == "master-link-status" && pair[1].text() == "ok")
            };
            if !replicas.list().iter().any(good) {
                return false;
            }
        }
        true
    }

    async fn all_say(&self, field: &str, value: &str) -> bool {
        for sentinel in &self.sentinels {
            let Ok(reply) = sentinel.ask(&["SENTINEL", "MASTER", NAME]).await else { return false };
            if !reply.list().chunks_exact(2).any(|pair| pair[0].text() == field && pair[1].text() == value) {
                return false;
            }
        }
        true
    }

    async fn awaited(&self, complaint: &str, condition: impl AsyncFnMut() -> bool) -> Result<(), Error> {
        if await_until(PATIENCE, condition).await {
            return Ok(());
        }
        Err(Error::Failed { program: "sentinel".to_owned(), reason: complaint.to_owned(), log: String::new() })
    }
}
