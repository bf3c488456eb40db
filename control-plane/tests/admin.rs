//! The admin API over a real Postgres: one server per test, everything through HTTP.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a test ends at the first surprise")]

mod admin {
    mod apply;
    mod audit;
    mod bad_input;
    mod bed;
    mod client;
    mod database;
    mod documents;
    mod guard;
    mod openapi;
    mod paging;
    mod process;
    mod publish;
    mod races;
    mod session;
    mod shards;
    mod tls;
    mod tokens;
    mod web;
}
