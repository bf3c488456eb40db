//! A shard of the ring, as operators write it: the shard itself ([`weir_core::shard`]), and its credentials beside it.

use serde_json::{Map, Value};
use weir_core::config::read;
use weir_core::mistake::{Mistakes, child};
pub use weir_core::shard::{MAX_SHARDS, Shard};

const MAX_SECRET: usize = 1_024;
/// What a request may hold besides the shard; `has_password`, `has_sentinel_password` and `warnings` are there in answers, and
/// ignored.
const BESIDE: [&str; 7] =
    ["username", "password", "has_password", "sentinel_username", "sentinel_password", "has_sentinel_password", "warnings"];

/// What a request says about a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// Nothing: what is stored stays.
    Keep,
    /// `null`: it is removed.
    Remove,
    /// This is the new one.
    Set(String),
}

/// A shard as it comes with a request.
pub struct Given {
    /// The shard itself.
    pub shard: Shard,
    /// The ACL user; absent: none.
    pub username: Option<String>,
    /// The password.
    pub password: Secret,
    /// The user that the sentinels ask for; absent: none.
    pub sentinel_username: Option<String>,
    /// The password that they ask for.
    pub sentinel_password: Secret,
}

/// Reads a request's body; `None` if there was a mistake.
pub fn read(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<Given> {
    let shard = read::shard(value, pointer, &BESIDE, mistakes);
    let object = value.as_object()?;
    let mut user = |field| match secret(object, field, pointer, mistakes) {
        Secret::Set(name) => Some(name),
        Secret::Keep | Secret::Remove => None,
    };
    let (username, sentinel_username) = (user("username"), user("sentinel_username"));
    let password = secret(object, "password", pointer, mistakes);
    let sentinel_password = secret(object, "sentinel_password", pointer, mistakes);
    Some(Given { shard: shard?, username, password, sentinel_username, sentinel_password })
}

fn secret(object: &Map<String, Value>, name: &str, pointer: &str, mistakes: &mut Mistakes) -> Secret {
    match object.get(name) {
        None => Secret::Keep,
        Some(Value::Null) => Secret::Remove,
        Some(Value::String(text)) if !text.is_empty() && text.len() <= MAX_SECRET => Secret::Set(text.clone()),
        Some(_) => {
            mistakes.add(child(pointer, name), format!("must be a text of 1 to {MAX_SECRET} bytes, or null"));
            Secret::Keep
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mistakes(value: &Value) -> Vec<String> {
        let mut mistakes = Mistakes::new();
        let given = read(value, "", &mut mistakes);
        assert_eq!(given.is_none() || !mistakes.is_empty(), !mistakes.is_empty());
        mistakes.into_iter().map(|m| m.pointer).collect()
    }

    #[test]
    fn every_mistake_is_reported() {
        let all = json!({ "name": "a b", "address": 5, "weight": 0, "password": "", "username": 1, "wieght": 1, "a/b": 1 });
        assert_eq!(mistakes(&all), ["/wieght", "/a~1b", "/name", "/address", "/weight", "/username", "/password"]);
        assert_eq!(mistakes(&json!([])), [""]);
        assert_eq!(mistakes(&json!({})), ["/name", "/address"]);
        for weight in [json!(-1), json!(1.5), json!("1"), json!(null), json!(true), json!(101), json!(1e3)] {
            assert_eq!(mistakes(&json!({ "name": "a", "address": "/s", "weight": weight })), ["/weight"]);
        }
    }

    #[test]
    fn the_item_holds_no_credentials() {
        let given =
            read(&json!({ "name": "a", "address": "/s", "username": "u", "password": "secret" }), "", &mut Mistakes::new()).unwrap();
        let item = given.shard.to_item();
        assert_eq!(item.body, br#"{"name":"a","address":"/s","weight":1}"#);
    }
}
