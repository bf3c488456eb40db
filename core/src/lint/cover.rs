//! Which rules match all the requests that another matches.

use std::collections::HashMap;

use super::MAX_PAIRS;
use crate::config::DomainConfig;
use crate::matching::host::HostPattern;
use crate::matching::rank::Rank;
use crate::matching::template::{Segment, Template};
use crate::name::Name;
use crate::rule::{HeaderMatch, Rule, RuleMode, ValueMatch};

/// A rule with what is needed to compare it.
pub(super) struct Linted<'c> {
    /// Position in the document.
    pub(super) position: usize,
    pub(super) rule: &'c Rule,
    pub(super) group: &'c Name,
    pub(super) rank: Rank,
    template: Option<Template>,
    hosts: Vec<HostPattern>,
}

impl<'c> Linted<'c> {
    /// The rules that are not off.
    pub(super) fn all(config: &'c DomainConfig) -> Vec<Self> {
        let on = config.rules.iter().enumerate().filter(|(_, rule)| rule.mode != RuleMode::Off);
        on.map(|(position, rule)| {
            let template = rule.matches.path.as_deref().and_then(|path| Template::parse(path).ok());
            Self {
                position,
                rule,
                group: rule.group.as_ref().or(config.domain.defaults.group.as_ref()).unwrap_or(&rule.name),
                rank: Rank::of(rule, template.as_ref()),
                template,
                hosts: rule.matches.hosts.iter().filter_map(|host| HostPattern::parse(host).ok()).collect(),
            }
        })
        .collect()
    }

    pub(super) fn pointer(&self, below: &str) -> String {
        format!("/rules/{}{below}", self.position)
    }

    /// Whether it refuses for every subject.
    pub(super) fn enforces(&self) -> bool {
        self.rule.mode == RuleMode::Enforce && self.rule.enforce_percent.is_none_or(|percent| percent == 100)
    }

    /// Whether it comes before `other`, which it covers, for each of their requests.
    pub(super) fn always_beats(&self, other: &Self) -> bool {
        let (mine, theirs) = (self.rule.priority, other.rule.priority);
        mine > theirs || (mine == theirs && self.same_hosts(other) && self.rank > other.rank)
    }

    /// Whether it matches every request of `other`, by the same hosts.
    pub(super) fn always_covers(&self, other: &Self) -> bool {
        self.covers(other) && self.same_hosts(other)
    }

    fn same_hosts(&self, other: &Self) -> bool {
        other.hosts.iter().all(|host| self.hosts.contains(host)) && self.hosts.is_empty() == other.hosts.is_empty()
    }

    /// Whether some request is matched by both, through hosts of one rank.
    pub(super) fn may_tie(&self, other: &Self) -> bool {
        let (a, b) = (&self.rule.matches, &other.rule.matches);
        let methods = a.methods.is_empty()
            || a.methods.iter().any(|method| b.has_method(method))
            || b.methods.iter().any(|method| a.has_method(method));
        let hosts = if self.hosts.is_empty() { other.hosts.is_empty() } else { self.hosts.iter().any(|host| other.hosts.contains(host)) };
        let paths = match (&self.template, &other.template) {
            (Some(a), Some(b)) => a.overlaps(b),
            _ => true,
        };
        methods && hosts && paths && !a.headers.iter().any(|a| b.headers.iter().any(|b| exclude(a, b)))
    }

    /// Whether it matches every request that `other` matches.
    fn covers(&self, other: &Self) -> bool {
        let (wide, narrow) = (&self.rule.matches, &other.rule.matches);
        let path = match (&self.template, &other.template) {
            (None, _) => true,
            (Some(wide), Some(narrow)) => wide.covers(narrow),
            (Some(_), None) => false,
        };
        let within = |given: bool, every: bool| !given || every;
        path && within(!wide.methods.is_empty(), !narrow.methods.is_empty() && narrow.methods.iter().all(|method| wide.has_method(method)))
            && within(
                !self.hosts.is_empty(),
                !other.hosts.is_empty() && other.hosts.iter().all(|narrow| self.hosts.iter().any(|wide| wide.covers(narrow))),
            )
            && wide.headers.iter().all(|wide| narrow.headers.iter().any(|narrow| implies(narrow, wide)))
            && wide.descriptors.iter().all(|wide| {
                narrow.descriptors.iter().any(|narrow| narrow.key == wide.key && (wide.value.is_none() || wide.value == narrow.value))
            })
    }

    /// The literal segments of its path.
    pub(super) fn literals(&self) -> impl Iterator<Item = &str> {
        self.template.iter().flat_map(|template| &template.segments).filter_map(|segment| match segment {
            Segment::Literal(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// The first segment if it is literal: rules that differ in it have no request in common.
    fn first_literal(&self) -> Option<&str> {
        match self.template.as_ref()?.segments.first()? {
            Segment::Literal(text) => Some(text),
            _ => None,
        }
    }
}

/// Whether a header that fits `narrow` fits `wide`.
fn implies(narrow: &HeaderMatch, wide: &HeaderMatch) -> bool {
    narrow.name == wide.name
        && match (&wide.value, &narrow.value) {
            (ValueMatch::Present(_), _) => true,
            (ValueMatch::Prefix(prefix), ValueMatch::Exact(text) | ValueMatch::Prefix(text)) => text.starts_with(prefix.as_str()),
            (wide, narrow) => wide == narrow,
        }
}

/// Whether no header line fits both.
fn exclude(a: &HeaderMatch, b: &HeaderMatch) -> bool {
    a.name == b.name
        && match (&a.value, &b.value) {
            (ValueMatch::Exact(a), ValueMatch::Exact(b)) => a != b,
            (ValueMatch::Exact(text), ValueMatch::Prefix(prefix)) | (ValueMatch::Prefix(prefix), ValueMatch::Exact(text)) => {
                !text.starts_with(prefix.as_str())
            }
            _ => false,
        }
}

/// For each rule the others that cover it.
pub(super) fn covering(rules: &[Linted<'_>]) -> Vec<Vec<usize>> {
    let mut by_first: HashMap<Option<&str>, Vec<usize>> = HashMap::new();
    for (i, rule) in rules.iter().enumerate() {
        by_first.entry(rule.first_literal()).or_default().push(i);
    }
    let none = Vec::new();
    let mut pairs = 0;
    let covering = rules.iter().enumerate().map(|(i, narrow)| {
        let first = narrow.first_literal();
        let same = if first.is_some() { by_first.get(&first).unwrap_or(&none) } else { &none };
        let candidates = by_first.get(&None).unwrap_or(&none).iter().chain(same).copied();
        let within_bounds = candidates.take_while(|_| {
            pairs += 1;
            pairs <= MAX_PAIRS
        });
        within_bounds.filter(|other| *other != i && rules[*other].covers(narrow)).collect()
    });
    covering.collect()
}
