//! The gRPC face of the ingest. Batches of one stream are stored one after the other; a batch that cannot be stored now ends the stream,
//! so that none is stored before one that came earlier.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};
use weir_core::name::Name;
use weir_proto::v1;
use weir_proto::v1::event_ingest_server::EventIngest;

use super::batch::{Batch, BatchError};
use super::names::Names;
use super::row::Window;
use super::writer::{Stored, Writer};
use crate::auth::agent::AgentToken;
use crate::push::MAX_STREAMS;
use crate::push::claim::MAX_AGENTS;
use crate::push::hello::may;
use crate::push::hub::Hub;
use crate::push::roster::Ending;
use crate::push::service::client_address;

/// Acks that may wait for an agent to read them.
const AHEAD: usize = 16;

/// The age at which a stream must begin anew; up to a quarter less by chance.
const MAX_AGE: Duration = Duration::from_secs(6 * 3_600);

/// The service.
pub(crate) struct Ingest {
    hub: Arc<Hub>,
    writer: Writer,
    /// Places for streams.
    room: Arc<Semaphore>,
    names: Arc<Names>,
}

impl Ingest {
    pub(super) fn new(hub: Arc<Hub>, writer: Writer) -> Self {
        Self { hub, writer, room: Arc::new(Semaphore::new(MAX_STREAMS)), names: Arc::default() }
    }
}

#[tonic::async_trait]
impl EventIngest for Ingest {
    type UploadStream = Pin<Box<dyn Stream<Item = Result<v1::BatchAck, Status>> + Send>>;

    async fn upload(&self, request: Request<Streaming<v1::EventBatch>>) -> Result<Response<Self::UploadStream>, Status> {
        let app = self.hub.app();
        let token = self.hub.tokens().check(app, request.metadata(), client_address(app, &request)).await?;
        let full = |_| Status::resource_exhausted("too many agents upload to this replica; try another time");
        let place = self.room.clone().try_acquire_owned().map_err(full)?;
        let (outbound, acks) = mpsc::channel(AHEAD);
        let upload = Upload { hub: self.hub.clone(), writer: self.writer.clone(), names: self.names.clone(), token, agent: None };
        let serving = upload.serve(request.into_inner(), outbound);
        app.tasks.spawn(async move {
            serving.await;
            drop(place);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(acks))))
    }
}

/// One stream of batches.
struct Upload {
    hub: Arc<Hub>,
    writer: Writer,
    names: Arc<Names>,
    token: AgentToken,
    /// The agent whose name is known to be this token's.
    agent: Option<Name>,
}

impl Upload {
    /// Stores batches until the agent ends the stream, a batch cannot be stored now, the token is good no more, or the stream is old.
    async fn serve(mut self, mut inbound: Streaming<v1::EventBatch>, outbound: mpsc::Sender<Result<v1::BatchAck, Status>>) {
        let stop = self.hub.app().stop.clone();
        let mut good = self.hub.tokens().watch();
        // What was known before this token was checked says nothing about it.
        good.mark_unchanged();
        let too_old = Instant::now() + MAX_AGE.mul_f64(1.0 - 0.25 * rand::random::<f64>());
        loop {
            let batch = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                // The hub holds the sender: it does not end before we do.
                _ = good.changed() => {
                    if good.borrow_and_update().as_ref().is_some_and(|good| !good.contains(&self.token.id)) {
                        let _ = outbound.try_send(Err(Status::unauthenticated(Ending::TokenGone.reason())));
                        return;
                    }
                    continue;
                }
                () = sleep_until(too_old) => {
                    let _ = outbound.try_send(Err(Status::unavailable("the stream is old: open another")));
                    return;
                }
                batch = inbound.next() => batch,
            };
            let Some(Ok(batch)) = batch else { return };
            let answer = self.store(batch).await;
            let over = answer.is_err();
            if outbound.send(answer).await.is_err() || over {
                return;
            }
        }
    }

    async fn store(&mut self, batch: v1::EventBatch) -> Result<v1::BatchAck, Status> {
        let sequence = batch.sequence;
        let ack = |stored, reason: String| v1::BatchAck { sequence, stored, reason };
        let read = Batch::read(batch, |domain| may(&self.token, domain), Window::around(self.now()));
        let mut batch = match read {
            Ok(batch) => batch,
            Err(BatchError::Agent(error)) => return Err(Status::invalid_argument(format!("agent: {error}"))),
            Err(error) => return Ok(ack(false, error.to_string())),
        };
        self.check_agent(&batch.id.agent).await?;
        let app = self.hub.app();
        self.names.settle(&app.pool, &mut batch, app.clock.now()).await.map_err(|error| not_stored(&error))?;
        let (refused, metrics) = (batch.refused, &self.hub.app().metrics.agents);
        match self.writer.store(batch).await {
            Ok(Stored::Now) => {
                metrics.batches.inc();
                metrics.refused_rows.inc_by(refused.unsigned_abs());
                let left_out = (refused > 0).then(|| format!("{refused} rows were out of bounds and left out"));
                Ok(ack(true, left_out.unwrap_or_default()))
            }
            Ok(Stored::Before) => {
                metrics.unwanted_batches.inc();
                Ok(ack(false, String::new()))
            }
            Ok(Stored::Never(reason)) => {
                metrics.unwanted_batches.inc();
                Ok(ack(false, reason))
            }
            Err(away) => Err(Status::unavailable(away.to_string())),
        }
    }

    /// That the batch speaks for an agent of this token. A name that nobody has claimed yet is claimed now: there are only so many.
    async fn check_agent(&mut self, agent: &Name) -> Result<(), Status> {
        if self.agent.as_ref() == Some(agent) {
            return Ok(());
        }
        // Asked again where another stream has claimed it in this very moment: the statement does not see that yet.
        let ours = match self.claim(agent).await {
            Ok(None) => self.claim(agent).await,
            known => known,
        };
        match ours {
            Ok(Some(false)) => Err(Status::permission_denied("this agent name belongs to another token")),
            Ok(Some(true)) => {
                self.agent = Some(agent.clone());
                Ok(())
            }
            Ok(None) => Err(Status::resource_exhausted("there are too many agents")),
            Err(error) => Err(not_stored(&error)),
        }
    }

    async fn claim(&self, agent: &Name) -> sqlx::Result<Option<bool>> {
        let claim = sqlx::query_scalar(include_str!("sql/claim_name.sql")).bind(agent.as_str()).bind(self.token.id).bind(MAX_AGENTS);
        claim.fetch_optional(&self.hub.app().pool).await
    }

    fn now(&self) -> i64 {
        i64::try_from(self.hub.app().clock.wall().as_secs()).unwrap_or(i64::MAX)
    }
}

fn not_stored(error: &sqlx::Error) -> Status {
    Status::unavailable(format!("the events could not be stored: {error}"))
}
