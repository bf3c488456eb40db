//! Writes what agents said to the database: in bulk, as soon as the database is there, and never in the way of a stream.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::time::sleep;
use uuid::Uuid;

use super::claim::Claim;
use super::hub::Hub;
use super::report::{Report, SetReport};
use super::roster::{Ending, Stream};
use crate::db::error::is_refusal;

/// Acks that come within this time are written together.
const GATHER: Duration = Duration::from_millis(30);
/// Heartbeats wait for this long at most.
const EVERY: Duration = Duration::from_secs(1);
/// How long a last write may take when the control plane stops.
const LAST: Duration = Duration::from_secs(1);

/// Writes until the control plane stops, and then once more when the last stream has ended. A write that is under way then is not given up
/// at once: it has taken out of the roster what it writes.
pub async fn run(hub: Arc<Hub>) {
    let stop = hub.app().stop.clone();
    let mut failing = false;
    while !stop.is_cancelled() {
        let something = async {
            hub.roster().changed().await;
            sleep(GATHER).await;
        };
        tokio::select! {
            () = something => {}
            () = sleep(EVERY) => {}
            () = stop.cancelled() => {}
        }
        let too_late = async {
            stop.cancelled().await;
            sleep(LAST).await;
        };
        let result = tokio::select! {
            result = flush(&hub) => Some(result),
            () = too_late => None,
        };
        match &result {
            Some(Err(error)) if !failing => tracing::warn!(%error, "agents' state is not written; kept until the database is back"),
            Some(Ok(())) if failing => tracing::info!("agents' state is written again"),
            _ => {}
        }
        failing = result.is_some_and(|result| result.is_err());
    }
    hub.all_left().await;
    if !matches!(tokio::time::timeout(LAST, flush(&hub)).await, Ok(Ok(()))) {
        tracing::warn!("the last state of agents is not written");
    }
}

/// Writes all that is new.
///
/// # Errors
/// The database is away; everything stays to be written.
pub async fn flush(hub: &Hub) -> sqlx::Result<()> {
    let departed = hub.roster().take_departed();
    let open: Vec<_> = hub.roster().all();
    for stream in open.iter().filter(|stream| !stream.state().claimed) {
        // Its stream began while the database was away, or the database lost it.
        if let Err(error) = claim_again(hub, stream).await {
            hub.roster().put_back_departed(departed);
            return Err(error);
        }
    }
    let dirty: Vec<_> = open.into_iter().filter(|stream| std::mem::take(&mut stream.state().dirty)).collect();
    let (pool, now) = (&hub.app().pool, hub.app().clock.now());
    let result = match write(pool, &dirty, &departed, now).await {
        Err(error) if is_refusal(&error) => write_apart(pool, &dirty, &departed, now).await,
        result => result,
    };
    match result {
        Ok(known) => {
            let unknown = dirty.into_iter().filter(|stream| !known.contains(&stream.id));
            settle(pool, unknown.collect()).await
        }
        Err(error) => {
            dirty.iter().for_each(|stream| stream.state().dirty = true);
            hub.roster().put_back_departed(departed);
            Err(error)
        }
    }
}

async fn claim_again(hub: &Hub, stream: &Stream) -> sqlx::Result<()> {
    match hub.claim(stream).await? {
        Claim::Granted(_) => {}
        Claim::Taken => stream.end(Ending::NameTaken),
    }
    Ok(())
}

