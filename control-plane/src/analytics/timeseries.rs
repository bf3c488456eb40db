//! Requests and units over time, by outcome, rule or tier.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, PgConnection};
use weir_core::decision::Outcome;

use super::outcome;
use super::range::Range;
use super::table;

/// The most series of an answer; the heaviest are shown, the others are summed into one per outcome.
pub const MAX_SERIES: usize = 60;

/// What a series is of, beside the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupBy {
    /// Only the outcome.
    #[default]
    Outcome,
    /// Each rule by itself.
    Rule,
    /// Each tier by itself.
    Tier,
}

/// Which traffic.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter<'a> {
    /// Of this rule.
    pub rule: Option<&'a str>,
    /// Of this tier.
    pub tier: Option<&'a str>,
}

/// What a series is of. An empty rule: no rule matched. `other`: all that is not shown by itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, utoipa::ToSchema)]
pub struct Key {
    /// What became of the requests.
    pub outcome: Outcome,
    /// Their rule, where series are by rule; empty: none matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Their tier, where series are by tier; empty: none was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// True for the sum of the lighter series of this outcome.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub other: bool,
}

/// One line of a chart: one number for each of the answer's times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Series {
    /// What it is of.
    pub key: Key,
    /// Requests.
    pub requests: Vec<i64>,
    /// Units, the cost of the requests.
    pub units: Vec<i64>,
}

/// The series of a range, heaviest first; a number for every step, 0 where there was nothing.
///
/// # Errors
/// The database's.
pub async fn series(
    connection: &mut PgConnection,
    domain: &str,
    (range, step): (Range, i64),
    group_by: GroupBy,
    filter: Filter<'_>,
) -> sqlx::Result<Vec<Series>> {
    let group = match group_by {
        GroupBy::Outcome => "''",
        GroupBy::Rule => "rule",
        GroupBy::Tier => "tier",
    };
    let sql = format!(
        "SELECT bucket - bucket % $4 AS time, outcome, {group} AS part, sum(requests)::bigint, sum(units)::bigint FROM {} \
         WHERE domain = $1 AND bucket >= $2 AND bucket < $3 AND ($5::text IS NULL OR rule = $5) AND ($6::text IS NULL OR tier = $6) \
         GROUP BY time, outcome, part",
        table::traffic(range.level)
    );
    let rows: Vec<(i64, i16, String, i64, i64)> = sqlx::query_as(AssertSqlSafe(sql))
        .bind(domain)
        .bind(range.from)
        .bind(range.to)
        .bind(step)
        .bind(filter.rule)
        .bind(filter.tier)
        .fetch_all(connection)
        .await?;
    let times: Vec<i64> = range.times(step).collect();
    let mut all: BTreeMap<Key, Series> = BTreeMap::new();
    for (time, outcome, part, requests, units) in rows {
        let (Some(outcome), Ok(at)) = (outcome::from_number(outcome), times.binary_search(&time)) else { continue };
        let key = Key::new(group_by, outcome, part);
        let series = all.entry(key.clone()).or_insert_with(|| Series::empty(key, times.len()));
        series.requests[at] = requests;
        series.units[at] = units;
    }
    Ok(heaviest(all.into_values().collect()))
}

impl Key {
    fn new(group_by: GroupBy, outcome: Outcome, part: String) -> Self {
        let (rule, tier) = match group_by {
            GroupBy::Outcome => (None, None),
            GroupBy::Rule => (Some(part), None),
            GroupBy::Tier => (None, Some(part)),
        };
        Self { outcome, rule, tier, other: false }
    }
}

impl Series {
    fn empty(key: Key, points: usize) -> Self {
        Self { key, requests: vec![0; points], units: vec![0; points] }
    }

    fn total(&self) -> i64 {
        self.requests.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    fn add(&mut self, other: &Self) {
        for (sums, more) in [(&mut self.requests, &other.requests), (&mut self.units, &other.units)] {
            sums.iter_mut().zip(more).for_each(|(sum, n)| *sum = sum.saturating_add(*n));
        }
    }
}

/// The heaviest series by themselves, the others as one per outcome: the sum of all stays what it is.
fn heaviest(mut all: Vec<Series>) -> Vec<Series> {
    all.sort_by(|a, b| b.total().cmp(&a.total()).then_with(|| a.key.cmp(&b.key)));
    if all.len() <= MAX_SERIES {
        return all;
    }
    let mut others: BTreeMap<Outcome, Series> = BTreeMap::new();
    for light in all.split_off(MAX_SERIES) {
        let key = Key { other: true, rule: None, tier: None, ..light.key.clone() };
        others.entry(light.key.outcome).or_insert_with(|| Series::empty(key, light.requests.len())).add(&light);
    }
    all.extend(others.into_values());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lighter_series_are_summed_not_lost() {
        let series = |i: i64| Series {
            key: Key::new(GroupBy::Rule, if i % 2 == 0 { Outcome::Allowed } else { Outcome::Denied }, format!("r{i}")),
            requests: vec![i, 0],
            units: vec![i, i],
        };
        let shown = heaviest((1..=100).map(series).collect());
        assert_eq!(shown.len(), MAX_SERIES + 2);
        assert_eq!(shown[0].requests, [100, 0]);
        assert_eq!(shown.iter().map(Series::total).sum::<i64>(), 5_050);
        assert_eq!(shown.iter().filter(|s| s.key.other).map(|s| s.units[1]).sum::<i64>(), 820);
    }
}
