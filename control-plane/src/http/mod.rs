//! The admin API: one file per resource, with its handlers and docs; [`router`] is the table of all routes.

pub mod answer;
pub mod apply;
pub mod audit;
pub mod change;
pub mod dashboard;
pub mod documents;
pub mod domains;
pub mod extract;
pub mod headers;
pub mod health;
pub mod metrics;
pub mod openapi;
pub mod paging;
pub mod params;
pub mod problem;
pub mod revisions;
pub mod router;
pub mod rules;
pub mod schema;
pub mod session;
pub mod shards;
pub mod strict;
pub mod tiers;
pub mod tokens;
