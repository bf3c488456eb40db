//! The gRPC face of the ingest. Batches of one stream are stored one after the other; a batch that cannot be stored now ends the stream,
//! so that none is stored before one that came earlier.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};
use weir_core::name::Name;
use weir_proto::v1;
use weir_proto::v1::event_ingest_server::EventIngest;

use super::batch::{Batch, BatchError};
use super::row::Window;
use super::writer::{Stored, Writer};
use crate::auth::agent::AgentToken;
use crate::push::MAX_STREAMS;
use crate::push::hello::may;
use crate::push::hub::Hub;
use crate::push::service::peer;

/// Acks that may wait for an agent to read them.
const AHEAD: usize = 16;

/// The service.
pub(crate) struct Ingest {
    hub: Arc<Hub>,
    writer: Writer,
    /// Places for streams.
    room: Arc<Semaphore>,
}

impl Ingest {
    pub(super) fn new(hub: Arc<Hub>, writer: Writer) -> Self {
        Self { hub, writer, room: Arc::new(Semaphore::new(MAX_STREAMS)) }
    }
}

#[tonic::async_trait]
impl EventIngest for Ingest {
    type UploadStream = Pin<Box<dyn Stream<Item = Result<v1::BatchAck, Status>> + Send>>;

    async fn upload(&self, request: Request<Streaming<v1::EventBatch>>) -> Result<Response<Self::UploadStream>, Status> {
        let app = self.hub.app();
        let token = self.hub.tokens().check(app, request.metadata(), peer(&request)).await?;
        let full = |_| Status::resource_exhausted("too many agents upload to this replica; try another time");
        let place = self.room.clone().try_acquire_owned().map_err(full)?;
        let (outbound, acks) = mpsc::channel(AHEAD);
        let upload = Upload { hub: self.hub.clone(), writer: self.writer.clone(), token, agent: None };
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
    token: AgentToken,
    /// The agent whose name is known to be this token's.
    agent: Option<Name>,
}

impl Upload {
    async fn serve(mut self, mut inbound: Streaming<v1::EventBatch>, outbound: mpsc::Sender<Result<v1::BatchAck, Status>>) {
        let stop = self.hub.app().stop.clone();
        while let Some(Some(Ok(batch))) = stop.run_until_cancelled(inbound.next()).await {
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
        let batch = match read {
            Ok(batch) => batch,
            Err(BatchError::Agent(error)) => return Err(Status::invalid_argument(format!("agent: {error}"))),
            Err(error) => return Ok(ack(false, error.to_string())),
        };
        self.check_agent(&batch.id.agent).await?;
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

    /// That the batch speaks for an agent of this token. A name that nobody has claimed yet will be, by the agent's other stream.
    async fn check_agent(&mut self, agent: &Name) -> Result<(), Status> {
        if self.agent.as_ref() == Some(agent) {
            return Ok(());
        }
        let sql = "SELECT token_id IS NULL OR token_id = $2 FROM agents WHERE name = $1";
        let ours: Result<Option<bool>, _> =
            sqlx::query_scalar(sql).bind(agent.as_str()).bind(self.token.id).fetch_optional(&self.hub.app().pool).await;
        match ours {
            Ok(Some(false)) => Err(Status::permission_denied("this agent name belongs to another token")),
            Ok(Some(true)) => {
                self.agent = Some(agent.clone());
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => Err(Status::unavailable(format!("the events could not be stored: {error}"))),
        }
    }

    fn now(&self) -> i64 {
        i64::try_from(self.hub.app().clock.wall().as_secs()).unwrap_or(i64::MAX)
    }
}
