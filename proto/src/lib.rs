//! The wire between agents and control plane: generated messages, and their conversions to and from [`weir_core`].

/// Messages and services of `weir.v1`.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("weir.v1");
}

pub mod convert;
