//! The body of `POST /v1/check`: read within bounds, with all mistakes at once.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};
use weir_core::client_ip;
use weir_core::decision::Decision;
use weir_core::limit::MAX_UNITS;
use weir_core::mistake::Mistakes;
use weir_core::name;
use weir_core::request::Request;
use weir_core::subject::Subject;

use crate::agent::Agent;
use crate::check::CheckError;

/// The longest host, by the rules of DNS.
const MAX_HOST: usize = 255;
/// The longest path, as most servers have it.
const MAX_PATH: usize = 8 << 10;
/// The longest method; the longest registered one has 17 characters.
const MAX_METHOD: usize = 32;
/// The most headers and the most descriptors.
const MAX_PAIRS: usize = 64;
/// The longest key of a descriptor, and its longest value.
const MAX_DESCRIPTOR: usize = 1024;
const FIELDS: [&str; 10] = ["domain", "subject", "tier", "method", "host", "path", "headers", "client_ip", "descriptors", "cost"];

/// A question to the limiter.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    domain: String,
    subject: Option<String>,
    tier: Option<String>,
    method: Option<String>,
    host: Option<String>,
    path: Option<String>,
    headers: HeaderMap,
    client_ip: Option<IpAddr>,
    descriptors: Vec<(String, String)>,
    cost: u64,
}

impl Question {
    /// Reads a body.
    ///
    /// # Errors
    /// Every mistake with its JSON pointer.
    pub fn from_json(body: &[u8]) -> Result<Self, Mistakes> {
        let mut mistakes = Mistakes::new();
        let fields = match serde_json::from_slice(body) {
            Ok(Fields { fields, repeated }) => {
                for field in repeated {
                    mistakes.add(format!("/{}", escaped(&field)), "is given more than once");
                }
                fields
            }
            Err(error) => {
                mistakes.add("", format!("is not a JSON object: {error}"));
                return Err(mistakes);
            }
        };
        let mut reader = Reader { fields, mistakes };
        let question = reader.question();
        reader.mistakes.into_result(question)
    }

