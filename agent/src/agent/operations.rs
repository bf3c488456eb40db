//! What can be asked of an agent besides a check.

use std::time::{Duration, Instant};

use weir_core::decision::{Cause, Decision};
use weir_core::name::Name;
use weir_core::request::Request;

use super::Agent;
use crate::check::{CheckError, Recorded, Undone};
use crate::lease::{Lease, LeaseGuard};
use crate::metrics::OperationOutcome;

/// The least time that an operation has for which no request waits, where the budget of checks is less: what it does is never sent twice, so
/// it should arrive.
const PATIENCE: Duration = Duration::from_millis(250);

impl Agent {
    /// Decides as [`Agent::check`] would now, and writes nothing: no counter comes to be, no lease is taken. It is in no count of decisions.
    ///
    /// # Errors
    /// [`CheckError`]: the question is bad.
    pub async fn peek(&self, request: &Request<'_>) -> Result<Decision, CheckError> {
        let decision = self.0.checker.peek(request, self.0.clock.now() + self.0.settings.budget).await;
        self.operated("peek", &decision, |decision| done(true, decision.degraded.is_some()));
        decision
    }

    /// Consumes the request's cost without deciding, for a cost that is known only afterwards. It always succeeds, and may leave a counter past its
    /// limit, by at most one further capacity. `concurrency` rules are left alone.
    ///
    /// # Errors
    /// [`CheckError`]: the question is bad, and nothing was recorded.
    pub async fn record(&self, request: &Request<'_>) -> Result<Recorded, CheckError> {
        let recorded = self.0.checker.record(request, self.patience()).await;
        self.operated("record", &recorded, |recorded| done(recorded.limits.iter().any(Recorded::counted), recorded.degraded.is_some()));
        recorded
    }

    /// Gives the request's cost back to every counter that it meets, or to those of the rules `only`: a check passed, but what it was for did not
    /// happen. Nothing goes below 0, and no counter comes to be. Leases of `concurrency` end by [`Agent::release`].
    ///
    /// # Errors
    /// [`CheckError`]: the question is bad, or one of `only` does not apply to it, and nothing was given back.
    pub async fn refund(&self, request: &Request<'_>, only: Option<&[Name]>) -> Result<Undone<u64>, CheckError> {
        let undone = self.0.checker.refund(request, only, self.patience()).await;
        self.operated("refund", &undone, |undone| undone_outcome(undone, |units| *units > 0));
        undone
    }

    /// Clears every counter that the request meets, or those of the rules `only`; of `concurrency` all leases.
    ///
    /// # Errors
    /// [`CheckError`]: the question is bad, or one of `only` does not apply to it, and nothing was cleared.
    pub async fn reset(&self, request: &Request<'_>, only: Option<&[Name]>) -> Result<Undone<bool>, CheckError> {
        let undone = self.0.checker.reset(request, only, self.patience()).await;
        self.operated("reset", &undone, |undone| undone_outcome(undone, |there| *there));
        undone
    }

    /// Decides as [`Agent::check`] does, and hands out what it takes of `concurrency` rules: `None` if no such rule applies, if the request is
    /// refused, or if the rule was not counted anywhere. The lease must be [released](Agent::release), or it holds its place until it expires.
    ///
    /// # Errors
    /// [`CheckError`]: the question is bad, and nothing was counted.
    pub async fn acquire(&self, request: &Request<'_>) -> Result<(Decision, Option<Lease>), CheckError> {
        let start = self.0.clock.now();
        let acquired = self.0.checker.check(request, start + self.0.settings.budget).await?;
        self.0.metrics.decision_duration.observe(self.0.clock.now().duration_since(start).as_secs_f64());
        Ok(acquired)
    }

    /// Ends what a lease holds, whichever agent acquired it; whether it held anything. To do it again does nothing.
    ///
    /// # Errors
    /// Why a shard did not answer: what the lease holds there ends when it expires, if it has not ended all the same.
    pub async fn release(&self, lease: &Lease) -> Result<bool, Cause> {
        let released = self.0.checker.release(lease, self.patience()).await;
        let outcome = match released {
            Ok(true) => OperationOutcome::Done,
            Ok(false) => OperationOutcome::Nothing,
            Err(_) => OperationOutcome::Degraded,
        };
        self.0.metrics.operated("release", outcome);
        released
    }

    /// Holds a lease until the guard is dropped, which releases it without waiting.
    pub fn hold(&self, lease: &Lease) -> LeaseGuard {
        self.0.checker.hold(lease)
    }

    fn patience(&self) -> Instant {
        self.0.clock.now() + self.0.settings.budget.max(PATIENCE)
    }

    fn operated<T>(&self, operation: &'static str, result: &Result<T, CheckError>, outcome: impl FnOnce(&T) -> OperationOutcome) {
        self.0.metrics.operated(operation, result.as_ref().map_or(OperationOutcome::Bad, outcome));
    }
}

fn undone_outcome<T>(undone: &Undone<T>, did: impl Fn(&T) -> bool) -> OperationOutcome {
    let did = undone.rules.iter().any(|rule| rule.result.as_ref().is_ok_and(&did));
    done(did, undone.rules.iter().any(|rule| rule.result.is_err()))
}

const fn done(did: bool, degraded: bool) -> OperationOutcome {
    match (degraded, did) {
        (true, _) => OperationOutcome::Degraded,
        (false, true) => OperationOutcome::Done,
        (false, false) => OperationOutcome::Nothing,
    }
}
