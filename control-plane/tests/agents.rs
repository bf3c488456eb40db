//! What agents use, over a real Postgres and real gRPC: configuration push, event ingest; and what is made of the events.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod agents {
    mod alerts_crud;
    mod alerts_firing;
    mod analytics_questions;
    mod bed;
    mod events;
    mod http;
    mod ingest_batches;
    mod ingest_soak;
    mod ingest_upkeep;
    mod push_auth;
    mod push_outage;
    mod push_registry;
    mod push_soak;
    mod push_streams;
    mod receiver;
    mod wire;
}
