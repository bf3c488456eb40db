//! JSON that means one thing: no member twice, no deep nesting.
//!
//! Of two members with one name most readers keep the last, some the first: a reviewer and the control plane could see different limits.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// How deep arrays and objects may be nested; a rules document needs six levels.
const MAX_DEPTH: usize = 32;

/// Reads one JSON document.
///
/// # Errors
/// The first thing that is wrong, with line and column.
pub fn read(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { depth: MAX_DEPTH }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

#[derive(Clone, Copy)]
struct Strict {
    depth: usize,
}

impl Strict {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        let depth = self.depth.checked_sub(1).ok_or_else(|| E::custom(format_args!("nested deeper than {MAX_DEPTH} levels")))?;
        Ok(Self { depth })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(inner)?;
            if members.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the member {name:?} is there twice")));
            }
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_reads_as_serde_json_reads_it() {
        let text = r#"{"b":[1,-2,1.5,"x",null,true,{"a":{}}],"a":18446744073709551615}"#;
        assert_eq!(read(text.as_bytes()).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(read(text.as_bytes()).unwrap().to_string(), text, "the order stays");
    }

    #[test]
    fn ambiguous_and_deep_documents_are_refused() {
        for (text, why) in [
            (r#"{"a":1,"b":{"c":1,"c":2}}"#.to_owned(), "there twice"),
            (format!("{}{}", "[".repeat(40), "]".repeat(40)), "nested deeper"),
            (format!("{}{}", r#"{"a":"#.repeat(40), "1"), "nested deeper"),
            ("{} {}".to_owned(), "trailing"),
            ("".to_owned(), "EOF"),
            ("{\"a\":NaN}".to_owned(), "expected value"),
            ("{'a':1}".to_owned(), "key must be a string"),
            ("{\"a\":1e999}".to_owned(), "out of range"),
            ("[".repeat(100_000), "nested deeper"),
        ] {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why), "{error} does not say {why:?}");
        }
        assert!(read(b"\"\xff\"").is_err());
    }
}
