//! `weir-control-plane`: the control plane as a process of its own.

fn main() {}
