//! Reads the fields of a question, and notes every mistake.

use std::borrow::Cow;

use http::header::Entry;
use http::{HeaderMap, HeaderName, HeaderValue};
use weir_core::client_ip;
use weir_core::config::read;
use weir_core::limit::MAX_UNITS;
use weir_core::mistake::Mistakes;
use weir_core::name::{self, Name};
use weir_core::request::{MAX_HEADER, MAX_HOST, MAX_METHOD, MAX_PATH, MAX_TIER};
use weir_core::ruleset::MAX_LIMITS;
use weir_core::subject::Subject;

use super::{Form, Question};
use crate::transport::json::{Json, Pair, REPEATED, escaped, text};

/// The most headers and the most descriptors.
const MAX_PAIRS: usize = 64;
/// The longest key of a descriptor, and its longest value.
const MAX_DESCRIPTOR: usize = 1024;

/// Reads the fields of an object.
pub(super) fn question<'a>(form: Form, fields: Vec<(Cow<'a, str>, Json<'a>)>) -> Result<Question<'a>, Mistakes> {
    let mut reader = Reader { form, question: Question::default(), mistakes: Mistakes::new() };
    let mut given = vec![false; form.fields().len()];
    let mut has_cost = false;
    for (field, value) in fields {
        match form.fields().iter().position(|known| *known == field) {
            None => {
                let known = form.fields().join(", ");
                reader.mistakes.add(format!("/{}", escaped(&field)), format!("is not a field; the fields are {known}"));
            }
            Some(known) if std::mem::replace(&mut given[known], true) => reader.mistakes.add(format!("/{field}"), REPEATED),
            // As good as none.
            Some(_) if matches!(value, Json::Null) => {}
            Some(_) => {
                has_cost |= field == "cost";
                reader.field(&field, value);
            }
        }
    }
    if form.least_cost() > 0 && !has_cost {
        reader.mistakes.add("/cost", "is missing: how many units?");
    }
    reader.mistakes.into_result(reader.question)
}

struct Reader<'a> {
    form: Form,
    question: Question<'a>,
    mistakes: Mistakes,
}

impl<'a> Reader<'a> {
    /// Reads one field of the form.
    fn field(&mut self, field: &str, value: Json<'a>) {
        match field {
            "domain" => self.question.domain = self.text(field, value, 1, name::MAX_LENGTH).unwrap_or_default(),
            "subject" => self.subject(value),
            "tier" => self.question.tier = self.text(field, value, 1, MAX_TIER),
            "method" => self.method(value),
            "host" => self.question.host = self.text(field, value, 1, MAX_HOST),
            "path" => self.question.path = self.text(field, value, 0, MAX_PATH),
            "headers" => self.headers(value),
            "client_ip" => self.client_ip(value),
            "descriptors" => self.descriptors(value),
            "cost" => self.cost(&value),
            "limits" => self.limits(value),
            _ => self.rules(value),
        }
    }

