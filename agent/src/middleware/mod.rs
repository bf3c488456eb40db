//! Rate limiting inside a service: a tower layer that asks the agent in this process before the service answers.

pub mod error;
pub mod future;
pub mod in_flight;
pub mod layer;
pub mod service;

pub use self::error::Undecidable;
pub use self::future::ResponseFuture;
pub use self::in_flight::{InFlight, Kept, Leased};
pub use self::layer::{LayerSettings, RateLimitLayer};
pub use self::service::{Body, RateLimit};
