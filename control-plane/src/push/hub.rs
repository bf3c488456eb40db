//! The newest of everything, in memory: what streams watch.
//!
//! NOTIFY wakes it; a look at the database every few seconds is the safety net. While the database is away it keeps what it has, so that
//! agents that start or reconnect are served as before.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;
use weir_core::name::Name;
use weir_proto::v1;

use super::claim::{self, Claim};
use super::published::{Latest, Published, RING, Secrets};
use super::roster::{Roster, Stream};
use super::tokens::{Tokens, note_use};
use super::{DEAD_AFTER, MAX_STREAMS};
use crate::db;
use crate::db::set::Head;
use crate::state::App;

/// Changes that come within this time are one.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// Between two looks at the database without a notification.
const POLL: Duration = Duration::from_secs(3);
/// Before the database is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Claims made at a time.
const CLAIMS: usize = 3;
/// A look at the database that takes longer has failed.
const LOOK: Duration = Duration::from_secs(10);

/// What a look at the database is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Something was published: as quick as can be.
    Sets,
    /// Everything, by the clock.
    All,
}

/// The newest of everything, and the streams that watch it.
pub struct Hub {
    app: App,
    replica: Uuid,
    latest: watch::Sender<Arc<Latest>>,
    roster: Roster,
    tokens: Tokens,
    /// So that agents that all reconnect at once leave connections to the database for the others.
    claims: Semaphore,
}

impl Hub {
    /// A hub that knows nothing yet.
    #[must_use]
    pub fn new(app: App) -> Arc<Self> {
        let latest = watch::Sender::new(Arc::default());
        Arc::new(Self {
            app,
            replica: Uuid::now_v7(),
            latest,
            roster: Roster::default(),
            tokens: Tokens::default(),
            claims: Semaphore::new(CLAIMS),
        })
    }

    /// The shared parts.
    #[must_use]
    pub fn app(&self) -> &App {
        &self.app
    }

    /// This process, among all replicas.
    #[must_use]
    pub fn replica(&self) -> Uuid {
        self.replica
    }

    /// The open streams.
    #[must_use]
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// The good tokens.
    #[must_use]
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Claims a stream's name for its token.
    ///
    /// # Errors
    /// The database is away: nobody knows, and the claim must be repeated.
    pub async fn claim(&self, stream: &Stream) -> sqlx::Result<Claim> {
        let _turn = self.claims.acquire().await.map_err(|_| sqlx::Error::PoolClosed)?;
        let claim = claim::claim(&self.app.pool, stream, self.replica).await?;
        if let Claim::Granted(refused) = &claim {
            let mut state = stream.state();
            state.claimed = true;
            for (set, refusal) in refused {
                state.report.still_refuses(set, refusal.clone());
            }
        }
        Ok(claim)
    }

