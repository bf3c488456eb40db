//! 10,000 checks a second whatever the answers take: latency from the moment a check was due, so that a stall counts for all that waited.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::LocalSet;
use weir_testbed::{Flavor, Redis};

use crate::agent;
use crate::summary::Summary;

const RATE: u32 = 10_000;
const SUBJECTS: u32 = 100_000;
const LENGTH: Duration = Duration::from_secs(10);
/// Checks before the clock counts: connections, script, first counters.
const WARM_UP: u32 = 20_000;

/// Runs the rows `open_loop_10k_*`.
pub(crate) async fn run(summary: &mut Summary) -> anyhow::Result<()> {
    let mut shards = Vec::new();
    for _ in 0..3 {
        shards.push(Redis::temporary(Flavor::Redis).await?);
    }
    let agent = Rc::new(agent::on(&shards, Duration::from_millis(5)).await?);
    let histogram = Rc::new(RefCell::new(Histogram::<u64>::new_with_bounds(1, 10_000_000, 3)?));
    let degraded = Rc::new(RefCell::new(0u64));
    let local = LocalSet::new();
    let mut due_checks = generator();
    local
        .run_until(async {
            let mut rng = rand::rngs::SmallRng::seed_from_u64(1);
            let mut tasks = Vec::new();
            let mut number = 0u32;
            while let Some(due) = due_checks.recv().await {
                let id = rng.random_range(0..SUBJECTS).to_string();
                let (agent, histogram, degraded) = (Rc::clone(&agent), Rc::clone(&histogram), Rc::clone(&degraded));
                tasks.push(tokio::task::spawn_local(async move {
                    let headers = http::HeaderMap::new();
                    let decision = agent.check(&agent::request(&headers, &id)).await;
                    if number >= WARM_UP {
                        let micros = u64::try_from(due.elapsed().as_micros()).unwrap_or(u64::MAX);
                        histogram.borrow_mut().saturating_record(micros);
                        *degraded.borrow_mut() += u64::from(decision.is_ok_and(|d| d.degraded.is_some()));
                    }
                }));
                number += 1;
            }
            for task in tasks {
                let _ = task.await;
            }
        })
        .await;
    let histogram = histogram.borrow();
    let ms = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1000.0;
    summary.row("open_loop_10k_p50_ms", ms(0.5), "library, 10,000 checks/s, 3 shards; target <= 0.3", Some(ms(0.5) <= 0.3));
    summary.row("open_loop_10k_p99_ms", ms(0.99), "target <= 1", Some(ms(0.99) <= 1.0));
    summary.row("open_loop_10k_p999_ms", ms(0.999), "reported", None);
    summary.row("open_loop_10k_degraded", *degraded.borrow() as f64, "of 100,000 checks with a budget of 5 ms", None);
    Ok(())
}

/// When checks are due, each at its time, from a thread of its own: the runtime's timers are as coarse as a millisecond.
fn generator() -> UnboundedReceiver<Instant> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        let start = Instant::now() + Duration::from_millis(10);
        let total = WARM_UP + RATE * u32::try_from(LENGTH.as_secs()).unwrap_or(u32::MAX);
        for number in 0..total {
            let due = start + Duration::from_secs(1) * number / RATE;
            #[allow(clippy::disallowed_methods, reason = "this thread runs nothing else")]
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if sender.send(due).is_err() {
                break;
            }
        }
    });
    receiver
}
