//! `weir-agent`: the agent as a process of its own.
fn main() {}
