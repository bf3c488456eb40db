//! The Weir control plane: keeps tiers and rules in Postgres, serves the admin API and the dashboard, pushes every change to the agents,
//! and takes in what they throttled.
//!
//! A change reads in one direction: [`http`] takes and validates the document, [`db`] writes rows, revision, audit and NOTIFY in one
//! transaction, [`push`] sends the revision to the agents.

pub mod alerts;
pub mod analytics;
pub mod auth;
pub mod bootstrap;
pub mod db;
pub mod http;
pub mod ingest;
pub mod push;
pub mod server;
pub mod settings;
pub mod shard;
pub mod state;
pub mod tls;

pub use db::token::{Kind as TokenKind, NewToken};
pub use server::{ControlPlane, StartError};
pub use settings::Settings;
