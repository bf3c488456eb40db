//! Takes in what agents decided: batches of events, stored at most once, in bulk, acknowledged when they are safe.
//!
//! A [`batch`] is read and bounded, waits for the [`writer`], is merged with what other streams brought, and is written at all
//! resolutions ([`level`]) in one transaction together with the agent's progress ([`window`]). If the database is away nothing is
//! acknowledged and agents send again; rules are pushed meanwhile as ever, since nothing is shared but the pool.

pub mod batch;
pub mod level;
mod merge;
pub mod names;
pub mod partitions;
pub mod row;
mod service;
mod store;
pub(crate) mod text;
pub mod upkeep;
pub mod window;
pub mod writer;

use std::sync::Arc;

use crate::push::hub::Hub;
use crate::state::App;

/// The service that agents upload to, and the tasks behind it.
pub(crate) fn service(app: &App, hub: Arc<Hub>) -> service::Ingest {
    let (writer, writing) = writer::Writer::new(app.pool.clone(), app.stop.clone());
    app.tasks.spawn(writing);
    app.tasks.spawn(upkeep::run(app.pool.clone(), app.clock.clone(), app.stop.clone()));
    service::Ingest::new(hub, writer)
}
