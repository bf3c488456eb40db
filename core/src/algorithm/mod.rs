//! The algorithms as pure functions: the models that `lua/` must agree with, and what the memory store runs.
