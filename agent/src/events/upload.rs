//! Sends batches to the control plane until each is acknowledged.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;
use weir_proto::v1;
use weir_proto::v1::event_ingest_client::EventIngestClient;

use super::spool::Spool;
use crate::backoff::Backoff;
use crate::uplink::Uplink;

/// Batches sent and not yet acknowledged.
const IN_FLIGHT: usize = 16;
/// An upload that gets no acknowledgement for this long is dead.
const ACK_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the control plane may take to answer the call that opens a stream.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What the uploader is doing.
enum State {
    Connecting,
    Sending(Box<Upload>),
    Waiting,
}

/// One stream.
struct Upload {
    batches: mpsc::Sender<v1::EventBatch>,
    acks: Streaming<v1::BatchAck>,
}

/// Uploads what is in `spool` until `stop`; after a reconnect, everything unacknowledged is sent again (the control plane stores each
/// batch at most once).
pub async fn run(uplink: Uplink, spool: Arc<Spool>, stop: CancellationToken) {
    let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
    let mut state = State::Connecting;
    let work = async {
        loop {
            state = match state {
                State::Connecting => match connect(&uplink).await {
                    Ok(upload) => State::Sending(Box::new(upload)),
                    Err(status) => {
                        tracing::debug!(%status, "events: no connection");
                        State::Waiting
                    }
                },
                State::Sending(upload) => {
                    if let Err(status) = send(*upload, &spool, &mut backoff).await {
                        tracing::debug!(%status, "events: the stream ended");
                    }
                    State::Waiting
                }
                State::Waiting => {
                    tokio::time::sleep(backoff.next_wait()).await;
                    State::Connecting
                }
            };
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

async fn connect(uplink: &Uplink) -> Result<Upload, tonic::Status> {
    let (batches, outbound) = mpsc::channel(1);
    let mut client = EventIngestClient::new(uplink.channel());
    let opened = tokio::time::timeout(CONNECT_TIMEOUT, client.upload(uplink.request(ReceiverStream::new(outbound)))).await;
    let acks = opened.map_err(|_| tonic::Status::deadline_exceeded("no answer"))??.into_inner();
    Ok(Upload { batches, acks })
}

/// Sends and takes acknowledgements until the stream breaks.
async fn send(mut upload: Upload, spool: &Spool, backoff: &mut Backoff) -> Result<(), tonic::Status> {
    let mut sent = 0;
    let mut unacknowledged = 0usize;
    loop {
        // An idle stream may be silent for ever; one that owes an acknowledgement may not.
        let patience = if unacknowledged > 0 { ACK_TIMEOUT } else { Duration::MAX };
        tokio::select! {
            ack = tokio::time::timeout(patience, upload.acks.next()) => {
                let ack = ack.map_err(|_| tonic::Status::deadline_exceeded("no acknowledgement"))?;
                let Some(ack) = ack.transpose()? else { return Ok(()) };
                if !ack.reason.is_empty() {
                    tracing::warn!(sequence = ack.sequence, reason = ack.reason, "events: the control plane refused a batch");
                }
                spool.acknowledge(ack.sequence);
                unacknowledged = unacknowledged.saturating_sub(1);
                backoff.reset();
            }
            batch = spool.after(sent), if unacknowledged < IN_FLIGHT => {
                sent = batch.sequence;
                // A control plane that does not read is as dead as one that does not answer.
                match tokio::time::timeout(ACK_TIMEOUT, upload.batches.send(batch)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return Ok(()),
                    Err(_) => return Err(tonic::Status::deadline_exceeded("the batch is not taken")),
                }
                unacknowledged += 1;
            }
        }
    }
}
