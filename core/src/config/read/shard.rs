//! Reads a shard.

use serde_json::Value;

use super::object::Object;
use super::{all_or_nothing, value};
use crate::mistake::Mistakes;
use crate::shard::{MAX_WEIGHT, MIN_MEMORY_LIMIT, Shard, wrong_address};

/// Reads one shard: `name`, `address`, `weight` (default 1), `memory_limit` (default none). The fields `beside` are another reader's.
pub fn shard(value: &Value, pointer: &str, beside: &[&str], mistakes: &mut Mistakes) -> Option<Shard> {
    all_or_nothing(mistakes, |mistakes| {
        let known: Vec<&str> = ["name", "address", "weight", "memory_limit"].iter().chain(beside).copied().collect();
        let object = Object::open(value, pointer, &known, mistakes)?;
        let name = object.required("name", mistakes, value::name);
        let address = object.required("address", mistakes, address);
        let weight = if object.has("weight") { object.optional("weight", mistakes, weight) } else { Some(1) };
        let memory_limit = object.optional("memory_limit", mistakes, memory_limit);
        Some(Shard { name: name?, address: address?, weight: weight?, memory_limit })
    })
}

fn address(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<String> {
    let address = value::text(value, pointer, mistakes)?;
    match wrong_address(address) {
        Some(why) => {
            mistakes.add(pointer, why);
            None
        }
        None => Some(address.to_owned()),
    }
}

fn weight(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<u32> {
    u32::try_from(value::whole(1..=i64::from(MAX_WEIGHT))(value, pointer, mistakes)?).ok()
}

fn memory_limit(value: &Value, pointer: &str, mistakes: &mut Mistakes) -> Option<u64> {
    const MOST: i64 = 1 << 53;
    let least = i64::try_from(MIN_MEMORY_LIMIT).unwrap_or(MOST);
    u64::try_from(value::whole(least..=MOST)(value, pointer, mistakes)?).ok()
}