    /// A text of `min` to `max` bytes.
    fn text(&mut self, field: &str, value: Json<'a>, min: usize, max: usize) -> Option<Cow<'a, str>> {
        text(value, min, max).map_err(|mistake| self.mistakes.add(format!("/{field}"), mistake)).ok()
    }

    fn subject(&mut self, value: Json<'a>) {
        let Some(text) = self.text("subject", value, 1, usize::MAX) else { return };
        if Subject::parse(&text).is_none() {
            self.mistakes.add("/subject", "must be an id of 1 to 1024 bytes, perhaps after its kind, such as \"user:123\"");
        }
        self.question.subject = Some(text);
    }

    fn method(&mut self, value: Json<'a>) {
        let Some(method) = self.text("method", value, 1, MAX_METHOD) else { return };
        if http::Method::from_bytes(method.as_bytes()).is_err() {
            self.mistakes.add("/method", "must be an HTTP method such as \"GET\"");
        }
        self.question.method = Some(method);
    }

    fn client_ip(&mut self, value: Json<'a>) {
        let Some(text) = self.text("client_ip", value, 1, 128) else { return };
        self.question.client_ip = client_ip::address(&text);
        if self.question.client_ip.is_none() {
            self.mistakes.add("/client_ip", "must be an IP address such as \"203.0.113.7\" or \"2001:db8::1\"");
        }
    }

    fn cost(&mut self, value: &Json<'a>) {
        match value {
            Json::Whole(cost) if (self.form.least_cost()..=MAX_UNITS).contains(cost) => self.question.cost = *cost,
            _ => self.mistakes.add("/cost", format!("must be a whole number from {} to {MAX_UNITS}", self.form.least_cost())),
        }
    }

    fn limits(&mut self, value: Json<'a>) {
        let value = value.into_value("/limits", &mut self.mistakes);
        self.question.limits = read::overrides(&value, "/limits", &mut self.mistakes);
    }

    fn rules(&mut self, value: Json<'a>) {
        let Json::List(entries) = value else {
            return self.mistakes.add("/rules", "must be a list of names of rules");
        };
        if entries.is_empty() || entries.len() > MAX_LIMITS {
            return self.mistakes.add("/rules", format!("must have 1 to {MAX_LIMITS} names, not {}", entries.len()));
        }
        let mut rules = Vec::with_capacity(entries.len());
        for (i, entry) in entries.into_iter().enumerate() {
            let name = text(entry, 1, name::MAX_LENGTH).and_then(|name| Name::new(&name).map_err(|error| error.to_string()));
            match name {
                Ok(name) => rules.push(name),
                Err(mistake) => self.mistakes.add(format!("/rules/{i}"), mistake),
            }
        }
        self.question.rules = Some(rules);
    }

    fn headers(&mut self, value: Json<'a>) {
        let Json::Object(fields) = value else {
            return self.mistakes.add("/headers", "must be an object of header names and values");
        };
        if fields.len() > MAX_PAIRS {
            return self.mistakes.add("/headers", format!("must have at most {MAX_PAIRS} headers, not {}", fields.len()));
        }
        for (name, value) in fields {
            if let Err(mistake) = header(&mut self.question.headers, &name, value) {
                self.mistakes.add(format!("/headers/{}", escaped(&name)), mistake);
            }
        }
    }

    fn descriptors(&mut self, value: Json<'a>) {
        let Json::List(entries) = value else {
            return self.mistakes.add("/descriptors", "must be a list of {\"key\", \"value\"}");
        };
        if entries.len() > MAX_PAIRS {
            return self.mistakes.add("/descriptors", format!("must have at most {MAX_PAIRS} descriptors, not {}", entries.len()));
        }
        for (i, entry) in entries.into_iter().enumerate() {
            self.question.descriptors.extend(descriptor(entry, &format!("/descriptors/{i}"), &mut self.mistakes));
        }
    }
}

/// Adds a header. Names differ by more than case.
fn header(headers: &mut HeaderMap, name: &str, value: Json<'_>) -> Result<(), String> {
    let value = text(value, 0, MAX_HEADER)?;
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "is not a header name")?;
    let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| "must not have control characters")?;
    match headers.entry(name) {
        Entry::Vacant(place) => drop(place.insert(value)),
        Entry::Occupied(_) => return Err(REPEATED.to_owned()),
    }
    Ok(())
}

fn descriptor<'a>(entry: Json<'a>, pointer: &str, mistakes: &mut Mistakes) -> Option<Pair<'a>> {
    let Json::Object(fields) = entry else {
        mistakes.add(pointer, "must be an object {\"key\", \"value\"}");
        return None;
    };
    let (mut key, mut value) = (None, None);
    for (field, given) in fields {
        let (part, min) = match &*field {
            "key" => (&mut key, 1),
            "value" => (&mut value, 0),
            _ => {
                mistakes.add(format!("{pointer}/{}", escaped(&field)), "is not a field; the fields are key, value");
                continue;
            }
        };
        let given = if part.is_some() { Err(REPEATED.to_owned()) } else { text(given, min, MAX_DESCRIPTOR) };
        *part = Some(given.map_err(|mistake| mistakes.add(format!("{pointer}/{field}"), mistake)).ok());
    }
    for (field, part) in [("key", &key), ("value", &value)] {
        if part.is_none() {
            mistakes.add(pointer, format!("has no {field:?}"));
        }
    }
    key.flatten().zip(value.flatten())
}
