//! One JSON object being read: which fields it may have, and where they are.

use serde_json::{Map, Value};

use crate::mistake::{Mistakes, child};

/// An object whose fields are all known.
pub(super) struct Object<'v> {
    map: &'v Map<String, Value>,
    pointer: String,
}

impl<'v> Object<'v> {
    /// Opens `value`; notes fields that are not in `known`, and goes on without them.
    pub(super) fn open(value: &'v Value, pointer: &str, known: &[&str], mistakes: &mut Mistakes) -> Option<Self> {
        let Some(map) = value.as_object() else {
            mistakes.add(pointer, format!("must be an object, not {}", kind_of(value)));
            return None;
        };
        for name in map.keys().filter(|name| !known.contains(&name.as_str())) {
            mistakes.add(child(pointer, name), format!("unknown field; allowed are {}", known.join(", ")));
        }
        Some(Self { map, pointer: pointer.to_owned() })
    }

    /// Whether the field is given, be it as `null`.
    pub(super) fn has(&self, field: &str) -> bool {
        self.map.contains_key(field)
    }

    /// The field read by `read`; `None` if it is not given or wrong.
    pub(super) fn optional<T>(
        &self,
        field: &str,
        mistakes: &mut Mistakes,
        read: impl FnOnce(&'v Value, &str, &mut Mistakes) -> Option<T>,
    ) -> Option<T> {
        let value = self.map.get(field)?;
        read(value, &child(&self.pointer, field), mistakes)
    }

    /// The same for a field that must be given.
    pub(super) fn required<T>(
        &self,
        field: &str,
        mistakes: &mut Mistakes,
        read: impl FnOnce(&'v Value, &str, &mut Mistakes) -> Option<T>,
    ) -> Option<T> {
        if !self.has(field) {
            mistakes.add(child(&self.pointer, field), "is missing");
        }
        self.optional(field, mistakes, read)
    }
}

/// What a value is, for a person.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
