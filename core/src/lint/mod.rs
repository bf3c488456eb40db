//! What is allowed but probably not meant.

mod algorithms;
mod cover;
mod limits;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use self::cover::{Linted, covering};
use crate::config::DomainConfig;
use crate::mistake::{Mistake, Mistakes};
use crate::rule::KeyPart;

/// From so many limits on one request on, a warning: at [`MAX_LIMITS`](crate::ruleset::MAX_LIMITS) there is an end.
const MANY_LIMITS: usize = 32;
/// The most pairs of rules that are compared; beyond it a very large domain is only partly looked at.
const MAX_PAIRS: usize = 2_000_000;

/// Warnings about `config`: rules that can never win, ties decided by name, a stacked broader rule with a lower limit, keys on
/// client-chosen values with no backstop, costs from a header, paths with capitals, requests that are in flight until they expire, long
/// logs, quotas without their shard, more than 32 limits on one request. Rules that are `off` are left alone.
#[must_use]
pub fn lint(config: &DomainConfig) -> Vec<Mistake> {
    let rules: Vec<Linted<'_>> = Linted::all(config);
    let covering = covering(&rules);
    let mut warnings = Mistakes::new();
    for (narrow, wider) in rules.iter().zip(&covering) {
        let wider: Vec<&Linted<'_>> = wider.iter().map(|i| &rules[*i]).collect();
        never_wins(narrow, &wider, &mut warnings);
        never_reached(config, narrow, &wider, &mut warnings);
        no_backstop(narrow, &wider, &mut warnings);
        cost_by_header(narrow, &mut warnings);
        capitals(narrow, &mut warnings);
        algorithms::warn(config, narrow, &mut warnings);
    }
    ties(&rules, &mut warnings);
    many_limits(&rules, &covering, &mut warnings);
    warnings.into_iter().collect()
}

fn never_wins(narrow: &Linted<'_>, wider: &[&Linted<'_>], warnings: &mut Mistakes) {
    if let Some(winner) = wider.iter().find(|wide| wide.group == narrow.group && wide.enforces() && wide.always_beats(narrow)) {
        let winner = &winner.rule.name;
        warnings
            .add(narrow.pointer(""), format!("can never win: rule {winner} of the same group matches all its requests and comes first"));
    }
}

fn never_reached(config: &DomainConfig, narrow: &Linted<'_>, wider: &[&Linted<'_>], warnings: &mut Mistakes) {
    for wide in wider.iter().filter(|wide| wide.group != narrow.group && wide.enforces()) {
        // What counts by fewer parts counts at least as much.
        if !wide.rule.key.iter().all(|part| narrow.rule.key.contains(part)) {
            continue;
        }
        let tiers = limits::never_reached(config, narrow, wide);
        if !tiers.is_empty() {
            let (of, wide) = (tiers.join(", "), &wide.rule.name);
            let detail = format!("never reached by {of}: rule {wide} matches all its requests too, and its limit is not higher");
            return warnings.add(narrow.pointer("/limits"), detail);
        }
    }
}

/// Whether the caller chooses the value, so that a new one is a new counter.
fn client_chosen(part: &KeyPart) -> bool {
    matches!(part, KeyPart::Header(_) | KeyPart::Param(_) | KeyPart::Descriptor(_))
}

fn no_backstop(narrow: &Linted<'_>, wider: &[&Linted<'_>], warnings: &mut Mistakes) {
    let Some(part) = narrow.rule.key.iter().find(|part| matches!(part, KeyPart::Header(_) | KeyPart::Param(_))) else { return };
    let backstop = |wide: &&Linted<'_>| wide.group != narrow.group && wide.enforces() && !wide.rule.key.iter().any(client_chosen);
    if !wider.iter().copied().any(|wide| backstop(&wide)) {
        let detail =
            format!("a client that varies {part} gets a new counter each time; add a rule that counts the same requests without it");
        warnings.add(narrow.pointer("/key"), detail);
    }
}

fn cost_by_header(linted: &Linted<'_>, warnings: &mut Mistakes) {
    if let Some(header) = &linted.rule.cost_header {
        let detail = format!("the client chooses its cost unless the gateway sets {header} on every request");
        warnings.add(linted.pointer("/cost_header"), detail);
    }
}

/// Paths are compared letter by letter; a service may not be as strict.
fn capitals(linted: &Linted<'_>, warnings: &mut Mistakes) {
    if linted.literals().any(|text| text.bytes().any(|b| b.is_ascii_uppercase())) {
        let detail = "has capital letters: a service that takes other spellings for the same path answers them without this limit";
        warnings.add(linted.pointer("/match/path"), detail);
    }
}

/// Rules of one group that nothing but their names tells apart, for some request.
fn ties(rules: &[Linted<'_>], warnings: &mut Mistakes) {
    let mut equals: HashMap<_, Vec<&Linted<'_>>> = HashMap::new();
    for rule in rules {
        equals.entry((rule.group, rule.rule.priority, rule.rank.without_name())).or_default().push(rule);
    }
    let mut pairs = 0;
    let mut equals: Vec<_> = equals.into_values().collect();
    equals.sort_unstable_by_key(|rules| rules[0].position);
    for rules in equals {
        for (i, loser) in rules.iter().enumerate() {
            pairs += rules.len();
            if pairs > MAX_PAIRS {
                return;
            }
            let winner = rules.iter().enumerate().find(|(j, other)| *j != i && other.rank > loser.rank && other.may_tie(loser));
            if let Some((_, winner)) = winner.filter(|(_, winner)| !(winner.enforces() && winner.always_covers(loser))) {
                let winner = &winner.rule.name;
                warnings.add(loser.pointer(""), format!("ties with rule {winner} for some requests: {winner} wins by its name"));
            }
        }
    }
}

fn many_limits(rules: &[Linted<'_>], covering: &[Vec<usize>], warnings: &mut Mistakes) {
    let groups = |(narrow, wider): (&Linted<'_>, &Vec<usize>)| {
        let groups: HashSet<_> = wider.iter().map(|i| rules[*i].group).chain([narrow.group]).collect();
        (groups.len(), narrow.position)
    };
    let most = rules.iter().zip(covering).map(groups).max_by_key(|(count, position)| (*count, std::cmp::Reverse(*position)));
    if let Some((count, position)) = most.filter(|(count, _)| *count > MANY_LIMITS) {
        let detail =
            format!("at least {count} limits apply to its requests; requests with more than {} are refused", crate::ruleset::MAX_LIMITS);
        warnings.add(format!("/rules/{position}"), detail);
    }
}