/// Writes the streams one by one, since the database refused what one of them says: that one is left out, and holds up nobody.
async fn write_apart(pool: &PgPool, open: &[Arc<Stream>], departed: &[Arc<Stream>], now: Instant) -> sqlx::Result<HashSet<Uuid>> {
    let mut known = HashSet::new();
    let one_by_one = open.chunks(1).map(|stream| (stream, &[][..])).chain(departed.chunks(1).map(|stream| (&[][..], stream)));
    for (open, departed) in one_by_one {
        match write(pool, open, departed, now).await {
            Ok(written) => known.extend(written),
            Err(error) if is_refusal(&error) => {
                for stream in open.iter().chain(departed) {
                    tracing::error!(%error, agent = %stream.agent, "the database refuses what this agent says");
                    known.insert(stream.id);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(known)
}

/// Writes the streams; those that the database knows as their agent's.
async fn write(pool: &PgPool, open: &[Arc<Stream>], departed: &[Arc<Stream>], now: Instant) -> sqlx::Result<HashSet<Uuid>> {
    if open.is_empty() && departed.is_empty() {
        return Ok(HashSet::new());
    }
    // Taken before anything is written, so that what is said of an agent and of its sets is of one moment.
    let open = open.iter().map(|stream| (stream.id, said(stream, true, now)));
    let said: Vec<(Uuid, Said)> = open.chain(departed.iter().map(|stream| (stream.id, said(stream, false, now)))).collect();
    let agents = said.iter().map(|(_, said)| said.agent.clone()).collect();
    let mut transaction = pool.begin().await?;
    let known: Vec<Uuid> =
        sqlx::query_scalar(include_str!("sql/flush_agents.sql")).bind(Value::Array(agents)).fetch_all(&mut *transaction).await?;
    let known: HashSet<Uuid> = known.into_iter().collect();
    let sets = said.into_iter().filter(|(stream, _)| known.contains(stream)).flat_map(|(_, said)| said.sets).collect();
    sqlx::query(include_str!("sql/flush_sets.sql")).bind(Value::Array(sets)).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(known)
}

/// Streams that the database does not know as their agent's: another replica has a newer one, or the row is gone and is claimed again.
async fn settle(pool: &PgPool, unknown: Vec<Arc<Stream>>) -> sqlx::Result<()> {
    if unknown.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = unknown.iter().map(|stream| stream.agent.as_str()).collect();
    let sql = "SELECT name FROM agents WHERE name = ANY($1) AND stream IS NOT NULL";
    let elsewhere: Vec<String> = sqlx::query_scalar(sql).bind(names).fetch_all(pool).await?;
    for stream in unknown {
        if elsewhere.iter().any(|name| name == stream.agent.as_str()) {
            stream.end(Ending::Superseded);
        } else {
            let mut state = stream.state();
            (state.claimed, state.dirty) = (false, true);
        }
    }
    Ok(())
}

/// What an agent said, as the statements take it.
struct Said {
    agent: Value,
    sets: Vec<Value>,
}

fn said(stream: &Stream, connected: bool, now: Instant) -> Said {
    let state = stream.state();
    let Report { last_error, warnings, shards, decisions_per_second, stale_seconds, dropped_events, sets } = &state.report;
    let agent = json!({
        "name": stream.agent.as_str(), "stream": stream.id, "connected": connected,
        "silent_seconds": now.saturating_duration_since(state.last_seen).as_secs_f64(),
        "last_error": last_error, "warnings": warnings, "shards": shards, "decisions_per_second": decisions_per_second,
        "stale_seconds": stale_seconds, "dropped_events": dropped_events,
    });
    Said { agent, sets: sets.iter().map(|(name, report)| set(stream, name, report)).collect() }
}

fn set(stream: &Stream, name: &str, SetReport { runs, refused }: &SetReport) -> Value {
    json!({
        "agent": stream.agent.as_str(), "domain": name,
        "revision": runs.map_or(0, |(revision, _)| revision), "hash": runs.map(|(_, hash)| hash.to_string()),
        "refused_revision": refused.as_ref().map(|r| r.revision), "refused_hash": refused.as_ref().map(|r| r.hash.to_string()),
        "refused_build": refused.as_ref().map(|_| &stream.build), "errors": refused.as_ref().map_or(&[][..], |r| &r.errors),
        "temporary": refused.as_ref().is_some_and(|r| r.temporary),
    })
}
