//! Reads the limits of a rule, one for each tier.

use std::collections::BTreeMap;

use serde_json::Value;

use super::MAX_TIERS;
use super::object::{Object, kind_of};
use super::value;
use crate::calendar::{Calendar, CalendarUnit, Zone};
use crate::limit::{Limit, MAX_UNITS, MAX_WINDOW, MIN_WINDOW, Window};
use crate::mistake::{Mistakes, child};
use crate::name::Name;
use crate::request::Overrides;
use crate::ruleset::MAX_LIMITS;

const FIELDS: [&str; 6] = ["limit", "window", "calendar", "time_zone", "burst", "unlimited"];
const UNITS: [(&str, CalendarUnit); CalendarUnit::ALL.len()] = {
    let [a, b, c, d, e] = CalendarUnit::ALL;
    [(a.as_str(), a), (b.as_str(), b), (c.as_str(), c), (d.as_str(), d), (e.as_str(), e)]
};

/// A map from tier name, or `"*"`, to a limit.
pub(super) fn limits(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<BTreeMap<Option<Name>, Limit>> {
    let Some(map) = value.as_object() else {
        mistakes.add(pointer, format!("must be an object from tier names or \"*\" to limits, not {}", kind_of(value)));
        return None;
    };
    if map.is_empty() || map.len() > MAX_TIERS + 1 {
        mistakes.add(pointer, format!("must have 1 to {} limits, of tiers or \"*\" for the rest", MAX_TIERS + 1));
        return None;
    }
    let mut limits = BTreeMap::new();
    for (key, value) in map {
        let pointer = child(pointer, key);
        let tier = match key.as_str() {
            "*" => Some(None),
            name => Name::new(name).map(Some).map_err(|error| mistakes.add(&pointer, format!("the tier's name {error}"))).ok(),
        };
        if let (Some(tier), Some(limit)) = (tier, limit(value, &pointer, mistakes)) {
            limits.insert(tier, limit);
        }
    }
    Some(limits)
}

/// A map from rule to limit, as a request may bring it along.
pub fn overrides(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<Overrides> {
    let Some(map) = value.as_object() else {
        mistakes.add(pointer, format!("must be an object from rule names to limits, not {}", kind_of(value)));
        return None;
    };
    if map.len() > MAX_LIMITS {
        mistakes.add(pointer, format!("must have at most {MAX_LIMITS} limits, not {}", map.len()));
        return None;
    }
    let read = |(key, value): (&String, &Value)| {
        let pointer = child(pointer, key);
        let rule = Name::new(key).map_err(|error| mistakes.add(&pointer, format!("the rule's name {error}"))).ok();
        Some((rule?, limit(value, &pointer, mistakes)?))
    };
    let read: Vec<_> = map.iter().map(read).collect();
    read.into_iter().collect()
}

fn limit(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<Limit> {
    let object = Object::open(value, pointer, &FIELDS, mistakes)?;
    if object.has("unlimited") {
        return unlimited(&object, pointer, mistakes);
    }
    let limit = object.required("limit", mistakes, units(0));
    let window = window(&object, pointer, mistakes);
    let burst = object.optional("burst", mistakes, units(1));
    Some(Limit::Limited { limit: limit?, window: window?, burst })
}

/// `window`, or `calendar` with an optional `time_zone`.
fn window(object: &Object<'_>, pointer: &str, mistakes: &mut Mistakes) -> Option<Window> {
    if !object.has("calendar") {
        let window = object.required("window", mistakes, value::span(MIN_WINDOW..=MAX_WINDOW)).map(Window::Span);
        if object.has("time_zone") {
            mistakes.add(child(pointer, "time_zone"), "only a calendar has a time zone: give calendar (minute, hour, day, week or month)");
        }
        return window;
    }
    if object.has("window") {
        mistakes.add(pointer, "must have either window or calendar, not both");
    }
    let unit = object.optional("calendar", mistakes, value::choice(&UNITS));
    let zone = if object.has("time_zone") { object.optional("time_zone", mistakes, zone) } else { Some(Zone::utc()) };
    Some(Window::Calendar(Calendar { unit: unit?, zone: zone? }))
}

fn zone(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<Zone> {
    let name = value::text(value, pointer, mistakes)?;
    let zone = Zone::new(name);
    if zone.is_none() {
        let meant = Zone::resembling(name).map(|known| format!("; did you mean {known}?")).unwrap_or_default();
        mistakes.add(pointer, format!("must be the name of a time zone, such as Europe/Zurich or UTC{meant}"));
    }
    zone
}

fn unlimited(object: &Object<'_>, pointer: &str, mistakes: &mut Mistakes) -> Option<Limit> {
    let unlimited = object.optional("unlimited", mistakes, value::boolean)?;
    if !unlimited {
        mistakes.add(child(pointer, "unlimited"), "must be true; leave it out and give limit and window for a limit");
        return None;
    }
    if FIELDS.iter().filter(|field| **field != "unlimited").any(|field| object.has(field)) {
        mistakes.add(pointer, "must have either unlimited or a limit, not both");
        return None;
    }
    Some(Limit::Unlimited)
}

fn units(least: i64) -> impl FnOnce(&Value, &str, &mut Mistakes) -> Option<u64> {
    let most = i64::try_from(MAX_UNITS).unwrap_or(i64::MAX);
    move |value, pointer, mistakes| u64::try_from(value::whole(least..=most)(value, pointer, mistakes)?).ok()
}
