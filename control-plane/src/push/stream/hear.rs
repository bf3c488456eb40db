//! What an agent says on its stream.

use tokio::time::{Instant, timeout};
use tokio_stream::{Stream as Messages, StreamExt as _};
use tonic::Status;
use weir_core::item::SetHash;
use weir_proto::v1;
use weir_proto::v1::agent_message::Message as FromAgent;

use super::super::DEAD_AFTER;
use super::super::hello::stored_revision;
use super::super::published::set_of;
use super::super::report::{self, Refusal};
use super::Link;

impl Link {
    /// Takes in what the agent says until it ends the stream or falls silent; why.
    pub(super) async fn hear(&self, inbound: &mut (impl Messages<Item = Result<v1::AgentMessage, Status>> + Unpin)) -> &'static str {
        loop {
            let message = match timeout(DEAD_AFTER, inbound.next()).await {
                Ok(Some(Ok(message))) => message,
                Ok(Some(Err(_))) => return "the connection broke",
                Ok(None) => return "the agent ended it",
                Err(_) => {
                    self.stream.state().report.last_error = format!("said nothing for {} s", DEAD_AFTER.as_secs());
                    return "the agent is silent";
                }
            };
            self.stream.state().last_seen = self.hub.app().clock.now();
            match message.message {
                Some(FromAgent::Ack(ack)) => self.acknowledged(&ack),
                Some(FromAgent::Nack(nack)) => self.refused(&nack),
                Some(FromAgent::Heartbeat(heartbeat)) => {
                    let mut state = self.stream.state();
                    state.report.heartbeat(&heartbeat);
                    state.dirty = true;
                }
                // A second Hello, or a message of a later version: neither says anything about what the agent runs.
                Some(FromAgent::Hello(_)) | None => {}
            }
        }
    }

    fn acknowledged(&self, ack: &v1::Ack) {
        let Some((set, revision, hash)) = ack.applied.as_ref().and_then(|have| self.about(have)) else { return };
        self.metrics().acks.inc();
        self.session().runs(set, (revision, hash));
        self.note_runs(set, revision, hash);
    }

    fn refused(&self, nack: &v1::Nack) {
        let Some((set, revision, hash)) = nack.refused.as_ref().and_then(|have| self.about(have)) else { return };
        self.metrics().nacks.inc();
        let errors = report::errors(nack);
        tracing::warn!(agent = %self.stream.agent, set, revision, ?errors, temporary = nack.temporary, "revision refused");
        {
            let mut session = self.session();
            if nack.temporary {
                session.refused_for_now(set, (revision, hash), Instant::now().into_std(), rand::random());
            } else {
                session.refused_for_good(set, (revision, hash));
            }
        }
        {
            let mut state = self.stream.state();
            state.report.refused(set, Refusal { revision, hash, errors, temporary: nack.temporary });
            state.dirty = true;
        }
        self.hub.roster().notify();
        self.wake.notify_one();
    }

    /// Set, revision and hash of a message, if the stream is about that set.
    fn about<'a>(&self, have: &'a v1::Have) -> Option<(&'a str, u64, SetHash)> {
        let set = set_of(have).filter(|set| self.session().wants(set))?;
        Some((set, stored_revision(have.revision)?, have.set_hash()?))
    }

    /// Notes that the agent runs this.
    pub(super) fn note_runs(&self, set: &str, revision: u64, hash: SetHash) {
        {
            let mut state = self.stream.state();
            state.report.runs(set, revision, hash);
            state.dirty = true;
        }
        self.hub.roster().notify();
    }
}
