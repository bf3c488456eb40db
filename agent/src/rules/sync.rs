//! Keeps one stream to the control plane open for as long as the agent lives.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weir_core::name::Name;
use weir_proto::v1;

use super::apply::Applier;
use super::session::{End, Session};
use crate::backoff::{Backoff, jittered};
use crate::uplink::Uplink;

const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// A stream that lived this long was a success: the next wait is short again.
const SETTLED: Duration = Duration::from_secs(10);

/// What the stream needs to know.
pub struct SyncSettings {
    /// The connection.
    pub uplink: Uplink,
    /// This agent's name.
    pub agent: Name,
    /// Random per start.
    pub boot: String,
    /// The domains it serves.
    pub domains: Vec<Name>,
    /// How long the stream may be silent.
    pub silence: Duration,
    /// How often the agent says that it lives.
    pub heartbeat_every: Duration,
    /// What it says then.
    pub heartbeat: Box<dyn Fn() -> v1::Heartbeat + Send + Sync>,
}

impl std::fmt::Debug for SyncSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SyncSettings").field("agent", &self.agent).field("domains", &self.domains).finish_non_exhaustive()
    }
}

/// What the sync is doing.
enum State<'a> {
    /// Opening a stream.
    Connecting,
    /// A stream is open.
    Synced(Box<Session<'a>>),
    /// The stream ended.
    Lost(End),
    /// Time passes before the next try.
    Waiting(Duration),
}

/// Runs until `stop`.
pub async fn run(settings: SyncSettings, applier: Arc<Applier>, stop: CancellationToken) {
    let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
    let mut state = State::Connecting;
    let work = async {
        loop {
            state = match state {
                State::Connecting => match Session::open(&settings, applier.clone()).await {
                    Ok(session) => State::Synced(Box::new(session)),
                    Err(end) => State::Lost(end),
                },
                State::Synced(session) => {
                    let since = Instant::now();
                    let end = session.run().await;
                    if since.elapsed() >= SETTLED {
                        backoff.reset();
                    }
                    State::Lost(end)
                }
                State::Lost(end) => State::Waiting(lost(&applier, end, &mut backoff)),
                State::Waiting(wait) => {
                    tokio::time::sleep(wait).await;
                    State::Connecting
                }
            };
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
    applier.store().set_connected(false, None);
}

/// Notes why the stream ended; gives the time to wait.
fn lost(applier: &Applier, end: End, backoff: &mut Backoff) -> Duration {
    let (error, wait) = match end {
        End::Broken(error) => (Some(error), backoff.next_wait()),
        // Everybody who was told the same moment comes back over twice that time.
        End::Drained(after) => (None, after + jittered(after.max(FIRST_WAIT))),
        End::Refused { reason, retry_after } => (Some(reason), retry_after.min(LONGEST_WAIT * 4) + backoff.next_wait()),
    };
    if let Some(error) = &error {
        tracing::warn!(error, ?wait, "no stream to the control plane");
    }
    applier.store().set_connected(false, error);
    wait
}