    /// Has the agent decide it.
    ///
    /// # Errors
    /// [`CheckError`]: the agent does not serve the domain, or its rules cannot be applied.
    pub async fn ask(&self, agent: &Agent) -> Result<Decision, CheckError> {
        let descriptors: Vec<(&str, &str)> = self.descriptors.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
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

/// The fields of an object, and the names that came more than once: of two values, each reader would believe another.
struct Fields {
    fields: Map<String, Value>,
    repeated: Vec<String>,
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Fields, A::Error> {
        let mut read = Fields { fields: Map::new(), repeated: Vec::new() };
        while let Some((field, value)) = access.next_entry::<String, Value>()? {
            if read.fields.insert(field.clone(), value).is_some() {
                read.repeated.push(field);
            }
        }
        Ok(read)
    }
}

struct Reader {
    fields: Map<String, Value>,
    mistakes: Mistakes,
}

impl Reader {
    fn question(&mut self) -> Question {
        for field in self.fields.keys().filter(|field| !FIELDS.contains(&field.as_str())) {
            self.mistakes.add(format!("/{}", escaped(field)), format!("is not a field; the fields are {}", FIELDS.join(", ")));
        }
        Question {
            domain: self.text("domain", 1, name::MAX_LENGTH).unwrap_or_else(|| "default".to_owned()),
            subject: self.subject(),
            tier: self.text("tier", 1, name::MAX_LENGTH),
            method: self.method(),
            host: self.text("host", 1, MAX_HOST),
            path: self.text("path", 0, MAX_PATH),
            headers: self.headers(),
            client_ip: self.client_ip(),
            descriptors: self.descriptors(),
            cost: self.cost(),
        }
    }

    /// A text of `min` to `max` bytes; absent and `null` are the same.
    fn text(&mut self, field: &str, min: usize, max: usize) -> Option<String> {
        let value = self.fields.remove(field)?;
        text(value, &format!("/{field}"), min, max, &mut self.mistakes)
    }

    fn subject(&mut self) -> Option<String> {
        let text = self.text("subject", 1, usize::MAX)?;
        if Subject::parse(&text).is_none() {
            self.mistakes.add("/subject", "must be an id of 1 to 1024 bytes, perhaps after its kind, such as \"user:123\"");
            return None;
        }
        Some(text)
    }

    fn method(&mut self) -> Option<String> {
        let method = self.text("method", 1, MAX_METHOD)?;
        if http::Method::from_bytes(method.as_bytes()).is_err() {
            self.mistakes.add("/method", "must be an HTTP method such as \"GET\"");
        }
        Some(method)
    }

    fn client_ip(&mut self) -> Option<IpAddr> {
        let text = self.text("client_ip", 1, 128)?;
        let address = client_ip::address(&text);
        if address.is_none() {
            self.mistakes.add("/client_ip", "must be an IP address such as \"203.0.113.7\" or \"2001:db8::1\"");
        }
        address
    }

    fn cost(&mut self) -> u64 {
        match self.fields.remove("cost") {
            None | Some(Value::Null) => 1,
            Some(value) => value.as_u64().filter(|cost| *cost <= MAX_UNITS).unwrap_or_else(|| {
                self.mistakes.add("/cost", format!("must be a whole number from 0 to {MAX_UNITS}"));
                1
            }),
        }
    }

    fn headers(&mut self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let fields = match self.fields.remove("headers") {
            None | Some(Value::Null) => return headers,
            Some(Value::Object(fields)) => fields,
            Some(_) => {
                self.mistakes.add("/headers", "must be an object of header names and values");
                return headers;
            }
        };
        if fields.len() > MAX_PAIRS {
            self.mistakes.add("/headers", format!("must have at most {MAX_PAIRS} headers, not {}", fields.len()));
            return headers;
        }
        for (name, value) in fields {
            let pointer = format!("/headers/{}", escaped(&name));
            let Some(value) = text(value, &pointer, 0, MAX_PATH, &mut self.mistakes) else { continue };
            match (
                HeaderName::from_bytes(name.as_bytes()),
                HeaderValue::from_str(&value).or_else(|_| HeaderValue::from_bytes(value.as_bytes())),
            ) {
                (Ok(name), Ok(value)) => {
                    headers.append(name, value);
                }
                (Err(_), _) => self.mistakes.add(pointer, "is not a header name"),
                (_, Err(_)) => self.mistakes.add(pointer, "must not have control characters"),
            }
        }
        headers
    }

    fn descriptors(&mut self) -> Vec<(String, String)> {
        let entries = match self.fields.remove("descriptors") {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(entries)) => entries,
            Some(_) => {
                self.mistakes.add("/descriptors", "must be a list of {\"key\", \"value\"}");
                return Vec::new();
            }
        };
        if entries.len() > MAX_PAIRS {
            self.mistakes.add("/descriptors", format!("must have at most {MAX_PAIRS} descriptors, not {}", entries.len()));
            return Vec::new();
        }
        let mut descriptors = Vec::with_capacity(entries.len());
        for (i, entry) in entries.into_iter().enumerate() {
            descriptors.extend(descriptor(entry, &format!("/descriptors/{i}"), &mut self.mistakes));
        }
        descriptors
    }
}

fn descriptor(entry: Value, pointer: &str, mistakes: &mut Mistakes) -> Option<(String, String)> {
    let Value::Object(mut fields) = entry else {
        mistakes.add(pointer, "must be an object {\"key\", \"value\"}");
        return None;
    };
    let mut part = |field: &str, min| match fields.remove(field) {
        None => {
            mistakes.add(pointer, format!("has no {field:?}"));
            None
        }
        Some(value) => text(value, &format!("{pointer}/{field}"), min, MAX_DESCRIPTOR, mistakes),
    };
    let (key, value) = (part("key", 1), part("value", 0));
    for field in fields.keys() {
        mistakes.add(format!("{pointer}/{}", escaped(field)), "is not a field; the fields are key, value");
    }
    key.zip(value)
}

fn text(value: Value, pointer: &str, min: usize, max: usize, mistakes: &mut Mistakes) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) if (min..=max).contains(&text.len()) => Some(text),
        Value::String(text) => {
            let bounds = if max == usize::MAX { format!("at least {min}") } else { format!("{min} to {max}") };
            mistakes.add(pointer, format!("must have {bounds} bytes, not {}", text.len()));
            None
        }
        _ => {
            mistakes.add(pointer, "must be a string");
            None
        }
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
        assert_eq!((question.domain.as_str(), question.cost), ("default", 1));
        let nulls = br#"{"subject":null,"tier":null,"method":null,"host":null,"path":null,"headers":null,"client_ip":null,"cost":null}"#;
        assert_eq!(Question::from_json(nulls).unwrap(), question);
    }

    #[test]
    fn a_whole_question_is_read() {
        let body = r#"{ "domain": "default", "subject": "user:123", "tier": "free", "method": "GET", "host": "api.example.com",
            "path": "/api/search?q=1", "headers": { "X-Plan": "a" }, "client_ip": "203.0.113.7",
            "descriptors": [ { "key": "k", "value": "v" } ], "cost": 1 }"#;
        let question = Question::from_json(body.as_bytes()).unwrap();
        assert_eq!(question.headers.get("x-plan").unwrap(), "a");
        assert_eq!(question.descriptors, [("k".to_owned(), "v".to_owned())]);
        assert_eq!(question.client_ip, Some(IpAddr::from([203, 0, 113, 7])));
    }

    #[test]
    fn all_mistakes_come_at_once() {
        let body = r#"{ "domain": 1, "subject": "", "method": "GE T", "headers": {"a b": "x", "ok": "a\r\nb", "n": 1},
            "client_ip": "1.2.3", "descriptors": [1, {"key": ""}, {"key": "k", "value": "v", "x": 1}], "cost": -1, "hits": 1 }"#;
        let expected = [
            "/hits",
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
