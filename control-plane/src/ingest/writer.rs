//! One task writes the batches of all streams: what waits is written together, in one transaction, and only then acknowledged.
//!
//! A group is all or nothing. If the database refuses it (not: is away), its batches are written one by one, so that one bad batch
//! cannot hold up the others.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::{PgConnection, PgPool};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::batch::{Batch, BatchId};
use super::merge::Merged;
use super::partitions;
use super::store;
use super::window::Progress;
use crate::db::error::is_refusal;

/// The most batches of one transaction.
const MAX_BATCHES: usize = 256;
/// About the most rows of one transaction.
const MAX_ROWS: usize = 40_000;
/// The most processes of one agent whose progress is kept. More in the days that a batch may come late is an agent that makes them up.
const KEPT_BOOTS: i64 = 256;
/// How long one transaction may take; then its batches are not acknowledged and come again.
const DEADLINE: Duration = Duration::from_secs(20);

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// It is stored, now.
    Now,
    /// It was stored before.
    Before,
    /// It will never be: the database refuses its content.
    Never(String),
}

/// The database is away; the batch was not stored, or it is not known whether it was. It must come again.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the events could not be stored: {0}")]
pub struct Away(String);

type Outcome = Result<Stored, Away>;

struct Job {
    batch: Batch,
    done: oneshot::Sender<Outcome>,
}

/// Handle on the writer; cheap to clone.
#[derive(Debug, Clone)]
pub struct Writer(mpsc::Sender<Job>);

impl Writer {
    /// A writer on `pool`, and the task that writes until `stop`.
    pub fn new(pool: PgPool, stop: CancellationToken) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, receiver) = mpsc::channel(MAX_BATCHES);
        (Self(sender), run(pool, receiver, stop))
    }

    /// Stores a batch; returns once it is safe, or is known not to be.
    ///
    /// # Errors
    /// [`Away`]: the batch must come again.
    pub async fn store(&self, batch: Batch) -> Outcome {
        let (done, outcome) = oneshot::channel();
        let stopped = || Away("the control plane stops".into());
        self.0.send(Job { batch, done }).await.map_err(|_| stopped())?;
        outcome.await.map_err(|_| stopped())?
    }
}

async fn run(pool: PgPool, mut jobs: mpsc::Receiver<Job>, stop: CancellationToken) {
    loop {
        let first = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            job = jobs.recv() => match job { Some(job) => job, None => return },
        };
        let (batches, waiting): (Vec<_>, Vec<_>) = group(first, &mut jobs).into_iter().map(|job| (job.batch, job.done)).unzip();
        let outcomes = write(&pool, &batches).await;
        for (done, outcome) in waiting.into_iter().zip(outcomes) {
            // A stream that ended in the meantime is not there to be told; its agent asks again.
            let _ = done.send(outcome);
        }
    }
}

/// What waits, up to the bounds of a transaction.
fn group(first: Job, jobs: &mut mpsc::Receiver<Job>) -> Vec<Job> {
    let mut rows = first.batch.rows();
    let mut group = vec![first];
    while group.len() < MAX_BATCHES && rows < MAX_ROWS {
        let Ok(job) = jobs.try_recv() else { break };
        rows += job.batch.rows();
        group.push(job);
    }
    group
}

/// Writes the group; if the database refuses it, batch by batch. One outcome per batch, in order.
async fn write(pool: &PgPool, batches: &[Batch]) -> Vec<Outcome> {
    match write_together(pool, batches).await {
        Ok(stored) => stored.into_iter().map(Ok).collect(),
        Err(error) if !is_refusal(&error) => {
            tracing::warn!(%error, batches = batches.len(), "events not stored; agents will send them again");
            vec![Err(Away(error.to_string())); batches.len()]
        }
        Err(error) if batches.len() == 1 => {
            tracing::error!(%error, agent = %batches[0].id.agent, sequence = batches[0].id.sequence, "a batch of events is refused for good");
            vec![Ok(Stored::Never("the database refuses its content".into()))]
        }
        Err(_) => {
            let mut outcomes = Vec::with_capacity(batches.len());
            for batch in batches {
                outcomes.extend(Box::pin(write(pool, std::slice::from_ref(batch))).await);
            }
            outcomes
        }
    }
}

