//! A shard of the ring, as operators write it.

use http::Uri;
use serde_json::{Map, Value, json};
use weir_core::item::{Item, ItemKind};
use weir_core::mistake::Mistakes;
use weir_core::name::Name;

/// The largest weight; more says nothing that less cannot.
pub const MAX_WEIGHT: u64 = 1_000;
const MAX_ADDRESS: usize = 512;
const MAX_SECRET: usize = 1_024;

/// One Redis or Valkey primary in the ring. Its credentials are kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// Its name: the place in the ring depends on it, not on the address.
    pub name: Name,
    /// `redis://host:port/db`, `rediss://...` (TLS), or the absolute path of a Unix socket.
    pub address: String,
    /// Its share of the keys, relative to the other shards.
    pub weight: u64,
}

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
}

impl Shard {
    /// The shard as an item of the ring, which never holds credentials.
    #[must_use]
    pub fn to_item(&self) -> Item {
        let body = json!({ "name": self.name.as_str(), "address": self.address, "weight": self.weight });
        Item {
            kind: ItemKind::Shard.as_str().to_owned(),
            name: self.name.to_string(),
            body: body.to_string().into_bytes(),
            requires: Vec::new(),
        }
    }
}

/// Reads a request's body; `None` if there was a mistake.
pub fn read(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<Given> {
    let Some(object) = value.as_object() else {
        mistakes.add(pointer, "must be an object");
        return None;
    };
    for name in object.keys().filter(|name| !["name", "address", "weight", "username", "password", "has_password"].contains(&name.as_str()))
    {
        mistakes.add(format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1")), "is not a field of a shard");
    }
    let name = text(object, "name", pointer, mistakes)
        .and_then(|t| Name::new(t).map_err(|e| mistakes.add(format!("{pointer}/name"), e.to_string())).ok());
    let address = text(object, "address", pointer, mistakes);
    if let Some(why) = address.and_then(wrong_address) {
        mistakes.add(format!("{pointer}/address"), why);
    }
    let weight = match object.get("weight") {
        None => Some(1),
        Some(value) => value.as_u64().filter(|weight| (1..=MAX_WEIGHT).contains(weight)),
    };
    if weight.is_none() {
        mistakes.add(format!("{pointer}/weight"), format!("must be a whole number from 1 to {MAX_WEIGHT}"));
    }
    let username = secret(object, "username", pointer, mistakes);
    let password = secret(object, "password", pointer, mistakes);
    let username = if let Secret::Set(name) = username { Some(name) } else { None };
    Some(Given { shard: Shard { name: name?, address: address?.to_owned(), weight: weight? }, username, password })
}

fn text<'v>(object: &'v Map<String, Value>, name: &str, pointer: &str, mistakes: &mut Mistakes) -> Option<&'v str> {
    let text = object.get(name).and_then(Value::as_str);
    if text.is_none() {
        mistakes.add(format!("{pointer}/{name}"), if object.contains_key(name) { "must be a text" } else { "is missing" });
    }
    text
}

fn secret(object: &Map<String, Value>, name: &str, pointer: &str, mistakes: &mut Mistakes) -> Secret {
    match object.get(name) {
        None => Secret::Keep,
        Some(Value::Null) => Secret::Remove,
        Some(Value::String(text)) if !text.is_empty() && text.len() <= MAX_SECRET => Secret::Set(text.clone()),
        Some(_) => {
            mistakes.add(format!("{pointer}/{name}"), format!("must be a text of 1 to {MAX_SECRET} bytes, or null"));
            Secret::Keep
        }
    }
}

/// What is wrong with an address; credentials in it would be shown to everybody who may read.
fn wrong_address(address: &str) -> Option<&'static str> {
    const FORM: &str = "must be redis://host:port, redis://host:port/db, rediss://host:port or the absolute path of a Unix socket";
    if address.len() > MAX_ADDRESS || address.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Some("must have at most 512 bytes, without spaces");
    }
    if address.starts_with('/') {
        return (address.len() < 2 || address.ends_with('/')).then_some(FORM);
    }
    if address.contains('@') {
        return Some("must not hold credentials: use \"username\" and \"password\"");
    }
    if !(address.starts_with("redis://") || address.starts_with("rediss://")) || address.contains(['?', '#', '\\']) {
        return Some(FORM);
    }
    let Ok(uri) = address.parse::<Uri>() else { return Some(FORM) };
    let (authority, host) = (uri.authority().map_or("", |a| a.as_str()), uri.host().unwrap_or_default());
    let has_host = !host.is_empty();
    let port = authority.strip_prefix(host).unwrap_or_default();
    let good_port = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    let database = uri.path().trim_start_matches('/');
    let good_database = database.is_empty() || database.parse::<u16>().is_ok();
    (!(has_host && good_port && good_database)).then_some(FORM)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistakes(value: &Value) -> Vec<String> {
        let mut mistakes = Mistakes::new();
        let given = read(value, "", &mut mistakes);
        assert_eq!(given.is_none() || !mistakes.is_empty(), !mistakes.is_empty());
        mistakes.into_iter().map(|m| m.pointer).collect()
    }

    #[test]
    fn addresses_name_a_server_and_nothing_else() {
        for good in ["redis://127.0.0.1:6379", "redis://[::1]:6379/3", "rediss://redis.example", "/run/redis.sock", "redis://h:1/"] {
            assert_eq!(wrong_address(good), None, "{good}");
        }
        for bad in [
            "",
            "/",
            "/run/",
            "127.0.0.1:6379",
            "http://h:1",
            "redis://",
            "redis://:6379",
            "redis://u:p@h:1",
            "redis://h:0",
            "redis://h:70000",
            "redis://h:1/x",
            "redis://h:1#",
            "redis://h:1?a=b",
            "redis://h :1",
            "redis://h:1\n",
            "unix:/x",
            "redis://h:1/1/2",
        ] {
            assert!(wrong_address(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn every_mistake_is_reported() {
        let all = json!({ "name": "a b", "address": 5, "weight": 0, "password": "", "username": 1, "wieght": 1, "a/b": 1 });
        assert_eq!(mistakes(&all), ["/wieght", "/a~1b", "/name", "/address", "/weight", "/username", "/password"]);
        assert_eq!(mistakes(&json!([])), [""]);
        assert_eq!(mistakes(&json!({})), ["/name", "/address"]);
        for weight in [json!(-1), json!(1.5), json!("1"), json!(null), json!(true), json!(1001), json!(1e3)] {
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
