//! Readers of single values: texts, numbers, names, choices, lists.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::object::kind_of;
use crate::mistake::{Mistakes, child};
use crate::name::Name;
use crate::span::Span;

/// The longest description, in characters.
const MAX_DESCRIPTION: usize = 500;

/// A string.
pub(super) fn text<'v>(value: &'v Value, pointer: &str, mistakes: &mut Mistakes) -> Option<&'v str> {
    if value.is_string() {
        return value.as_str();
    }
    mistakes.add(pointer, format!("must be a string, not {}", kind_of(value)));
    None
}

/// A string of 1 to `max` bytes without control characters.
pub(super) fn plain_text<'v>(max: usize) -> impl FnOnce(&'v Value, &str, &mut Mistakes) -> Option<&'v str> {
    move |value, pointer, mistakes| {
        let text = text(value, pointer, mistakes)?;
        if text.is_empty() || text.len() > max {
            mistakes.add(pointer, format!("must have 1 to {max} bytes, not {}", text.len()));
            return None;
        }
        if text.chars().any(char::is_control) {
            mistakes.add(pointer, "must not contain control characters");
            return None;
        }
        Some(text)
    }
}

/// A description: at most 500 characters, line breaks and tabs allowed.
pub(super) fn description(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<String> {
    let text = text(value, pointer, mistakes)?;
    let length = text.chars().count();
    if length > MAX_DESCRIPTION {
        mistakes.add(pointer, format!("must have at most {MAX_DESCRIPTION} characters, not {length}"));
        return None;
    }
    if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        mistakes.add(pointer, "must not contain control characters other than line breaks and tabs");
        return None;
    }
    Some(text.to_owned())
}

/// A name.
pub(super) fn name(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<Name> {
    let text = text(value, pointer, mistakes)?;
    Name::new(text).map_err(|error| mistakes.add(pointer, error.to_string())).ok()
}

/// `true` or `false`.
pub(super) fn boolean(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<bool> {
    if !value.is_boolean() {
        mistakes.add(pointer, format!("must be true or false, not {}", kind_of(value)));
    }
    value.as_bool()
}

/// A whole number within `range`, written as one: neither `1.0` nor `1e3` nor `"10"`.
pub(super) fn whole(range: RangeInclusive<i64>) -> impl FnOnce(&Value, &str, &mut Mistakes) -> Option<i64> {
    move |value, pointer, mistakes| {
        let number = value.as_i64().filter(|number| range.contains(number));
        if number.is_none() {
            let found = if value.is_number() { value.to_string() } else { kind_of(value).to_owned() };
            mistakes.add(pointer, format!("must be a whole number from {} to {}, not {found}", range.start(), range.end()));
        }
        number
    }
}

/// A length of time within `range`.
pub(super) fn span(range: RangeInclusive<Span>) -> impl FnOnce(&Value, &str, &mut Mistakes) -> Option<Span> {
    move |value, pointer, mistakes| {
        let span: Span = text(value, pointer, mistakes)?.parse().map_err(|error| mistakes.add(pointer, format!("{error}"))).ok()?;
        if range.contains(&span) {
            return Some(span);
        }
        mistakes.add(pointer, format!("must be from {} to {}, not {span}", range.start(), range.end()));
        None
    }
}

/// One of the named values.
pub(super) fn choice<T: Copy>(allowed: &[(&str, T)]) -> impl FnOnce(&Value, &str, &mut Mistakes) -> Option<T> {
    move |value, pointer, mistakes| {
        let found = value.as_str().and_then(|text| allowed.iter().find(|(name, _)| *name == text));
        if found.is_none() {
            let names: Vec<&str> = allowed.iter().map(|(name, _)| *name).collect();
            mistakes.add(pointer, format!("must be one of {}", names.join(", ")));
        }
        found.map(|(_, value)| *value)
    }
}

/// A list of at most `max` entries, each read by `read`. Entries that are wrong are left out after their mistake is noted.
pub(super) fn list<'v, T>(
    max: usize,
    read: impl Fn(&'v Value, &str, &mut Mistakes) -> Option<T>,
) -> impl FnOnce(&'v Value, &str, &mut Mistakes) -> Option<Vec<T>> {
    move |value, pointer, mistakes| {
        let Some(entries) = value.as_array() else {
            mistakes.add(pointer, format!("must be a list, not {}", kind_of(value)));
            return None;
        };
        if entries.len() > max {
            mistakes.add(pointer, format!("must have at most {max} entries, not {}", entries.len()));
            return None;
        }
        Some(entries.iter().enumerate().filter_map(|(i, entry)| read(entry, &child(pointer, &i.to_string()), mistakes)).collect())
    }
}

/// A list without two equal entries.
pub(super) fn distinct<'v, T: PartialEq>(
    max: usize,
    read: impl Fn(&'v Value, &str, &mut Mistakes) -> Option<T>,
) -> impl FnOnce(&'v Value, &str, &mut Mistakes) -> Option<Vec<T>> {
    move |value, pointer, mistakes| {
        let entries =
            list(max, |value, pointer, mistakes| Some((pointer.to_owned(), read(value, pointer, mistakes)?)))(value, pointer, mistakes)?;
        let mut kept: Vec<T> = Vec::with_capacity(entries.len());
        for (pointer, entry) in entries {
            if kept.contains(&entry) {
                mistakes.add(pointer, "is given twice");
            } else {
                kept.push(entry);
            }
        }
        Some(kept)
    }
}