/// One transaction; once more if a partition is missing (the job that makes them ahead has not run for days).
async fn write_together(pool: &PgPool, batches: &[Batch]) -> sqlx::Result<Vec<Stored>> {
    let attempt = || async {
        let late = |_| sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, "the transaction took too long"));
        tokio::time::timeout(DEADLINE, transaction(pool, batches)).await.map_err(late)?
    };
    match attempt().await {
        Err(error) if partitions::is_missing(&error) => {
            partitions::make_for(pool, batches).await?;
            attempt().await
        }
        outcome => outcome,
    }
}

async fn transaction(pool: &PgPool, batches: &[Batch]) -> sqlx::Result<Vec<Stored>> {
    let mut transaction = pool.begin().await?;
    // What is acknowledged must outlive a crash of the database, even where its settings trade that for speed.
    let durable = "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'";
    sqlx::query(durable).execute(&mut *transaction).await?;
    let mut progress = lock_progress(&mut transaction, batches).await?;
    let fresh: Vec<bool> = batches.iter().map(|batch| take(&mut progress, &batch.id)).collect();
    let new = || batches.iter().zip(&fresh).filter(|(_, fresh)| **fresh).map(|(batch, _)| batch);
    if fresh.contains(&true) {
        store::add(&mut transaction, &Merged::of(new())).await?;
        save_progress(&mut transaction, &progress, new()).await?;
    }
    transaction.commit().await?;
    Ok(fresh.into_iter().map(|fresh| if fresh { Stored::Now } else { Stored::Before }).collect())
}

/// A process of an agent.
type Process = (String, String);

fn process(id: &BatchId) -> Process {
    (id.agent.to_string(), id.boot.clone())
}

fn take(progress: &mut BTreeMap<Process, Progress>, id: &BatchId) -> bool {
    progress.get_mut(&process(id)).is_some_and(|progress| progress.take(id.sequence))
}

/// The progress of every process in the group, locked until the transaction ends, in one order.
async fn lock_progress(connection: &mut PgConnection, batches: &[Batch]) -> sqlx::Result<BTreeMap<Process, Progress>> {
    let mut known: BTreeMap<Process, Progress> = batches.iter().map(|b| (process(&b.id), Progress::default())).collect();
    let (agents, boots): (Vec<String>, Vec<String>) = known.keys().cloned().unzip();
    let started = sqlx::query(include_str!("sql/start_progress.sql")).bind(&agents).bind(&boots).execute(&mut *connection).await?;
    if started.rows_affected() > 0 {
        sqlx::query(include_str!("sql/trim_boots.sql")).bind(&agents).bind(KEPT_BOOTS).execute(&mut *connection).await?;
    }
    let rows: Vec<(String, String, i64, i64)> =
        sqlx::query_as(include_str!("sql/lock_progress.sql")).bind(&agents).bind(&boots).fetch_all(connection).await?;
    for (agent, boot, highest, seen) in rows {
        known.insert((agent, boot), Progress { highest, seen });
    }
    Ok(known)
}

async fn save_progress<'a>(
    connection: &mut PgConnection,
    progress: &BTreeMap<Process, Progress>,
    stored: impl Iterator<Item = &'a Batch>,
) -> sqlx::Result<()> {
    let mut sums: BTreeMap<Process, [i64; 3]> = BTreeMap::new();
    for batch in stored {
        let sum = sums.entry(process(&batch.id)).or_default();
        for (total, more) in sum.iter_mut().zip([1, batch.dropped, batch.refused]) {
            *total = total.saturating_add(more);
        }
    }
    let of = |process: &Process| progress.get(process).copied().unwrap_or_default();
    let (agents, boots): (Vec<String>, Vec<String>) = sums.keys().cloned().unzip();
    sqlx::query(include_str!("sql/save_progress.sql"))
        .bind(agents)
        .bind(boots)
        .bind(sums.keys().map(|p| of(p).highest).collect::<Vec<_>>())
        .bind(sums.keys().map(|p| of(p).seen).collect::<Vec<_>>())
        .bind(sums.values().map(|s| s[0]).collect::<Vec<_>>())
        .bind(sums.values().map(|s| s[1]).collect::<Vec<_>>())
        .bind(sums.values().map(|s| s[2]).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(())
}
