//! The description and the code agree.

use serde_json::Value;
use weir_control_plane::http::router::description;

/// One operation of the description.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) id: String,
    pub(crate) method: String,
    pub(crate) path: String,
    /// The role it needs; `None`: no credentials.
    pub(crate) role: Option<String>,
    pub(crate) has_body: bool,
    /// Whether it takes a domain.
    pub(crate) in_domain: bool,
}

impl Operation {
    /// Its path with something for each variable.
    pub(crate) fn filled(&self) -> String {
        let numbers = self.path.replace("{revision}", "1").replace("{id}", "00000000-0000-0000-0000-000000000000");
        numbers.replace("{name}", "nothing")
    }
}

/// All operations.
pub(crate) fn operations() -> Vec<Operation> {
    let description = document();
    let mut operations = Vec::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let parameters: Vec<&str> =
                operation["parameters"].as_array().into_iter().flatten().map(|p| p["name"].as_str().unwrap()).collect();
            operations.push(Operation {
                id: operation["operationId"].as_str().unwrap().to_owned(),
                method: method.to_uppercase(),
                path: path.clone(),
                role: operation["security"][0]["token"][0].as_str().map(str::to_owned),
                has_body: operation.get("requestBody").is_some(),
                in_domain: parameters.contains(&"domain"),
            });
        }
    }
    assert!(operations.len() > 30);
    operations
}

fn document() -> Value {
    serde_json::from_str(&description().to_pretty_json().unwrap()).unwrap()
}

#[test]
fn the_file_for_clients_is_up_to_date() {
    let written = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../web/openapi.json")).unwrap();
    let current = description().to_pretty_json().unwrap();
    assert!(written.trim() == current.trim(), "run: cargo run -p weir-control-plane -- openapi > web/openapi.json");
}

#[test]
fn every_operation_says_who_may_and_what_can_go_wrong() {
    let description = document();
    let mut ids = Vec::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(!ids.contains(&id), "{id} is there twice");
            ids.push(id);
            assert!(operation["security"].is_array(), "{method} {path} does not say who may");
            assert!(operation["summary"].as_str().is_some_and(|s| !s.is_empty()), "{id} has no summary");
            assert_eq!(
                operation["responses"]["default"]["content"]["application/problem+json"]["schema"]["$ref"],
                "#/components/schemas/Problem"
            );
            let condition = operation["parameters"].as_array().into_iter().flatten().any(|p| p["name"] == "If-Match");
            let conditional = ["rules", "tiers", "domains", "shards", "alerts"].iter().any(|r| path.starts_with(&format!("/v1/{r}/")));
            assert_eq!(condition, conditional && (method == "put" || method == "delete"), "{method} {path}");
        }
    }
    assert_eq!(description["info"]["title"], "Weir control plane");
}

/// The reader refuses unknown fields: what the description names must be known, and its bounds must be the reader's.
#[test]
fn the_description_names_the_fields_and_bounds_of_the_reader() {
    use weir_core::config::{DomainConfig, read};
    use weir_core::limit::MAX_UNITS;
    use weir_core::mistake::Mistakes;

    let description = document();
    let schema = |name: &str| description["components"]["schemas"][name].clone();
    type Reader = fn(&Value) -> Mistakes;
    let readers: [(&str, Reader); 4] = [
        ("Rule", |v| {
            let mut m = Mistakes::new();
            read::rule(v, "", &mut m);
            m
        }),
        ("Tier", |v| {
            let mut m = Mistakes::new();
            read::tier(v, "", &mut m);
            m
        }),
        ("Domain", |v| {
            let mut m = Mistakes::new();
            read::domain(v, "", &mut m);
            m
        }),
        ("RulesDocument", |v| DomainConfig::read(v).err().unwrap_or_default()),
    ];
    for (name, reader) in readers {
        let properties = schema(name)["properties"].as_object().unwrap().clone();
        let mut odd: serde_json::Map<String, Value> =
            properties.keys().filter(|key| *key != "meta").map(|key| (key.clone(), Value::Null)).collect();
        let known = reader(&Value::Object(odd.clone()));
        odd.insert("surely_unknown".to_owned(), Value::Null);
        let with_unknown = reader(&Value::Object(odd));
        let about: Vec<&str> =
            with_unknown.as_slice().iter().filter(|m| !known.as_slice().contains(m)).map(|m| m.pointer.as_str()).collect();
        assert_eq!(about, ["/surely_unknown"], "{name}");
        let unknown_text = &with_unknown.as_slice().iter().find(|m| m.pointer == "/surely_unknown").unwrap().detail;
        let refused: Vec<_> = known.as_slice().iter().filter(|m| m.detail == *unknown_text).collect();
        assert!(refused.is_empty(), "{name}: the reader does not know {refused:?}");
        for required in schema(name)["required"].as_array().into_iter().flatten() {
            let pointer = format!("/{}", required.as_str().unwrap());
            assert!(reader(&serde_json::json!({})).as_slice().iter().any(|m| m.pointer == pointer), "{name}: {pointer} is not needed");
        }
    }
    let limit = schema("Limit");
    let fields: serde_json::Map<String, Value> =
        limit["properties"].as_object().unwrap().keys().map(|key| (key.clone(), Value::Null)).collect();
    let mut mistakes = Mistakes::new();
    read::rule(&serde_json::json!({ "limits": { "*": fields } }), "", &mut mistakes);
    assert!(!mistakes.to_string().contains("unknown field"), "{mistakes}");
    let units = description["components"]["schemas"]["CalendarUnit"]["enum"].as_array().unwrap();
    assert_eq!(units.len(), weir_core::calendar::CalendarUnit::ALL.len());
    assert_eq!(limit["properties"]["limit"]["maximum"], MAX_UNITS);
    assert_eq!(limit["properties"]["burst"]["maximum"], MAX_UNITS);
    assert_eq!((&limit["properties"]["limit"]["minimum"], &limit["properties"]["burst"]["minimum"]), (&0.into(), &1.into()));
}
