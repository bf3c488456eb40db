//! The Weir agent: decides each request from rules in memory and counters on Redis shards.
//!
//! The journey of a check reads in one direction: a transport or the tower middleware calls [`check`], which asks the rules what applies,
//! the [`limiter`] whether it may pass, and tells [`events`]. What is in force comes from [`rules`]. Those three do not know each other;
//! [`agent`] joins them.
//!
//! ```no_run
//! use weir_agent::settings::{AgentSettings, RulesFrom};
//! use weir_agent::{Agent, middleware::LayerSettings};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = AgentSettings::new("shop".parse()?, RulesFrom::File("rules.yaml".into()));
//! let agent = Agent::start(settings).await?;
//! let app: axum::Router = axum::Router::new().layer(agent.layer(LayerSettings::default())?);
//! # Ok(())
//! # }
//! ```
//!
//! Besides [`Agent::check`] there are [`peek`](Agent::peek), [`record`](Agent::record), [`refund`](Agent::refund), [`reset`](Agent::reset), and for
//! `concurrency` rules [`acquire`](Agent::acquire) and [`release`](Agent::release):
//!
//! ```no_run
//! # use weir_core::request::Request;
//! # async fn render() -> u64 { 0 }
//! # async fn example(agent: weir_agent::Agent, request: Request<'_>) -> Result<(), Box<dyn std::error::Error>> {
//! let (decision, lease) = agent.acquire(&request).await?;
//! if decision.allowed() {
//!     // Released when the guard is dropped, whatever happens.
//!     let _guard = lease.map(|lease| agent.hold(&lease));
//!     let rows = render().await;
//!     // What it cost is known only now.
//!     agent.record(&Request { cost: rows, ..request }).await?;
//! }
//! # Ok(())
//! # }
//! ```

pub mod agent;
pub mod answer;
mod authorities;
pub mod backoff;
pub mod check;
pub mod events;
pub mod identity;
pub mod lease;
pub mod limiter;
pub mod metrics;
pub mod middleware;
pub mod rules;
pub mod run;
pub mod settings;
pub mod transport;
pub mod uplink;

pub use agent::{Agent, AgentStatus, StartError};
pub use check::{CheckError, Recorded, Undone, UndoneRule};
pub use lease::{Lease, LeaseGuard};
