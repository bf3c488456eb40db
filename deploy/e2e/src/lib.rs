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

/// The seeds with every rule `closed`: no decision passes without its shard, so what passes can be counted exactly.
///
/// # Panics
/// The seeds no longer say what is replaced here.
#[must_use]
pub fn closed() -> String {
    const OWN_POLICY: &str = "    on_failure: { mode: local, escalate: { after: 5s, to: closed } }\n";
    assert!(SEEDS.contains(OWN_POLICY), "the seeds have changed");
    let rules = format!("defaults: {{ on_failure: {{ mode: closed }} }}\n{}", SEEDS.replace(OWN_POLICY, ""));
    assert!(!rules.contains("local"), "a rule of the seeds is not closed: {rules}");
    rules
}
