//! Reads which requests a rule is about.

use http::HeaderName;
use serde_json::Value;

use super::key::MAX_DESCRIPTOR_KEY;
use super::object::Object;
use super::value;
use crate::matching::host::HostPattern;
use crate::matching::template::Template;
use crate::matching::values::compile_regex;
use crate::mistake::Mistakes;
use crate::rule::{DescriptorMatch, HeaderMatch, Match, ValueMatch};

const MAX_METHODS: usize = 32;
const MAX_METHOD: usize = 32;
const MAX_HOSTS: usize = 64;
const MAX_HEADERS: usize = 32;
const MAX_DESCRIPTORS: usize = 32;
const MAX_VALUE: usize = 1_024;

pub(super) fn matches(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<Match> {
    let object = Object::open(value, pointer, &["methods", "hosts", "path", "headers", "descriptors"], mistakes)?;
    let methods = object.optional("methods", mistakes, value::distinct(MAX_METHODS, method));
    let hosts = object.optional("hosts", mistakes, value::distinct(MAX_HOSTS, host));
    let path = object.optional("path", mistakes, path);
    let headers = object.optional("headers", mistakes, value::distinct(MAX_HEADERS, header));
    let descriptors = object.optional("descriptors", mistakes, value::distinct(MAX_DESCRIPTORS, descriptor));
    Some(Match {
        methods: methods.unwrap_or_default(),
        hosts: hosts.unwrap_or_default(),
        path,
        headers: headers.unwrap_or_default(),
        descriptors: descriptors.unwrap_or_default(),
    })
}

/// Methods are case-sensitive, and all that are in use are upper case.
fn method(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<String> {
    let text = value::text(value, pointer, mistakes)?;
    let fits =
        (1..=MAX_METHOD).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b"-_.".contains(&b));
    if !fits {
        mistakes.add(pointer, format!("must be a method in upper case, such as GET, of at most {MAX_METHOD} characters"));
    }
    fits.then(|| text.to_owned())
}

fn host(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<String> {
    let text = value::text(value, pointer, mistakes)?;
    let host = HostPattern::parse(text).map_err(|error| mistakes.add(pointer, error.to_string())).ok()?;
    Some(host.to_string())
}

fn path(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<String> {
    let text = value::text(value, pointer, mistakes)?;
    Template::parse(text).map_err(|error| mistakes.add(pointer, error.to_string())).ok()?;
    Some(text.to_owned())
}

/// A header's name, in lower case.
pub(super) fn header_name(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<String> {
    header_name_text(value::text(value, pointer, mistakes)?, pointer, mistakes)
}

/// The same, of a text that has been cut out of a value.
pub(super) fn header_name_text(text: &str, pointer: &str, mistakes: &mut Mistakes) -> Option<String> {
    let name = HeaderName::from_bytes(text.as_bytes()).ok().filter(|name| name.as_str().len() <= 128);
    if name.is_none() {
        mistakes.add(pointer, "must have a valid header name of at most 128 characters");
    }
    name.map(|name| name.as_str().to_owned())
}

fn header(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<HeaderMatch> {
    let object = Object::open(value, pointer, &["name", "present", "exact", "prefix", "regex"], mistakes)?;
    let name = object.required("name", mistakes, header_name);
    if ["present", "exact", "prefix", "regex"].iter().filter(|field| object.has(field)).count() != 1 {
        mistakes.add(pointer, "must have exactly one of present, exact, prefix, regex");
        return None;
    }
    let owned = |text: &str| text.to_owned();
    let value = object
        .optional("present", mistakes, present)
        .or_else(|| object.optional("exact", mistakes, value::plain_text(MAX_VALUE)).map(owned).map(ValueMatch::Exact))
        .or_else(|| object.optional("prefix", mistakes, value::plain_text(MAX_VALUE)).map(owned).map(ValueMatch::Prefix))
        .or_else(|| object.optional("regex", mistakes, regex).map(ValueMatch::Regex));
    Some(HeaderMatch { name: name?, value: value? })
}

fn present(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<ValueMatch> {
    if value != &Value::Bool(true) {
        mistakes.add(pointer, "must be true");
        return None;
    }
    Some(ValueMatch::Present(true))
}

fn regex(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<String> {
    let text = value::text(value, pointer, mistakes)?;
    compile_regex(text).map_err(|error| mistakes.add(pointer, error)).ok()?;
    Some(text.to_owned())
}

fn descriptor(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<DescriptorMatch> {
    let object = Object::open(value, pointer, &["key", "value"], mistakes)?;
    let key = object.required("key", mistakes, value::plain_text(MAX_DESCRIPTOR_KEY));
    let value = object.optional("value", mistakes, |value, pointer, mistakes| {
        let text = value::text(value, pointer, mistakes)?;
        if text.len() > MAX_VALUE {
            mistakes.add(pointer, format!("must have at most {MAX_VALUE} bytes, not {}", text.len()));
        }
        if text.chars().any(char::is_control) {
            mistakes.add(pointer, "must not contain control characters");
        }
        Some(text.to_owned())
    });
    if object.has("value") && value.is_none() {
        return None;
    }
    Some(DescriptorMatch { key: key?.to_owned(), value })
}
