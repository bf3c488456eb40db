//! From domain types to the JSON and YAML that people write.

use std::collections::BTreeMap;

use serde::ser::{SerializeMap as _, Serializer};
use serde_json::{Map, Value, json};

use super::DomainConfig;
use crate::limit::{Limit, Window};
use crate::name::Name;

/// Limits as a map from tier name, or `"*"`, to `{limit, window, burst}`, `{limit, calendar, time_zone}` or `{unlimited: true}`.
pub(crate) fn limits<S: Serializer>(limits: &BTreeMap<Option<Name>, Limit>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(limits.len()))?;
    for (tier, value) in limits {
        map.serialize_entry(tier.as_ref().map_or("*", Name::as_str), &limit(*value))?;
    }
    map.end()
}

fn limit(limit: Limit) -> Value {
    match limit {
        Limit::Unlimited => json!({ "unlimited": true }),
        Limit::Limited { limit, window: Window::Span(window), burst: None } => json!({ "limit": limit, "window": window }),
        Limit::Limited { limit, window: Window::Span(window), burst: Some(burst) } => {
            json!({ "limit": limit, "window": window, "burst": burst })
        }
        Limit::Limited { limit, window: Window::Calendar(calendar), .. } => {
            json!({ "limit": limit, "calendar": calendar.unit, "time_zone": calendar.zone })
        }
    }
}

/// The document form: the domain's settings with its name as `domain`, then tiers and rules.
pub(super) fn document(config: &DomainConfig) -> Value {
    let mut document = Map::new();
    document.insert("domain".to_owned(), json!(config.domain.name));
    let settings = json!(config.domain);
    for (field, value) in settings.as_object().into_iter().flatten().filter(|(field, _)| *field != "name") {
        document.insert(field.clone(), value.clone());
    }
    document.insert("tiers".to_owned(), json!(config.tiers));
    document.insert("rules".to_owned(), json!(config.rules));
    Value::Object(document)
}
