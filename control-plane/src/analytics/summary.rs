//! Totals of a range.

use serde::Serialize;
use sqlx::{AssertSqlSafe, PgConnection};
use weir_core::decision::Outcome;

use super::outcome;
use super::range::Range;
use super::table;

/// Requests by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Totals {
    /// Let through by their limits.
    pub allowed: i64,
    /// Refused by a limit.
    pub denied: i64,
    /// What shadow rules would have refused. These requests are counted besides, under the rule that decided them.
    pub shadow_denied: i64,
    /// Decided without their shard, either way (`unavailable` not counted).
    pub degraded: i64,
    /// Those of `degraded` that were let through.
    pub degraded_allowed: i64,
    /// Those of `degraded` that were refused.
    pub degraded_denied: i64,
    /// Refused with 503, since the rule is closed without its shard: not the client's fault, so not among the denied.
    pub unavailable: i64,
}

impl Totals {
    /// Adds requests of an outcome.
    pub fn add(&mut self, outcome: Outcome, requests: i64) {
        let place = match outcome {
            Outcome::Allowed => &mut self.allowed,
            Outcome::Denied => &mut self.denied,
            Outcome::ShadowDenied => &mut self.shadow_denied,
            Outcome::DegradedAllowed => &mut self.degraded_allowed,
            Outcome::DegradedDenied => &mut self.degraded_denied,
            Outcome::Unavailable => &mut self.unavailable,
        };
        *place = place.saturating_add(requests);
        self.degraded = self.degraded_allowed.saturating_add(self.degraded_denied);
    }

    /// All requests: each was counted once, under the rule that decided it.
    #[must_use]
    pub fn requests(&self) -> i64 {
        [self.allowed, self.denied, self.degraded, self.unavailable].into_iter().fold(0, i64::saturating_add)
    }

    /// The share of all requests that a limit refused, with its shard or without, 0 to 1; `None`: there were no requests.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a share is shown with a few digits")]
    pub fn denied_share(&self) -> Option<f64> {
        let all = self.requests();
        (all > 0).then(|| self.denied.saturating_add(self.degraded_denied) as f64 / all as f64)
    }
}

/// Totals of a domain, or of one of its rules.
///
/// # Errors
/// The database's.
pub async fn totals(connection: &mut PgConnection, domain: &str, rule: Option<&str>, range: Range) -> sqlx::Result<Totals> {
    let sql = format!(
        "SELECT outcome, sum(requests)::bigint FROM {} \
         WHERE domain = $1 AND bucket >= $2 AND bucket < $3 AND ($4::text IS NULL OR rule = $4) GROUP BY outcome",
        table::traffic(range.level)
    );
    let rows: Vec<(i16, i64)> =
        sqlx::query_as(AssertSqlSafe(sql)).bind(domain).bind(range.from).bind(range.to).bind(rule).fetch_all(connection).await?;
    let mut totals = Totals::default();
    for (outcome, requests) in rows {
        if let Some(outcome) = outcome::from_number(outcome) {
            totals.add(outcome, requests);
        }
    }
    Ok(totals)
}

/// How many subjects were denied. A lower bound: only the heaviest are kept.
///
/// # Errors
/// The database's.
pub async fn denied_subjects(
    connection: &mut PgConnection,
    domain: &str,
    rule: Option<&str>,
    (range, now): (Range, i64),
) -> sqlx::Result<i64> {
    let (table, from, to) = table::subjects(range, now);
    let sql = format!(
        "SELECT count(DISTINCT subject) FROM {table} WHERE domain = $1 AND bucket >= $2 AND bucket < $3 AND denied > 0 AND ($4::text IS NULL OR rule = $4)"
    );
    sqlx::query_scalar(AssertSqlSafe(sql)).bind(domain).bind(from).bind(to).bind(rule).fetch_one(connection).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_denied_share_is_of_all_requests_and_blames_no_client_for_a_missing_shard() {
        let mut totals = Totals::default();
        assert_eq!(totals.denied_share(), None);
        for (outcome, requests) in [
            (Outcome::Allowed, 50),
            (Outcome::Denied, 20),
            (Outcome::ShadowDenied, 70),
            (Outcome::DegradedAllowed, 10),
            (Outcome::DegradedDenied, 10),
            (Outcome::Unavailable, 10),
        ] {
            totals.add(outcome, requests);
        }
        assert_eq!((totals.requests(), totals.degraded), (100, 20));
        assert_eq!(totals.denied_share(), Some(0.3));
    }
}
