//! Writes what agents said to the database: in bulk, as soon as the database is there, and never in the way of a stream.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::time::sleep;
use uuid::Uuid;

use super::claim::Claim;
use super::hub::Hub;
use super::report::{Report, SetReport};
use super::roster::{Ending, Stream};

/// Acks that come within this time are written together.
const GATHER: Duration = Duration::from_millis(30);
/// Heartbeats wait for this long at most.
const EVERY: Duration = Duration::from_secs(1);
/// How long a last write may take when the control plane stops.
const LAST: Duration = Duration::from_secs(1);

/// Writes until the control plane stops, and then once more when the last stream has ended.
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
        let result = stop.run_until_cancelled(flush(&hub)).await;
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
    let result = write(&hub.app().pool, &dirty, &departed).await;
    match result {
        Ok(known) => {
            let unknown = dirty.into_iter().filter(|stream| !known.contains(&stream.id));
            settle(&hub.app().pool, unknown.collect()).await
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

/// Writes the streams; those that the database knows as their agent's.
async fn write(pool: &PgPool, open: &[Arc<Stream>], departed: &[Arc<Stream>]) -> sqlx::Result<HashSet<Uuid>> {
    if open.is_empty() && departed.is_empty() {
        return Ok(HashSet::new());
    }
    let agents = open.iter().map(|s| agent(s, true)).chain(departed.iter().map(|s| agent(s, false)));
    let mut transaction = pool.begin().await?;
    let known: Vec<Uuid> =
        sqlx::query_scalar(include_str!("sql/flush_agents.sql")).bind(Value::Array(agents.collect())).fetch_all(&mut *transaction).await?;
    let known: HashSet<Uuid> = known.into_iter().collect();
    let ours = open.iter().chain(departed).filter(|stream| known.contains(&stream.id));
    let sets: Vec<Value> = ours.flat_map(|stream| sets(stream)).collect();
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

fn agent(stream: &Stream, connected: bool) -> Value {
    let state = stream.state();
    let Report { last_error, warnings, shards, decisions_per_second, stale_seconds, dropped_events, .. } = &state.report;
    json!({
        "name": stream.agent.as_str(), "stream": stream.id, "last_seen_ms": state.last_seen.as_millis(), "connected": connected,
        "last_error": last_error, "warnings": warnings, "shards": shards, "decisions_per_second": decisions_per_second,
        "stale_seconds": stale_seconds, "dropped_events": dropped_events,
    })
}

fn sets(stream: &Stream) -> Vec<Value> {
    let set = |(name, SetReport { runs, refused }): (&super::published::SetName, &SetReport)| {
        json!({
            "agent": stream.agent.as_str(), "domain": &**name,
            "revision": runs.map_or(0, |(revision, _)| revision), "hash": runs.map(|(_, hash)| hash.to_string()),
            "refused_revision": refused.as_ref().map(|r| r.revision), "refused_hash": refused.as_ref().map(|r| r.hash.to_string()),
            "refused_build": refused.as_ref().map(|_| &stream.build), "errors": refused.as_ref().map_or(&[][..], |r| &r.errors),
            "temporary": refused.as_ref().is_some_and(|r| r.temporary),
        })
    };
    stream.state().report.sets.iter().map(set).collect()
}
