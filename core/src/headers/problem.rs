//! The body of a refusal (RFC 9457), with the extension members of the rate-limit headers draft.

use serde::Serialize;

use super::retry_after_seconds;
use crate::decision::{Decision, LimitMode, Reason};
use crate::limit::Algorithm;

/// The members, in the order in which people read them.
#[derive(Serialize)]
struct Problem<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    reason: Reason,
    rule: Option<&'a str>,
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    violated: Vec<&'a str>,
    #[serde(rename = "retry-after", skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
}

pub(super) fn problem(decision: &Decision) -> impl Serialize {
    let rule = decision.strictest_limit().map(|limit| limit.rule.as_str());
    let retry_after = retry_after_seconds(decision);
    let (kind, title) = kind(decision.reason);
    Problem {
        r#type: kind,
        title,
        status: decision.reason.status(),
        detail: detail(decision, rule, retry_after),
        reason: decision.reason,
        rule,
        violated: violated(decision),
        retry_after,
    }
}

/// The rules that the request broke. A rule whose shard is away was not broken by it.
fn violated(decision: &Decision) -> Vec<&str> {
    let refusing = decision.limits.iter().filter(|limit| limit.mode == LimitMode::Enforce);
    refusing.filter(|limit| !matches!(limit.reason, Reason::Ok | Reason::Unavailable)).map(|limit| limit.rule.as_str()).collect()
}

fn kind(reason: Reason) -> (&'static str, &'static str) {
    match reason {
        Reason::Ok => ("about:blank", "OK"),
        Reason::Blocked => ("urn:weir:problem:blocked", "Blocked"),
        Reason::CostExceedsCapacity => ("urn:weir:problem:cost-exceeds-capacity", "Cost exceeds capacity"),
        Reason::Limited => ("https://iana.org/assignments/http-problem-types#quota-exceeded", "Too Many Requests"),
        Reason::Unavailable => ("https://iana.org/assignments/http-problem-types#temporary-reduced-capacity", "Temporarily unavailable"),
    }
}

fn detail(decision: &Decision, rule: Option<&str>, retry_after: Option<u64>) -> String {
    let in_flight = decision.strictest_limit().is_some_and(|limit| limit.algorithm == Algorithm::Concurrency);
    let rule = rule.map_or_else(|| "this domain".to_owned(), |rule| format!("rule {rule}"));
    let wait = retry_after.map_or_else(String::new, |seconds| format!("; retry in {seconds} s"));
    match decision.reason {
        Reason::Ok => "The request may pass.".to_owned(),
        Reason::Blocked => format!("The limit of {rule} is 0: such requests are blocked."),
        Reason::CostExceedsCapacity => format!("The request costs more than {rule} ever lets pass at once."),
        Reason::Limited if in_flight => format!("The limit of {rule} is reached by requests in flight{wait} at the latest."),
        Reason::Limited => format!("The limit of {rule} is used up{wait}."),
        Reason::Unavailable => format!("The limit of {rule} cannot be checked now{wait}."),
    }
}
