//! From what ledgers counted to the messages of the wire.

use std::time::Duration;

use hashbrown::HashMap;
use weir_core::decision::{Decision, LimitDecision, Outcome};
use weir_core::name::Name;
use weir_core::request::Request;
use weir_core::subject::Subject;
use weir_proto::v1;

use super::ledger::{Cell, Drained, Tally};
use super::subjects::SubjectTally;

/// The most rows of each kind in one batch: with the longest texts it stays below the 4 MiB that gRPC servers read by default.
const MAX_ROWS: usize = 500;
/// The longest text of a sampled denial, in bytes.
const MAX_TEXT: usize = 256;
/// The hex digits that tell long subjects apart.
const HASH: usize = 16;

/// The batches of `second`, with subjects counted from `start` to `end`; none if there is nothing to say.
pub(super) fn build(drained: Drained, second: i64, start: i64, end: i64) -> Vec<v1::EventBatch> {
    let seconds = u32::try_from((end - start).max(1)).unwrap_or(u32::MAX);
    let mut aggregates = drained.cells.into_iter().map(|(cell, tally)| aggregate(&cell, tally, second)).peekable();
    let mut denials = drained.denials.into_iter().peekable();
    let mut subjects = merge(drained.subjects).into_iter().map(|s| subject_count(s, start, seconds)).peekable();
    let mut batches = Vec::new();
    while aggregates.peek().is_some() || denials.peek().is_some() || subjects.peek().is_some() {
        batches.push(v1::EventBatch {
            aggregates: aggregates.by_ref().take(MAX_ROWS).collect(),
            denials: denials.by_ref().take(MAX_ROWS).collect(),
            subjects: subjects.by_ref().take(MAX_ROWS).collect(),
            ..v1::EventBatch::default()
        });
    }
    batches
}

/// One tally per subject and rule: the same subject may have been seen by several threads.
fn merge(tallies: Vec<SubjectTally>) -> Vec<SubjectTally> {
    let mut places: HashMap<(Option<Name>, Option<Name>, String), usize> = HashMap::new();
    let mut merged: Vec<SubjectTally> = Vec::with_capacity(tallies.len());
    for tally in tallies {
        let place =
            *places.entry((tally.rule.clone(), tally.tier.clone(), format!("{}\0{}", tally.domain, tally.subject))).or_insert(merged.len());
        match merged.get_mut(place) {
            Some(sum) => {
                sum.denied += tally.denied;
                sum.allowed += tally.allowed;
                sum.error += tally.error;
            }
            None => merged.push(tally),
        }
    }
    merged
}

fn aggregate(cell: &Cell, tally: Tally, second: i64) -> v1::Aggregate {
    v1::Aggregate {
        second,
        domain: cell.domain.to_string(),
        rule: text(cell.rule.as_ref()),
        tier: text(cell.tier.as_ref()),
        outcome: on_wire(cell.outcome).into(),
        shard: text(cell.shard.as_ref()),
        requests: tally.requests,
        units: tally.units,
        cause: cell.cause.map_or_else(String::new, |cause| cause.as_str().to_owned()),
    }
}

fn subject_count(tally: SubjectTally, second: i64, seconds: u32) -> v1::SubjectCount {
    v1::SubjectCount {
        second,
        seconds,
        domain: tally.domain.to_string(),
        rule: text(tally.rule.as_ref()),
        tier: text(tally.tier.as_ref()),
        subject: tally.subject,
        denied: tally.denied,
        allowed: tally.allowed,
        error: tally.error,
    }
}

/// One denial, whole; its weight is known later.
pub(super) fn denial(
    request: &Request<'_>,
    decision: &Decision,
    limit: Option<&LimitDecision>,
    outcome: Outcome,
    subject: &Subject<'_>,
    wall: Duration,
) -> v1::Denial {
    let path = request.path.unwrap_or_default();
    let path = path.split(['?', '#']).next().unwrap_or_default();
    v1::Denial {
        time_ms: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX),
        domain: decision.domain.to_string(),
        rule: text(limit.map(|l| &l.rule)),
        tier: text(decision.tier.as_ref()),
        subject: named(subject),
        outcome: on_wire(outcome).into(),
        reason: limit.map_or(decision.reason, |l| l.reason).as_str().to_owned(),
        method: shown(request.method.unwrap_or_default()),
        host: shown(request.host.unwrap_or_default()),
        path: shown(path),
        client_ip: request.client_ip.map_or_else(String::new, |ip| ip.to_canonical().to_string()),
        limit: limit.and_then(|l| l.limit).unwrap_or_default(),
        window_ms: limit.map_or(0, |l| l.window_us.div_ceil(1_000)),
        retry_after_ms: limit.and_then(|l| l.retry_after_us).map_or(0, |us| us.div_ceil(1_000)),
        cost: limit.map_or(request.cost, |l| l.cost),
        shard: text(limit.and_then(|l| l.shard.as_ref())),
        key: limit.and_then(|l| l.key).map_or_else(String::new, |key| key.as_str().to_owned()),
        weight: 1.0,
    }
}

/// A subject as people read it. A very long one is cut, with a hash of the whole behind it: two that begin alike stay two.
pub(super) fn named(subject: &Subject<'_>) -> String {
    let text = printable(&subject.display());
    if text.len() <= MAX_TEXT {
        return text;
    }
    let hash = blake3::hash(text.as_bytes()).to_hex();
    format!("{}…{}", &text[..text.floor_char_boundary(MAX_TEXT - HASH - '…'.len_utf8())], &hash[..HASH])
}

/// At most [`MAX_TEXT`] bytes of `text`, safe to show.
fn shown(text: &str) -> String {
    // Cut before, so that a long text costs nothing, and after, since what is spelled out is longer.
    let mut shown = printable(cut(text));
    shown.truncate(cut(&shown).len());
    shown
}

/// `text` with control characters spelled out, so that it is safe in a log line, a terminal and a table.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// The beginning of `text`, whole characters only.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

fn text(name: Option<&Name>) -> String {
    name.map_or_else(String::new, |name| name.as_str().to_owned())
}

fn on_wire(outcome: Outcome) -> v1::Outcome {
    match outcome {
        Outcome::Allowed => v1::Outcome::Allowed,
        Outcome::Denied => v1::Outcome::Denied,
        Outcome::ShadowDenied => v1::Outcome::ShadowDenied,
        Outcome::DegradedAllowed => v1::Outcome::DegradedAllowed,
        Outcome::DegradedDenied => v1::Outcome::DegradedDenied,
        Outcome::Unavailable => v1::Outcome::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spelled_out_stays_within_its_bound() {
        assert_eq!(shown("/a\u{1b}b"), "/a\\u{1b}b");
        for long in ["\0".repeat(300), "é\n".repeat(300), "x".repeat(300)] {
            let shown = shown(&long);
            assert!(shown.len() <= MAX_TEXT && shown.len() > MAX_TEXT - 8, "{}", shown.len());
        }
    }
}
