//! The body of `POST /v1/check`: read within bounds, with all mistakes at once.

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::Entry;
use http::{HeaderMap, HeaderName, HeaderValue};
use weir_core::client_ip;
use weir_core::decision::Decision;
use weir_core::limit::MAX_UNITS;
use weir_core::mistake::Mistakes;
use weir_core::name;
use weir_core::request::{MAX_HEADER, MAX_HOST, MAX_METHOD, MAX_PATH, MAX_TIER, Request};
use weir_core::subject::Subject;

use super::json::{Json, Pair};
use crate::agent::Agent;
use crate::check::CheckError;

/// The most headers and the most descriptors.
const MAX_PAIRS: usize = 64;
/// The longest key of a descriptor, and its longest value.
const MAX_DESCRIPTOR: usize = 1024;
const FIELDS: [&str; 10] = ["domain", "subject", "tier", "method", "host", "path", "headers", "client_ip", "descriptors", "cost"];
/// Of two values, each reader would believe another.
const REPEATED: &str = "is given more than once";

/// A question to the limiter; its texts are those of the body where they can be.
#[derive(Debug, Clone, PartialEq)]
pub struct Question<'a> {
    domain: Cow<'a, str>,
    subject: Option<Cow<'a, str>>,
    tier: Option<Cow<'a, str>>,
    method: Option<Cow<'a, str>>,
    host: Option<Cow<'a, str>>,
    path: Option<Cow<'a, str>>,
    headers: HeaderMap,
    client_ip: Option<IpAddr>,
    descriptors: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    cost: u64,
}

impl Default for Question<'_> {
    fn default() -> Self {
        Self {
            domain: Cow::Borrowed("default"),
            subject: None,
            tier: None,
            method: None,
            host: None,
            path: None,
            headers: HeaderMap::new(),
            client_ip: None,
            descriptors: Vec::new(),
            cost: 1,
        }
    }
}

impl<'a> Question<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Every mistake with its JSON pointer, in the order of the body.
    pub fn from_json(body: &'a [u8]) -> Result<Self, Mistakes> {
        let mut mistakes = Mistakes::new();
        let fields = match serde_json::from_slice(body) {
            Ok(Json::Object(fields)) => fields,
            Ok(_) => {
                mistakes.add("", "is not a JSON object");
                return Err(mistakes);
            }
            Err(error) => {
                mistakes.add("", format!("is not a JSON object: {error}"));
                return Err(mistakes);
            }
        };
        let mut reader = Reader { question: Question::default(), mistakes };
        let mut given = [false; FIELDS.len()];
        for (field, value) in fields {
            match FIELDS.iter().position(|known| *known == field) {
                Some(known) if std::mem::replace(&mut given[known], true) => reader.mistakes.add(format!("/{field}"), REPEATED),
                _ => reader.field(&field, value),
            }
        }
        reader.mistakes.into_result(reader.question)
    }

    /// Has the agent decide it.
    ///
    /// # Errors
    /// [`CheckError`]: the agent does not serve the domain, or its rules cannot be applied.
    pub async fn ask(&self, agent: &Agent) -> Result<Decision, CheckError> {
        let descriptors: Vec<(&str, &str)> = self.descriptors.iter().map(|(key, value)| (&**key, &**value)).collect();
        let request = Request {
            domain: &self.domain,
            subject: self.subject.as_deref().and_then(Subject::parse),
            tier: self.tier.as_deref(),
            method: self.method.as_deref(),
            host: self.host.as_deref(),
            path: self.path.as_deref(),
            headers: &self.headers,
            client_ip: self.client_ip,
            descriptors: &descriptors,
            cost: self.cost,
        };
        agent.check(&request).await
    }
}

struct Reader<'a> {
    question: Question<'a>,
    mistakes: Mistakes,
}

