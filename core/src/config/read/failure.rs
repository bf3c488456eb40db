//! Reads what a rule does without its shard.

use serde_json::Value;

use super::object::{Object, kind_of};
use super::value;
use crate::failure::{Escalation, FailureMode, FailurePolicy};
use crate::limit::MAX_WINDOW;
use crate::mistake::Mistakes;
use crate::span::Span;

const MODES: [(&str, FailureMode); 3] = [("local", FailureMode::Local), ("open", FailureMode::Open), ("closed", FailureMode::Closed)];

pub(super) fn policy(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<FailurePolicy> {
    let object = Object::open(value, pointer, &["mode", "generosity", "escalate"], mistakes)?;
    let mode = object.required("mode", mistakes, value::choice(&MODES));
    let generosity = object.optional("generosity", mistakes, generosity).unwrap_or(1.0);
    let escalate = object.optional("escalate", mistakes, |value, pointer, mistakes| escalation(value, pointer, mode, mistakes));
    Some(FailurePolicy { mode: mode?, generosity, escalate })
}

/// Three decimals, so that a number prints, parses and hashes the same for ever.
fn generosity(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<f64> {
    let number = value.as_f64().and_then(|number| {
        let rounded = (number * 1_000.0).round() / 1_000.0;
        ((0.1..=10.0).contains(&rounded) && (number - rounded).abs() < 1e-9).then_some(rounded)
    });
    if number.is_none() {
        let found = if value.is_number() { value.to_string() } else { kind_of(value).to_owned() };
        mistakes.add(pointer, format!("must be a number from 0.1 to 10 with at most three decimals, not {found}"));
    }
    number
}

fn escalation(value: &Value, pointer: &str, first: Option<FailureMode>, mistakes: &mut Mistakes) -> Option<Escalation> {
    let object = Object::open(value, pointer, &["after", "to"], mistakes)?;
    let after = object.required("after", mistakes, value::span(Span::from_millis(1)..=MAX_WINDOW));
    let to = object.required("to", mistakes, |value, pointer, mistakes| {
        let to = value::choice(&MODES)(value, pointer, mistakes)?;
        if Some(to) == first {
            mistakes.add(pointer, "must differ from the mode before it");
        }
        Some(to)
    });
    Some(Escalation { after: after?, to: to? })
}
