//! Pushes every revision to the agents that want it.
//!
//! [`hub`] keeps the newest of every set in memory and watches the database for newer ones; each [`stream`] watches the hub and sends
//! what its [`session`] says is due. What agents answer is kept by the [`roster`] and written to the database by [`record`], in bulk and
//! whenever that is there: with the database away, streams are served from memory and nothing that agents said is lost.

pub mod claim;
pub mod hello;
pub mod hub;
pub mod metrics;
pub mod published;
pub mod record;
pub mod report;
pub mod roster;
pub(crate) mod service;
pub mod session;
pub mod stream;
pub mod tokens;

use std::time::Duration;

use tonic::service::Routes;
use weir_proto::v1::config_sync_server::ConfigSyncServer;
use weir_proto::v1::event_ingest_server::EventIngestServer;

use crate::ingest;
use crate::state::App;

/// The largest message of a stream, in bytes; agents send small ones.
const MAX_MESSAGE: usize = 256 * 1024;
/// The largest batch of events, in bytes.
const MAX_BATCH: usize = 4 * 1024 * 1024;
/// The most streams of one replica; an agent beyond is told to try another time (and with it, another replica).
pub const MAX_STREAMS: usize = 10_000;
/// An agent that says nothing for this long is gone.
pub const DEAD_AFTER: Duration = Duration::from_secs(30);

/// The gRPC services that agents use, and the tasks behind them.
#[must_use]
pub fn services(app: &App) -> Routes {
    let hub = hub::Hub::new(app.clone());
    app.tasks.spawn(hub.clone().watch_database());
    app.tasks.spawn(record::run(hub.clone()));
    let sync = ConfigSyncServer::new(service::Sync::new(hub.clone())).max_decoding_message_size(MAX_MESSAGE);
    let events = EventIngestServer::new(ingest::service(app, hub)).max_decoding_message_size(MAX_BATCH);
    Routes::new(sync).add_service(events)
}
