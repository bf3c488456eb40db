//! The names that rows may carry: rules, tiers and shards of any revision that is kept. Every other name is one bucket, so that an agent
//! that invents names cannot fill the tables with them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::PgPool;
use weir_core::item::ItemKind;

use super::batch::Batch;
use crate::db::set::RING;

/// What a name is stored as that nobody knows. No rule, tier or shard can be called that.
pub const UNKNOWN: &str = "(unknown)";
/// The tier of everybody in a domain without tiers.
const DEFAULT_TIER: &str = "default";
/// After a look at the database, an unknown name is not looked for again for this long.
const FRESH: Duration = Duration::from_secs(1);

/// The names of one set, and when they were read.
#[derive(Debug)]
struct Known {
    rules: HashSet<String>,
    tiers: HashSet<String>,
    shards: HashSet<String>,
    read_at: Instant,
}

/// The names of the sets that rows have been about.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<HashMap<String, Arc<Known>>>);

/// The sets of one batch, as far as they are there.
type Sets = HashMap<String, Arc<Known>>;

impl Names {
    /// Leaves out the batch's rows of domains that are not there, and gives unknown names their bucket.
    ///
    /// # Errors
    /// The database is away, and was needed.
    pub(super) async fn settle(&self, pool: &PgPool, batch: &mut Batch, now: Instant) -> sqlx::Result<()> {
        let mut sets: BTreeSet<String> = domains(batch).map(str::to_owned).collect();
        if sets.is_empty() {
            return Ok(());
        }
        sets.insert(RING.to_owned());
        let mut known = self.known(&sets);
        let stale = |known: Option<&Arc<Known>>| known.is_none_or(|known| now.saturating_duration_since(known.read_at) >= FRESH);
        let wanted: Vec<String> =
            sets.into_iter().filter(|set| stale(known.get(set)) && (!known.contains_key(set) || misses(batch, set, &known))).collect();
        if !wanted.is_empty() {
            let read = read(pool, &wanted, now).await?;
            let mut all = self.all();
            wanted.iter().for_each(|set| drop(all.remove(set)));
            all.extend(read.iter().map(|(set, names)| (set.clone(), names.clone())));
            known.extend(read);
        }
        batch.keep_domains(|domain| known.contains_key(domain));
        rename(batch, &known);
        Ok(())
    }

    fn all(&self) -> MutexGuard<'_, Sets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, sets: &BTreeSet<String>) -> Sets {
        let all = self.all();
        sets.iter().filter_map(|set| Some((set.clone(), all.get(set)?.clone()))).collect()
    }
}

fn domains(batch: &Batch) -> impl Iterator<Item = &str> {
    let traffic = batch.traffic.iter().map(|row| row.domain.as_str());
    traffic.chain(batch.denials.iter().map(|row| row.domain.as_str())).chain(batch.subjects.iter().map(|row| row.domain.as_str()))
}

/// Whether the batch has a name of this set that is not known.
fn misses(batch: &Batch, set: &str, known: &Sets) -> bool {
    let Some(names) = known.get(set) else { return true };
    if set == RING {
        let mut shards = batch.traffic.iter().map(|row| &row.shard).chain(batch.denials.iter().map(|row| &row.shard));
        return shards.any(|shard| !names.has_shard(shard));
    }
    let rules_and_tiers = (batch.traffic.iter().map(|row| (&row.domain, &row.rule, &row.tier)))
        .chain(batch.denials.iter().map(|row| (&row.domain, &row.rule, &row.tier)))
        .chain(batch.subjects.iter().map(|row| (&row.domain, &row.rule, &row.tier)));
    rules_and_tiers.filter(|(domain, ..)| *domain == set).any(|(_, rule, tier)| !names.has_rule(rule) || !names.has_tier(tier))
}

fn rename(batch: &mut Batch, known: &Sets) {
    let rule_and_tier = |domain: &str, rule: &mut String, tier: &mut String| {
        let names = known.get(domain);
        settle(rule, names.is_some_and(|names| names.has_rule(rule)));
        settle(tier, names.is_some_and(|names| names.has_tier(tier)));
    };
    let ring = known.get(RING);
    let shard = |shard: &mut String| settle(shard, ring.is_some_and(|names| names.has_shard(shard)));
    for row in &mut batch.traffic {
        rule_and_tier(&row.domain, &mut row.rule, &mut row.tier);
        shard(&mut row.shard);
    }
    for row in &mut batch.denials {
        rule_and_tier(&row.domain, &mut row.rule, &mut row.tier);
        shard(&mut row.shard);
    }
    for row in &mut batch.subjects {
        rule_and_tier(&row.domain, &mut row.rule, &mut row.tier);
    }
}

fn settle(name: &mut String, known: bool) {
    if !known {
        UNKNOWN.clone_into(name);
    }
}

impl Known {
    fn new(read_at: Instant) -> Self {
        Self { rules: HashSet::new(), tiers: HashSet::from([DEFAULT_TIER.to_owned()]), shards: HashSet::new(), read_at }
    }

    fn add(&mut self, kind: &str, name: String) {
        match ItemKind::from_name(kind) {
            Some(ItemKind::Rule) => drop(self.rules.insert(name)),
            Some(ItemKind::Tier) => drop(self.tiers.insert(name)),
            Some(ItemKind::Shard) => drop(self.shards.insert(name)),
            Some(ItemKind::Domain) | None => {}
        }
    }

    fn has_rule(&self, name: &str) -> bool {
        name.is_empty() || self.rules.contains(name)
    }

    fn has_tier(&self, name: &str) -> bool {
        name.is_empty() || self.tiers.contains(name)
    }

    fn has_shard(&self, name: &str) -> bool {
        name.is_empty() || self.shards.contains(name)
    }
}

/// The names of these sets, in any revision that is kept: what was deleted lately may still be counted.
async fn read(pool: &PgPool, sets: &[String], now: Instant) -> sqlx::Result<Sets> {
    let rows: Vec<(String, Option<String>, Option<String>)> =
        sqlx::query_as(include_str!("sql/names_of_sets.sql")).bind(sets).fetch_all(pool).await?;
    let mut read: HashMap<String, Known> = HashMap::new();
    for (set, kind, name) in rows {
        let known = read.entry(set).or_insert_with(|| Known::new(now));
        if let (Some(kind), Some(name)) = (kind, name) {
            known.add(&kind, name);
        }
    }
    Ok(read.into_iter().map(|(set, known)| (set, Arc::new(known))).collect())
}
