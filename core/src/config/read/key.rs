//! Reads what a rule counts by.

use serde_json::Value;

use super::MAX_KEY_PARTS;
use super::matches::header_name_text;
use super::object::Object;
use super::value;
use crate::matching::template::{Template, missing};
use crate::mistake::Mistakes;
use crate::rule::{KeyPart, Match};

/// The longest key of a descriptor, in bytes.
pub(super) const MAX_DESCRIPTOR_KEY: usize = 256;

/// The parts of a rule's key; `matches` is the rule's match, if it could be read.
pub(super) fn key(rule: &Object<'_>, matches: Option<&Match>, mistakes: &mut Mistakes) -> Option<Vec<KeyPart>> {
    let template = matches.and_then(|matches| Template::parse(matches.path.as_deref()?).ok());
    rule.required("key", mistakes, |value, pointer, mistakes| {
        value::distinct(MAX_KEY_PARTS, |value, pointer, mistakes| {
            let part = part(value, pointer, mistakes)?;
            if let Some(mistake) = matches.and_then(|_| missing(&part, template.as_ref())) {
                mistakes.add(pointer, mistake);
                return None;
            }
            Some(part)
        })(value, pointer, mistakes)
    })
}

fn part(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<KeyPart> {
    let text = value::text(value, pointer, mistakes)?;
    let part = match text.split_once(':') {
        None => match text {
            "subject" => KeyPart::Subject,
            "ip" => KeyPart::Ip,
            "route" => KeyPart::Route,
            "method" => KeyPart::Method,
            "tier" => KeyPart::Tier,
            _ => return unknown(pointer, mistakes),
        },
        Some(("header", name)) => KeyPart::Header(header_name_text(name, pointer, mistakes)?),
        Some(("param", name)) if !name.is_empty() => KeyPart::Param(name.to_owned()),
        Some(("descriptor", name)) if is_descriptor_key(name) => KeyPart::Descriptor(name.to_owned()),
        Some(_) => return unknown(pointer, mistakes),
    };
    Some(part)
}

fn unknown(pointer: &str, mistakes: &mut Mistakes) -> Option<KeyPart> {
    mistakes.add(pointer, "must be one of subject, ip, route, method, tier, header:NAME, param:NAME, descriptor:NAME");
    None
}

fn is_descriptor_key(name: &str) -> bool {
    (1..=MAX_DESCRIPTOR_KEY).contains(&name.len()) && !name.chars().any(char::is_control)
}
