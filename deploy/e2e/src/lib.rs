//! The whole product for tests: Postgres, Redis shards, control plane, agents with HTTP, the demo gateway; on free ports, in a temporary
//! folder, all stopped at the end.

mod api;
mod node;
mod product;

pub use api::Api;
pub use node::{Answer, Node};
pub use product::{Plan, Product};

/// The rules of `weir dev`, as the README gives them.
pub const SEEDS: &str = include_str!("../../../cli/src/dev/seeds.yaml");
