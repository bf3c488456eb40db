//! `weir`: the command line of operators.
fn main() {}
