//! What comes of the calls of a session: answers for those who wait, another attempt, or another node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_core::decision::Cause;

use super::{Serving, Session};
use crate::limiter::batch::{Refunds, Waiting};
use crate::limiter::call::{Call, Done, Fault, Job, Said};
use crate::limiter::cluster::{Cluster, Redirect};
use crate::limiter::script::Decoded;

/// How often a call is sent again because the server had lost the script. Twice, for a server that loses it between loading and running.
const MAX_RESENDS: u8 = 2;

/// What came of a call: what the shard said, or why it said nothing.
pub(super) type Outcome = Result<Said, Cause>;

/// What a call comes to.
pub(super) enum Finished {
    /// It is over; whoever waits is told next.
    Over(Job, Outcome),
    /// It must be sent again.
    Again(Call),
    /// Nobody here wants it any more.
    Unwanted,
}

impl Session<'_> {
    /// Notes what came of a call.
    pub(super) fn finish(&self, done: Done, state: &mut Serving) -> Finished {
        self.line.about.metrics.seconds.observe(done.took.as_secs_f64());
        match &done.result {
            Ok(_) => self.line.succeeded(),
            Err(fault) if fault.is_unknown_script() && done.call.resent < MAX_RESENDS => {
                return self.again(done.call, state).map_or(Finished::Unwanted, Finished::Again);
            }
            Err(fault) => match self.elsewhere(fault) {
                Some((cluster, to)) => {
                    self.redirect(&cluster, &to, done.call.job, state);
                    return Finished::Unwanted;
                }
                None => self.fault(fault, done.took),
            },
        }
        state.landed(&done.call.job);
        if let Job::Refunds(Refunds { refunds, .. }) = &done.call.job {
            match done.result {
                Ok(_) => _ = self.line.about.metrics.refunds.inc_by(refunds.len() as u64),
                Err(_) => self.line.lost_refunds(refunds.len()),
            }
        }
        Finished::Over(done.call.job, done.result.map_err(|fault| fault.cause()))
    }

    /// Where a node of a cluster says that a call belongs.
    pub(super) fn elsewhere(&self, fault: &Fault) -> Option<(Arc<Cluster>, Redirect)> {
        Some((self.cluster()?, fault.redirect(self.line.node.as_ref()?)?))
    }

    /// The node did not serve the call, and counted nothing: it is another's. The node itself is well.
    fn redirect(&self, cluster: &Arc<Cluster>, to: &Redirect, job: Job, state: &mut Serving) {
        state.landed(&job);
        match job {
            Job::Checks(batch) => cluster.redirect(self.line, to, batch),
            Job::Refunds(refunds) => cluster.redirect_refunds(self.line, to, refunds),
            Job::Operation(operation) => cluster.redirect_operation(to, operation),
            Job::Probe(_) => cluster.doubt(),
        }
    }

    /// Tells those who wait for a call's answer.
    pub(super) fn hand_out(&self, job: Job, outcome: Outcome) {
        match (job, outcome) {
            (Job::Checks(batch), Ok(Said::Decided(decoded))) => self.answer(batch, decoded),
            (Job::Checks(batch), outcome) => {
                let cause = outcome.err().unwrap_or(Cause::Error);
                for waiting in batch {
                    // Its caller may have stopped waiting.
                    let _ = waiting.answer.send(Err(cause));
                }
            }
            (Job::Operation(operation), outcome) => {
                operation.tell(outcome.map(|said| if let Said::Did(counts) = said { counts } else { Vec::new() }));
            }
            (Job::Refunds(_) | Job::Probe(_), _) => {}
        }
    }

    /// The server had lost the script and counted nothing. The first call to find out takes the script along; those sent meanwhile find
    /// it there when they come again.
    fn again(&self, call: Call, state: &mut Serving) -> Option<Call> {
        let load = call.loads == state.loads;
        if load {
            state.loads += 1;
            self.line.about.metrics.reloads.inc();
        }
        let resent = call.resent + 1;
        let now = Instant::now();
        let call = match call.job {
            Job::Checks(mut batch) => {
                batch.retain(|waiting| waiting.is_wanted(now));
                self.checks(batch, state.loads, now)?
            }
            job => self.call(job, state.loads, call.timeout),
        };
        Some(Call { load, resent, ..call })
    }

    fn answer(&self, batch: Vec<Waiting>, decoded: Decoded) {
        self.line.about.metrics.batch.observe(f64::from(u32::try_from(batch.len()).unwrap_or(u32::MAX)));
        for (mut waiting, replies) in batch.into_iter().zip(decoded.replies) {
            let Some(replies) = replies else {
                // Not counted, for want of the calendar windows around the shard's time, which is known now.
                if std::mem::replace(&mut waiting.repeated, true) {
                    let _ = waiting.answer.send(Err(Cause::Error));
                } else {
                    self.line.queue.push_again(waiting);
                }
                continue;
            };
            let replaced = replies.iter().filter(|reply| reply.replaced).count();
            if replaced > 0 {
                self.line.about.metrics.replaced.inc_by(replaced as u64);
            }
            // Its caller may have stopped waiting: then the units are spent for nothing, never the other way round.
            let _ = waiting.answer.send(Ok(replies));
        }
    }

    fn fault(&self, fault: &Fault, took: Duration) {
        self.line.about.metrics.failed(fault.cause());
        let now = Instant::now();
        self.line.failed(fault.failure(), now.checked_sub(took).unwrap_or(now), fault.explained(self.line.node.as_ref()));
    }
}
