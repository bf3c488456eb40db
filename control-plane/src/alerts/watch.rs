//! The two loops of alerts: look at every alert's rule, and send what is to be told.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use sqlx::PgPool;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};
use weir_core::clock::Clock;

use super::delivery::Due;
use super::state::Condition;
use super::store::Stored;
use super::target::AllowList;
use super::webhook::{Message, send};
use super::{delivery, store};
use crate::analytics::range::Range;
use crate::analytics::summary;
use crate::ingest::level::Level;
use crate::state::App;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(10);
/// Between two looks for deliveries that are due; one that was just made does not wait for it.
const RETRY: Duration = Duration::from_secs(2);
/// The share is that of the last minute, in seconds: one bucket of 10 s says too little where requests are few.
const WINDOW: i64 = 60;
/// Agents send what happened after a second or two: so long ago a bucket must be over to count, in seconds.
const LATE: i64 = 5;
/// How much before and after a change its link shows, in seconds.
const AROUND: i64 = 900;
/// Deliveries sent at a time.
const AT_A_TIME: i64 = 16;
/// The advisory lock of looking.
const LOCK: i64 = 0x7765_6972_0003;

/// Starts both loops; they end with the control plane.
pub fn start(app: &App, allowed: Arc<AllowList>) {
    let made = Arc::new(Notify::new());
    app.tasks.spawn(look_regularly(app.clone(), made.clone()));
    app.tasks.spawn(deliver_regularly(app.clone(), allowed, made));
}

async fn look_regularly(app: App, made: Arc<Notify>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while app.stop.run_until_cancelled(ticks.tick()).await.is_some() {
        match app.stop.run_until_cancelled(look(&app.pool, &app.public_url, seconds(&*app.clock))).await {
            Some(Ok(0)) | None => {}
            Some(Ok(_)) => made.notify_one(),
            Some(Err(error)) => tracing::warn!(%error, "alerts could not be looked at"),
        }
    }
}

/// Looks at every alert at `now` (seconds since the epoch); how many changed. Nothing if another replica is at it.
///
/// # Errors
/// The database's: no alert has changed then.
pub async fn look(pool: &PgPool, public_url: &str, now: i64) -> sqlx::Result<usize> {
    let mut transaction = pool.begin().await?;
    let locked: bool = sqlx::query_scalar("SELECT pg_try_advisory_xact_lock($1)").bind(LOCK).fetch_one(&mut *transaction).await?;
    if !locked {
        return Ok(0);
    }
    let mut changes = 0;
    let end = Level::TenSeconds.floor(now - LATE);
    let minute = Range { from: end - WINDOW, to: end, level: Level::TenSeconds };
    for stored in store::lock_watched(&mut transaction).await? {
        // One that was switched off while it fired is resolved.
        let share = if stored.alert.enabled {
            let totals = summary::totals(&mut transaction, &stored.domain, Some(stored.alert.rule.as_str()), minute).await?;
            totals.denied_share().map(|share| share * 100.0)
        } else {
            None
        };
        let for_seconds = i64::try_from(stored.alert.r#for.as_duration().as_secs()).unwrap_or(i64::MAX);
        let condition = Condition { percent: stored.alert.denied_share_percent, for_seconds };
        let (state, change) = stored.state.step(condition, share, now);
        store::save_state(&mut transaction, &stored, state).await?;
        let Some(change) = change else { continue };
        changes += 1;
        tracing::info!(domain = stored.domain, alert = %stored.alert.name, ?change, share, "alert changed");
        if stored.alert.webhook.is_some() {
            delivery::add(&mut transaction, &stored, state, change, &link(public_url, &stored, now)).await?;
        }
    }
    transaction.commit().await?;
    Ok(changes)
}

/// The dashboard's view that shows what happened: the rule's traffic from well before the change to a little after. Names need no escaping.
fn link(public_url: &str, stored: &Stored, now: i64) -> String {
    let before = AROUND + i64::try_from(stored.alert.r#for.as_duration().as_secs()).unwrap_or_default();
    let time = |seconds: i64| Timestamp::from_second(seconds).map(|time| time.to_string()).unwrap_or_default();
    let (domain, rule) = (&stored.domain, &stored.alert.rule);
    format!("{public_url}/?domain={domain}&rule={rule}&from={}&to={}", time(now - before), time(now + AROUND / 3))
}

/// Keeps up to [`AT_A_TIME`] attempts under way: a receiver that is slow keeps its own place, and nobody else waiting.
async fn deliver_regularly(app: App, allowed: Arc<AllowList>, made: Arc<Notify>) {
    let mut ticks = interval(RETRY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut since_forgotten = 0_u32;
    let mut under_way = FuturesUnordered::new();
    loop {
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = made.notified() => {}
            _ = ticks.tick() => {}
            Some(noted) = under_way.next() => if let Err(error) = noted { note_away(&error) },
        }
        let room = AT_A_TIME.saturating_sub(i64::try_from(under_way.len()).unwrap_or(AT_A_TIME));
        if room > 0 {
            match app.stop.run_until_cancelled(delivery::take(&app.pool, room)).await {
                Some(Ok(due)) => under_way.extend(due.into_iter().map(|due| attempt(&app.pool, &allowed, &*app.clock, due))),
                Some(Err(error)) => note_away(&error),
                None => return,
            }
        }
        since_forgotten += 1;
        if since_forgotten.is_multiple_of(1_000) {
            let _ = delivery::forget(&app.pool).await;
        }
    }
}

fn note_away(error: &sqlx::Error) {
    tracing::warn!(%error, "webhooks could not be looked for, or noted as sent");
}

/// Sends what is due now; how much that was.
///
/// # Errors
/// The database's. What was sent and could not be noted is sent again, under the same id.
pub async fn deliver(pool: &PgPool, allowed: &AllowList, clock: &dyn Clock) -> sqlx::Result<usize> {
    let due = delivery::take(pool, AT_A_TIME).await?;
    let attempts: Vec<_> = due.into_iter().map(|due| attempt(pool, allowed, clock, due)).collect();
    Ok(futures::future::try_join_all(attempts).await?.len())
}

/// One attempt, and the note of how it went.
async fn attempt(pool: &PgPool, allowed: &AllowList, clock: &dyn Clock, due: Due) -> sqlx::Result<()> {
    let result = match (&due.url, &due.secret) {
        (Some(url), Some(secret)) => send(allowed, url, Message { id: due.id, body: &due.body, secret, time: seconds(clock) }).await,
        _ => Err(super::webhook::SendError::NoTarget),
    };
    if let Err(error) = &result {
        tracing::warn!(domain = due.domain, alert = due.alert, attempt = due.attempts, %error, "webhook not delivered");
    }
    delivery::finish(pool, &due, &result).await
}

fn seconds(clock: &dyn Clock) -> i64 {
    i64::try_from(clock.wall().as_secs()).unwrap_or(i64::MAX)
}
