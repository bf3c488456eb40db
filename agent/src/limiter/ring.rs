//! Which shard owns a counter: consistent hashing over the shards' names.
//!
//! Each shard stands at many points of a circle of 64-bit numbers, and a counter belongs to the next point after its own. So a shard that
//! comes or goes moves only its own share of the counters, and every agent, whatever its platform and the order in which it heard of the
//! shards, places each counter the same.

use std::hash::{BuildHasher, Hash, Hasher};

use hashring::HashRing;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Points per unit of weight: enough for the largest of a few equal shards to have at most some 10 % more than its share.
const POINTS_PER_WEIGHT: u32 = 512;

/// The circle, with the shards as indices into the list it was made from.
pub(super) struct Ring {
    points: HashRing<Point, Placed>,
}

impl Ring {
    /// The circle of shards given by name and weight.
    pub(super) fn new<'a>(shards: impl IntoIterator<Item = (&'a str, u32)>) -> Self {
        let mut shards: Vec<(usize, (&str, u32))> = shards.into_iter().enumerate().collect();
        // Two points in the same place (2^-64 each pair) must be in the same order on every agent.
        shards.sort_unstable_by_key(|(_, (name, _))| *name);
        let mut points = Vec::new();
        for (shard, (name, weight)) in shards {
            points.extend((0..weight * POINTS_PER_WEIGHT).map(|n| Point { place: point(name, n), shard }));
        }
        let mut ring = HashRing::with_hasher(Placed(0));
        ring.batch_add(points);
        Self { points: ring }
    }

    /// The shard that owns the counters of this tag; `None` if there are no shards.
    pub(super) fn owner(&self, tag: &[u8]) -> Option<usize> {
        self.points.get(&Point { place: xxh3_64(tag), shard: 0 }).map(|point| point.shard)
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring({} points)", self.points.len())
    }
}

fn point(name: &str, n: u32) -> u64 {
    xxh3_64_with_seed(name.as_bytes(), u64::from(n))
}

/// A place on the circle. `hashring` asks for hashes; these are made beforehand, from bytes, so that they are the same on all platforms.
#[derive(Clone, Copy)]
struct Point {
    place: u64,
    shard: usize,
}

impl Hash for Point {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.place);
    }
}

/// Hands the place through as the hash.
#[derive(Clone, Copy)]
struct Placed(u64);

impl BuildHasher for Placed {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Placed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, place: u64) {
        self.0 = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: u32 = 100_000;

    fn ring(shards: &[(&str, u32)]) -> Ring {
        Ring::new(shards.iter().copied())
    }

    /// The owner of each of many keys, by name.
    fn owners<'a>(shards: &[(&'a str, u32)]) -> Vec<&'a str> {
        let ring = ring(shards);
        (0..KEYS).map(|key| shards[ring.owner(format!("key-{key}").as_bytes()).unwrap()].0).collect()
    }

    fn load(owners: &[&str], name: &str) -> f64 {
        owners.iter().filter(|owner| **owner == name).count() as f64
    }

    const FIVE: [(&str, u32); 5] = [("s1", 1), ("s2", 1), ("s3", 1), ("s4", 1), ("s5", 1)];

    /// Placement is a contract between agents of all versions: these must never change.
    #[test]
    fn golden_placement() {
        let owners = owners(&FIVE);
        let golden: Vec<&str> = owners.iter().step_by(10_000).copied().collect();
        assert_eq!(golden, GOLDEN);
        assert_eq!((point("s1", 0), point("s1", 1), xxh3_64(b"key-0")), GOLDEN_PLACES);
    }

    const GOLDEN: [&str; 10] = ["s4", "s4", "s5", "s5", "s1", "s3", "s4", "s3", "s1", "s2"];
    const GOLDEN_PLACES: (u64, u64, u64) = (11_107_950_631_770_992_849, 13_745_234_085_381_428_371, 9_340_302_149_712_544_120);

    /// So are weights: the first places of a shard stay where they are, whatever its weight.
    #[test]
    fn golden_placement_with_weights() {
        let golden: String = owners(&[("a", 1), ("b", 3), ("c", 2)]).iter().step_by(5_000).copied().collect();
        assert_eq!(golden, "cabaccbacbcccbcccaca");
    }

    /// A sixth takes a sixth, and nothing moves between the others.
    #[test]
    fn a_shard_that_is_added_takes_its_share() {
        let (before, after) = (owners(&FIVE), owners(&[&FIVE[..], &[("s6", 1)]].concat()));
        let moved: Vec<_> = before.iter().zip(&after).filter(|(a, b)| a != b).collect();
        assert!(moved.iter().all(|(_, owner)| **owner == "s6"));
        let share = moved.len() as f64 / f64::from(KEYS);
        assert!((0.13..=0.20).contains(&share), "{share}");
    }

    #[test]
    fn the_order_of_the_list_does_not_matter() {
        let mut reversed = FIVE;
        reversed.reverse();
        assert_eq!(owners(&FIVE), owners(&reversed));
    }

    /// BB-19: a shard that goes moves only its own keys, spread over the others; on its return all is as before.
    #[test]
    fn bb_19_a_lost_shard_moves_only_its_own_keys() {
        let before = owners(&FIVE);
        let without: Vec<_> = FIVE.into_iter().filter(|(name, _)| *name != "s3").collect();
        let after = owners(&without);
        let moved: Vec<_> = before.iter().zip(&after).filter(|(a, b)| a != b).collect();
        assert!(moved.iter().all(|(owner, _)| **owner == "s3"));
        let share = moved.len() as f64 / f64::from(KEYS);
        assert!((0.16..=0.24).contains(&share), "{share}");
        for (name, _) in &without {
            let taken = moved.iter().filter(|(_, now)| *now == name).count() as f64 / moved.len() as f64;
            assert!((0.15..=0.35).contains(&taken), "{name} took {taken}");
        }
        assert_eq!(owners(&FIVE), before);
    }

    #[test]
    fn bb_19_loads_are_even() {
        let owners = owners(&FIVE);
        let loads: Vec<f64> = FIVE.iter().map(|(name, _)| load(&owners, name)).collect();
        let (most, least) = (loads.iter().copied().fold(0.0, f64::max), loads.iter().copied().fold(f64::MAX, f64::min));
        assert!(most / least <= 1.3, "{loads:?}");
    }

    #[test]
    fn weights_are_shares() {
        let owners = owners(&[("a", 1), ("b", 2), ("c", 1)]);
        let share = load(&owners, "b") / f64::from(KEYS);
        assert!((0.45..=0.55).contains(&share), "{share}");
    }

    #[test]
    fn an_empty_ring_owns_nothing() {
        assert_eq!(ring(&[]).owner(b"x"), None);
        assert_eq!(ring(&[("only", 1)]).owner(b"x"), Some(0));
    }
}
