//! Checks at a fixed rate whatever the answers take: latency from the moment a check was due, so that a stall counts for all that waited.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::LocalSet;
use weir_agent::Agent;
use weir_testbed::Redis;

use crate::agent;

/// What came of one check.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    /// When it was due.
    pub(crate) due: Instant,
    /// How long after that it was answered.
    pub(crate) took: Duration,
    pub(crate) degraded: bool,
    /// The shard that counted, or should have.
    pub(crate) shard: String,
}

/// Asks for any of `subjects`, `rate` times a second for `length`; the answers in the order in which the checks were due.
pub(crate) async fn run(agent: &Agent, path: &str, subjects: u32, rate: u32, length: Duration) -> anyhow::Result<Vec<Answered>> {
    paced(rate, length, |rng| {
        let (agent, path, id) = (agent.clone(), path.to_owned(), rng.random_range(0..subjects).to_string());
        async move {
            let headers = http::HeaderMap::new();
            let decision = agent.check(&agent::request(&headers, &path, &id)).await?;
            let shard = decision.limits.iter().find_map(|limit| Some(limit.shard.as_ref()?.to_string()));
            Ok((decision.degraded.is_some(), shard.unwrap_or_default()))
        }
    })
    .await
}

/// The same pace, but each check is one `PING` to any of these servers over one plain connection each: what the machine gives at most.
pub(crate) async fn pings(servers: &[Redis], rate: u32, length: Duration) -> anyhow::Result<Vec<Answered>> {
    let mut connections = Vec::new();
    for server in servers {
        connections.push(redis::Client::open(server.url())?.get_multiplexed_async_connection().await?);
    }
    paced(rate, length, |rng| {
        let mut connection = connections[rng.random_range(0..connections.len())].clone();
        async move {
            redis::cmd("PING").exec_async(&mut connection).await?;
            Ok((false, String::new()))
        }
    })
    .await
}

/// Starts what `ask` makes at each time that is due. It gives whether the answer was degraded, and from which shard.
async fn paced<A>(rate: u32, length: Duration, mut ask: impl FnMut(&mut SmallRng) -> A) -> anyhow::Result<Vec<Answered>>
where
    A: Future<Output = anyhow::Result<(bool, String)>> + 'static,
{
    let total = usize::try_from(u64::from(rate) * length.as_secs())?;
    let answers = Rc::new(RefCell::new(Vec::with_capacity(total)));
    let mut due_checks = generator(rate, total);
    let local = LocalSet::new();
    local
        .run_until(async {
            let mut rng = SmallRng::seed_from_u64(1);
            let mut checks = Vec::with_capacity(total);
            while let Some(due) = due_checks.recv().await {
                let (answer, answers) = (ask(&mut rng), answers.clone());
                checks.push(tokio::task::spawn_local(async move {
                    let (degraded, shard) = answer.await?;
                    answers.borrow_mut().push(Answered { due, took: due.elapsed(), degraded, shard });
                    anyhow::Ok(())
                }));
            }
            for check in checks {
                check.await??;
            }
            anyhow::Ok(())
        })
        .await?;
    let mut answers = answers.take();
    answers.sort_by_key(|answered| answered.due);
    Ok(answers)
}

/// When checks are due, each at its time, from a thread of its own: the runtime's timers are as coarse as a millisecond.
fn generator(rate: u32, total: usize) -> UnboundedReceiver<Instant> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        let start = Instant::now() + Duration::from_millis(10);
        for number in 0..u32::try_from(total).unwrap_or(u32::MAX) {
            let due = start + Duration::from_secs(1) * number / rate;
            #[allow(clippy::disallowed_methods, reason = "this thread runs nothing else")]
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if sender.send(due).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The value below which this share of the answers was given, in milliseconds.
pub(crate) fn quantile_ms<'a>(answers: impl IntoIterator<Item = &'a Answered>, share: f64) -> f64 {
    let mut took: Vec<Duration> = answers.into_iter().map(|answered| answered.took).collect();
    took.sort_unstable();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the list")]
    let place = (took.len() as f64 * share) as usize;
    took.get(place.min(took.len().saturating_sub(1))).map_or(f64::NAN, |took| took.as_secs_f64() * 1000.0)
}

/// The part of the answers that was degraded, 0 to 1.
pub(crate) fn degraded_share<'a>(answers: impl IntoIterator<Item = &'a Answered>) -> f64 {
    let (mut count, mut degraded) = (0.0, 0.0);
    for answered in answers {
        count += 1.0;
        degraded += f64::from(u8::from(answered.degraded));
    }
    degraded / f64::max(count, 1.0)
}
