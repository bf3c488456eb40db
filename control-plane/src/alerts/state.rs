//! When an alert fires: a pure step over what it knew and what it sees now.

/// What is known of an alert between two looks. Times are seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct State {
    /// Whether it fires.
    pub firing: bool,
    /// Since when it fires, or since when it does not; `None`: it never changed.
    pub since: Option<i64>,
    /// Since when the share has been above the limit without a break.
    pub above_since: Option<i64>,
    /// When it was looked at.
    pub evaluated_at: Option<i64>,
    /// The share that was seen then; `None`: no requests.
    pub denied_share: Option<f64>,
}

/// What the alert waits for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Condition {
    /// The share above which it counts, in percent.
    pub percent: f64,
    /// How long it must stay above, in seconds.
    pub for_seconds: i64,
}

/// What changed by one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It fires from now on.
    Firing,
    /// It does no longer.
    Resolved,
}

/// After a gap of this length nobody knows whether the share stayed above: the time above starts anew. In seconds.
pub const MAX_GAP: i64 = 60;

impl State {
    /// The state after a look at `now` that saw `share` percent denied (`None`: no requests, which is not above any limit).
    #[must_use]
    pub fn step(self, condition: Condition, share: Option<f64>, now: i64) -> (Self, Option<Change>) {
        let seen_lately = self.evaluated_at.is_some_and(|at| now - at <= MAX_GAP);
        let above = share.is_some_and(|share| share > condition.percent);
        let above_since = above.then(|| self.above_since.filter(|_| seen_lately || self.firing).unwrap_or(now));
        let firing = above_since.is_some_and(|since| self.firing || now - since >= condition.for_seconds);
        let change = match (self.firing, firing) {
            (false, true) => Some(Change::Firing),
            (true, false) => Some(Change::Resolved),
            _ => None,
        };
        let since = if change.is_some() { Some(now) } else { self.since };
        (Self { firing, since, above_since, evaluated_at: Some(now), denied_share: share }, change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONDITION: Condition = Condition { percent: 20.0, for_seconds: 30 };

    /// Looks every 10 s at the shares; the changes with the times at which they came.
    fn run(shares: &[Option<f64>]) -> Vec<(i64, Change)> {
        let (mut state, mut changes) = (State::default(), vec![]);
        for (i, share) in shares.iter().enumerate() {
            let now = 1_000 + 10 * i64::try_from(i).unwrap();
            let (next, change) = state.step(CONDITION, *share, now);
            changes.extend(change.map(|change| (now, change)));
            state = next;
        }
        changes
    }

    #[test]
    fn it_fires_after_the_time_above_and_resolves_at_once() {
        let above = Some(20.1);
        assert_eq!(run(&[above, above, above]), []);
        assert_eq!(run(&[above, above, above, above]), [(1_030, Change::Firing)]);
        let shares = [above, above, above, above, above, Some(20.0), above];
        assert_eq!(run(&shares), [(1_030, Change::Firing), (1_050, Change::Resolved)]);
    }

    #[test]
    fn a_break_or_no_traffic_starts_the_time_anew() {
        let above = Some(50.0);
        assert_eq!(run(&[above, above, above, Some(5.0), above, above, above]), []);
        assert_eq!(run(&[above, above, above, None, above, above, above]), []);
    }

    #[test]
    fn nobody_looking_is_not_time_above() {
        let (state, _) = State::default().step(CONDITION, Some(50.0), 1_000);
        let (state, change) = state.step(CONDITION, Some(50.0), 2_000);
        assert_eq!((change, state.above_since), (None, Some(2_000)));
        let firing = State { firing: true, since: Some(900), above_since: Some(800), ..state };
        let (state, change) = firing.step(CONDITION, Some(50.0), 9_000);
        assert_eq!((change, state.firing, state.since), (None, true, Some(900)));
    }
}