impl<'a> Reader<'a> {
    /// Reads one field; `null` is as good as none.
    fn field(&mut self, field: &str, value: Json<'a>) {
        if matches!(value, Json::Null) && FIELDS.contains(&field) {
            return;
        }
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
            _ => self.mistakes.add(format!("/{}", escaped(field)), format!("is not a field; the fields are {}", FIELDS.join(", "))),
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
            Json::Whole(cost) if *cost <= MAX_UNITS => self.question.cost = *cost,
            _ => self.mistakes.add("/cost", format!("must be a whole number from 0 to {MAX_UNITS}")),
        }
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

/// A text of `min` to `max` bytes, or what is wrong with it.
fn text(value: Json<'_>, min: usize, max: usize) -> Result<Cow<'_, str>, String> {
    match value {
        Json::Text(text) if (min..=max).contains(&text.len()) => Ok(text),
        Json::Text(text) => {
            let bounds = if max == usize::MAX { format!("at least {min}") } else { format!("{min} to {max}") };
            Err(format!("must have {bounds} bytes, not {}", text.len()))
        }
        _ => Err("must be a string".to_owned()),
    }
}

/// One step of a JSON pointer (RFC 6901), cut where somebody sent a novel as a field name.
fn escaped(field: &str) -> String {
    field[..field.floor_char_boundary(64)].replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointers(body: &str) -> Vec<String> {
        Question::from_json(body.as_bytes()).unwrap_err().into_iter().map(|mistake| mistake.pointer).collect()
    }

    #[test]
    fn an_empty_question_has_the_documented_defaults() {
        let question = Question::from_json(b"{}").unwrap();
        assert_eq!((&*question.domain, question.cost), ("default", 1));
        let nulls = br#"{"subject":null,"tier":null,"method":null,"host":null,"path":null,"headers":null,"client_ip":null,"cost":null,"descriptors":null,"domain":null}"#;
        assert_eq!(Question::from_json(nulls).unwrap(), question);
    }

    #[test]
    fn a_whole_question_is_read() {
        let body = r#"{ "domain": "default", "subject": "user:123", "tier": "free", "method": "GET", "host": "api.example.com",
            "path": "/api/search?q=1", "headers": { "X-Plan": "a" }, "client_ip": "203.0.113.7",
            "descriptors": [ { "key": "k", "value": "v" } ], "cost": 1 }"#;
        let question = Question::from_json(body.as_bytes()).unwrap();
        assert_eq!(question.headers.get("x-plan").unwrap(), "a");
        assert_eq!(question.descriptors, [("k".into(), "v".into())]);
        assert_eq!(question.client_ip, Some(IpAddr::from([203, 0, 113, 7])));
    }

    #[test]
    fn all_mistakes_come_at_once() {
        let body = r#"{ "domain": 1, "subject": "", "method": "GE T", "headers": {"a b": "x", "ok": "a\r\nb", "n": 1},
            "client_ip": "1.2.3", "descriptors": [1, {"key": ""}, {"key": "k", "value": "v", "x": 1}], "cost": -1, "hits": 1 }"#;
        let expected = [
            "/domain",
            "/subject",
            "/method",
            "/headers/a b",
            "/headers/ok",
            "/headers/n",
            "/client_ip",
            "/descriptors/0",
            "/descriptors/1/key",
            "/descriptors/1",
            "/descriptors/2/x",
            "/cost",
            "/hits",
        ];
        assert_eq!(pointers(body), expected);
    }

    /// BB-59: a cost of 0 is a look, and not the same as none.
    #[test]
    fn bb_59_costs_are_whole_numbers_within_bounds() {
        for (text, cost) in [("0", 0), ("7", 7), ("9007199254740991", MAX_UNITS)] {
            assert_eq!(Question::from_json(format!(r#"{{"cost":{text}}}"#).as_bytes()).unwrap().cost, cost);
        }
        for bad in ["-1", "1.5", "1e3", "1.0", "9007199254740992", "18446744073709551616", "\"1\"", "true", "[]", "1e999"] {
            assert_eq!(Question::from_json(format!(r#"{{"cost":{bad}}}"#).as_bytes()).unwrap_err().as_slice().len(), 1, "{bad}");
        }
    }

    #[test]
    fn a_field_that_is_given_twice_is_a_mistake() {
        assert_eq!(pointers(r#"{"cost":0,"cost":1,"subject":"a","subject":"b"}"#), ["/cost", "/subject"]);
        assert_eq!(pointers(r#"{"headers":{"a":"1","b":"2","A":"1"}}"#), ["/headers/A"]);
        assert_eq!(
            pointers(r#"{"descriptors":[{"key":"k","value":"v","key":"k"},{"value":"v","key":"k","value":null}]}"#),
            ["/descriptors/0/key", "/descriptors/1/value"]
        );
    }

    /// What is null in a list of values was meant to be something: a tenant that is dropped would share its limit with all.
    #[test]
    fn null_within_a_header_or_a_descriptor_is_a_mistake() {
        assert_eq!(
            pointers(r#"{"descriptors":[{"key":"tenant","value":null},{"key":null,"value":"v"},null]}"#),
            ["/descriptors/0/value", "/descriptors/1/key", "/descriptors/2"]
        );
        assert_eq!(pointers(r#"{"headers":{"x-tenant":null}}"#), ["/headers/x-tenant"]);
    }

    #[test]
    fn malformed_bodies_are_refused_whole() {
        let deep = "[".repeat(10_000);
        for bad in ["", "{", "[]", "1", "null", "\"x\"", r#"{"subject":"\ud800"}"#, "{\"a\":\u{0}}", "{} {}", &deep] {
            assert_eq!(pointers(bad), [""], "{bad:.20}");
        }
        assert_eq!(Question::from_json(b"{\"subject\":\"\xff\"}").unwrap_err().as_slice().len(), 1);
    }

    #[test]
    fn counts_and_lengths_are_bounded() {
        let list = vec![r#"{"key":"k","value":"v"}"#; 65].join(",");
        assert_eq!(pointers(&format!(r#"{{"descriptors":[{list}]}}"#)), ["/descriptors"]);
        let headers: Vec<String> = (0..65).map(|i| format!(r#""h{i}":"v""#)).collect();
        assert_eq!(pointers(&format!(r#"{{"headers":{{{}}}}}"#, headers.join(","))), ["/headers"]);
        for (field, length) in [("subject", 1025), ("tier", 65), ("host", 256), ("path", 8193), ("domain", 65), ("method", 33)] {
            let long = "A".repeat(length);
            assert_eq!(pointers(&format!(r#"{{"{field}":"{long}"}}"#)), [format!("/{field}")], "{field}");
        }
        let many: Vec<String> = (0..5_000).map(|i| format!(r#""x{i}":1"#)).collect();
        assert!(pointers(&format!("{{{}}}", many.join(","))).len() <= weir_core::mistake::MAX_MISTAKES);
    }
}
