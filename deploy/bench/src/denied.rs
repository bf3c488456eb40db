//! What a subject costs that is refused again and again: `denied_per_core`.

use std::time::Duration;

use weir_testbed::{Flavor, Redis};

use crate::load::{Load, Subjects};
use crate::summary::Summary;
use crate::{agent, cpu, median};

const ROUNDS: usize = 5;
const SLICE: Duration = Duration::from_secs(1);
const TARGET: f64 = 1_000_000.0;

/// Decisions per second of processor time, the caller's included: one subject, one caller, refused through the whole library.
pub(crate) async fn run(summary: &mut Summary) -> anyhow::Result<()> {
    let redis = Redis::temporary(Flavor::Redis).await?;
    let agent = agent::on(std::slice::from_ref(&redis), Duration::from_millis(500)).await?;
    let load = Load { path: agent::EXHAUSTED.to_owned(), callers: 1, subjects: Subjects::One, passes: false };
    load.once(&agent).await?;
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let before = cpu::own()?;
        let done = load.run(&agent, SLICE).await?;
        rates.push(done.checks as f64 / (cpu::own()? - before));
    }
    let rate = median(&mut rates);
    summary.row("denied_per_core", rate, "one exhausted subject, from the deny cache; target >= 1,000,000", Some(rate >= TARGET));
    Ok(())
}
