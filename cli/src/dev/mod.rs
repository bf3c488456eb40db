//! `weir dev`: the whole product on this machine.

use crate::args::Dev;

/// Runs until it is told to stop.
pub(crate) async fn run(_dev: Dev) -> anyhow::Result<()> {
    anyhow::bail!("not wired yet")
}
