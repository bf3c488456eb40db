//! The admin API: one file per resource, with its handlers, docs and errors; [`router`] is the table of all routes.

pub mod problem;
pub mod router;
