//! Pushes every revision to the agents that want it.

use tonic::service::Routes;

use crate::state::App;

/// The gRPC services that agents use, and the tasks behind them.
#[must_use]
pub fn services(_app: &App) -> Routes {
    Routes::default()
}