    /// Watches the newest.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Arc<Latest>> {
        self.latest.subscribe()
    }

    /// Returns when no stream is open any more.
    pub async fn all_left(&self) {
        while !self.roster.all().is_empty() {
            self.roster.changed().await;
        }
    }

    /// Follows the database until the control plane stops.
    pub async fn watch_database(self: Arc<Self>) {
        let stop = self.app.stop.clone();
        stop.run_until_cancelled(async {
            loop {
                if let Err(error) = self.follow().await {
                    tracing::warn!(%error, "the database is away; agents are served from memory");
                }
                sleep(RETRY).await;
            }
        })
        .await;
    }

    /// Follows the database until it goes away.
    async fn follow(&self) -> sqlx::Result<()> {
        let mut listener = PgListener::connect_with(&self.app.pool).await?;
        listener.listen_all([db::REVISION_CHANNEL, db::SECRETS_CHANNEL]).await?;
        // Listening first: what is published from here on is either seen by this look or notified.
        self.look(Look::All).await?;
        let mut next_poll = Instant::now() + POLL;
        loop {
            let look = match tokio::time::timeout_at(next_poll, listener.try_recv()).await {
                Ok(Ok(Some(_))) => {
                    sleep(DEBOUNCE).await;
                    while listener.next_buffered().is_some() {}
                    Look::Sets
                }
                // The connection was lost, and notifications with it.
                Ok(Ok(None)) | Err(_) => Look::All,
                Ok(Err(error)) => return Err(error),
            };
            if look == Look::All {
                next_poll = Instant::now() + POLL;
            }
            self.look(look).await?;
        }
    }

    async fn look(&self, look: Look) -> sqlx::Result<()> {
        let slow = |_| sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer"));
        timeout(LOOK, self.look_at_sets()).await.map_err(slow)??;
        if look == Look::All {
            timeout(LOOK, self.look_at_agents()).await.map_err(slow)??;
        }
        Ok(())
    }

    /// Loads what is another revision than the known one.
    async fn look_at_sets(&self) -> sqlx::Result<()> {
        let mut connection = self.app.pool.acquire().await?;
        let heads = db::set::heads(&mut connection).await?;
        let mut next = Latest::clone(&self.latest.borrow());
        let mut changed = false;
        for head in heads.into_iter().filter(|head| head.revision > 0 || head.domain == RING) {
            // Not only what is newer: a database that was restored from a backup counts again from where that was made.
            if next.sets.get(head.domain.as_str()).is_none_or(|known| (known.revision, known.hash) != (head.revision, head.hash)) {
                let published = load(&mut connection, &head).await?;
                tracing::debug!(set = head.domain, revision = head.revision, "revision loaded");
                next.sets.insert(published.set.clone(), Arc::new(published));
                changed = true;
            }
        }
        let secrets = load_secrets(&mut connection).await?;
        if next.secrets.as_ref().is_none_or(|known| known.fingerprint() != secrets.fingerprint()) {
            next.secrets = Some(Arc::new(secrets));
            changed = true;
        }
        if changed {
            self.latest.send_replace(Arc::new(next));
        }
        Ok(())
    }

    /// Tokens that are gone, agents that are gone, and how many live.
    async fn look_at_agents(&self) -> sqlx::Result<()> {
        let mut connection = self.app.pool.acquire().await?;
        if let Some(good) = self.tokens.refresh(&mut connection).await? {
            self.roster.keep_tokens(&good);
        }
        let mut live = self.roster.live_agents();
        for (domain, agents) in live_agents(&mut connection).await? {
            let most = live.entry(domain).or_default();
            *most = (*most).max(agents);
        }
        drop(connection);
        self.latest.send_if_modified(|latest| {
            let differs = latest.live_agents != live;
            if differs {
                Arc::make_mut(latest).live_agents = live;
            }
            differs
        });
        let mut used: Vec<Uuid> = self.roster.all().iter().map(|stream| stream.token).collect();
        used.sort_unstable();
        used.dedup();
        note_use(&self.app.pool, &used).await?;
        self.forget_the_dead().await
    }

    /// Agents that were away for longer than the settings say are forgotten.
    async fn forget_the_dead(&self) -> sqlx::Result<()> {
        let kept = self.app.settings.agents_kept.max(2 * DEAD_AFTER);
        let gone = claim::forget(&self.app.pool, kept).await?;
        if gone > 0 {
            tracing::info!(gone, "agents forgotten that were away for long");
        }
        Ok(())
    }

    /// Whether there is room for a stream of this agent.
    #[must_use]
    pub fn has_room(&self, agent: &Name) -> bool {
        self.roster.has_room(agent, MAX_STREAMS)
    }

    /// Takes this stream in if there is room for it; an older one of the same agent ends.
    pub fn join(&self, stream: &Arc<Stream>) -> bool {
        self.roster.join(stream.clone(), MAX_STREAMS)
    }
}

/// Agents per domain that are connected, to whatever replica.
async fn live_agents(connection: &mut sqlx::PgConnection) -> sqlx::Result<Vec<(String, u32)>> {
    let sql = "SELECT s.domain, count(*) FROM agents a JOIN agent_sets s ON s.agent = a.name \
               WHERE a.stream IS NOT NULL AND a.last_seen > now() - make_interval(secs => $1) AND s.domain <> '' GROUP BY s.domain";
    let rows: Vec<(String, i64)> = sqlx::query_as(sql).bind(DEAD_AFTER.as_secs_f64()).fetch_all(connection).await?;
    Ok(rows.into_iter().map(|(domain, agents)| (domain, u32::try_from(agents).unwrap_or(u32::MAX))).collect())
}

async fn load(connection: &mut sqlx::PgConnection, head: &Head) -> sqlx::Result<Published> {
    let items = db::revision::items(connection, &head.domain, head.revision).await?;
    let (set, revision) = (head.domain.as_str().into(), head.revision);
    // Compression of a large set takes a while: not on a thread that streams wait for.
    let published = tokio::task::spawn_blocking(move || Published::new(set, revision, items)).await;
    let published = published.map_err(|error| sqlx::Error::Io(std::io::Error::other(error)))?;
    if published.hash != head.hash {
        tracing::error!(set = head.domain, revision = head.revision, "the stored items do not have the stored hash");
    }
    Ok(published)
}

async fn load_secrets(connection: &mut sqlx::PgConnection) -> sqlx::Result<Secrets> {
    let hash_secret = db::secret::hash_secret(connection).await?;
    let credentials = db::secret::credentials(connection).await?;
    let shards = credentials.into_iter().map(|c| v1::ShardCredentials {
        shard: c.shard,
        username: c.username.unwrap_or_default(),
        password: c.password.unwrap_or_default(),
        sentinel_username: c.sentinel_username.unwrap_or_default(),
        sentinel_password: c.sentinel_password.unwrap_or_default(),
    });
    Ok(Secrets::new(hash_secret.to_vec(), shards.collect()))
}
