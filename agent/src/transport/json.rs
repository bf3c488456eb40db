//! JSON as it was sent: texts borrowed where they can be, and every field, also one that came twice.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use weir_core::mistake::Mistakes;

/// A field's name and its value, or a key and its value.
pub(super) type Pair<'a> = (Cow<'a, str>, Cow<'a, str>);

/// A value. Its depth is bounded by the parser, its texts by the size of the body, and the values in it by [`MOST_VALUES`].
#[derive(Debug)]
pub(super) enum Json<'a> {
    Null,
    Text(Cow<'a, str>),
    /// A whole number that is not negative, written as one.
    Whole(u64),
    List(Vec<Json<'a>>),
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
    /// Any other number.
    Number(Number),
    /// True or false.
    Flag(bool),
}

/// The most values of a body, above what the longest batch can use (98,500). A value takes many times the memory of the two bytes that can write it.
const MOST_VALUES: usize = 100_000;

/// Of two values, each reader would believe another.
pub(super) const REPEATED: &str = "is given more than once";

impl<'a> Json<'a> {
    /// Reads a body.
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, Mistakes> {
        let left = Cell::new(MOST_VALUES);
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        let value = Reader { left: &left }.deserialize(&mut deserializer);
        let value = value.and_then(|value| deserializer.end().map(|()| value));
        value.map_err(|error| one("", format!("is not a JSON object: {error}")))
    }

    /// The fields of an object.
    pub(super) fn into_object(self) -> Result<Vec<(Cow<'a, str>, Json<'a>)>, Mistakes> {
        match self {
            Self::Object(fields) => Ok(fields),
            _ => Err(one("", "is not a JSON object")),
        }
    }

    /// The value for a reader that knows nothing of repeated fields: they are noted here.
    pub(super) fn into_value(self, pointer: &str, mistakes: &mut Mistakes) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Text(text) => Value::from(text),
            Self::Whole(number) => Value::from(number),
            Self::Number(number) => Value::Number(number),
            Self::Flag(flag) => Value::Bool(flag),
            Self::List(list) => {
                list.into_iter().enumerate().map(|(i, value)| value.into_value(&format!("{pointer}/{i}"), mistakes)).collect()
            }
            Self::Object(fields) => {
                let mut map = Map::with_capacity(fields.len());
                for (name, value) in fields {
                    let place = format!("{pointer}/{}", escaped(&name));
                    let value = value.into_value(&place, mistakes);
                    if map.insert(name.into_owned(), value).is_some() {
                        mistakes.add(place, REPEATED);
                    }
                }
                Value::Object(map)
            }
        }
    }
}

/// A mistake that is the only one.
pub(super) fn one(pointer: &str, mistake: impl Into<String>) -> Mistakes {
    let mut mistakes = Mistakes::new();
    mistakes.add(pointer, mistake);
    mistakes
}

/// A text of `min` to `max` bytes, or what is wrong with it.
pub(super) fn text(value: Json<'_>, min: usize, max: usize) -> Result<Cow<'_, str>, String> {
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
pub(super) fn escaped(field: &str) -> String {
    field[..field.floor_char_boundary(64)].replace('~', "~0").replace('/', "~1")
}

/// Reads one value of a body.
#[derive(Clone, Copy)]
struct Reader<'a> {
    /// How many more values the body may have.
    left: &'a Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Json<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json<'de>, D::Error> {
        let left = self.left.get().checked_sub(1);
        self.left.set(left.ok_or_else(|| D::Error::custom(format_args!("it has more than {MOST_VALUES} values")))?);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json<'de>, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Json<'de>, E> {
        Ok(Json::Flag(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json<'de>, E> {
        Ok(Json::Whole(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json<'de>, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json<'de>, E> {
        // JSON has no number that is none.
        Ok(Number::from_f64(number).map_or(Json::Null, Json::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json<'de>, E> {
        Ok(Json::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = access.next_element_seed(self)? {
            list.push(value);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json<'de>, A::Error> {
        let mut fields = Vec::new();
        while let Some(name) = access.next_key_seed(self)? {
            match name {
                Json::Text(name) => fields.push((name, access.next_value_seed(self)?)),
                // Names are always texts.
                _ => drop(access.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Json::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_a_body_are_bounded_however_they_are_nested() {
        let mistake = |body: &str| Json::parse(body.as_bytes()).unwrap_err().into_iter().next().unwrap().detail;
        let list = |count: usize| format!("[{}]", vec!["0"; count].join(","));
        assert!(Json::parse(list(MOST_VALUES - 1).as_bytes()).is_ok());
        let many = [
            list(MOST_VALUES),
            format!("[{}]", vec![list(999); MOST_VALUES / 1_000].join(",")),
            "[".repeat(100) + &"0,".repeat(MOST_VALUES),
        ];
        for body in &many {
            let mistake = mistake(body);
            assert!(mistake.contains("more than 100000 values"), "{mistake}");
        }
        assert!(mistake("{} {}").contains("trailing characters"));
    }
}
