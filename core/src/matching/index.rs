//! Finds the rules that may match a request without looking at the others.
//!
//! A trie of path segments, and at each of its ends tables by host, by method, and by one exact descriptor or header value. What is left
//! (regular expressions, prefixes, the other matchers) is tested on the few rules found.

use std::collections::HashMap;

use http::HeaderName;

use super::host::{self, HostPattern};
use super::rank::{ANY_HOST, EXACT_HOST, HostRank};
use super::template::{Segment, Template};
use crate::request::Request;
use crate::rule::implies_head;

/// A rule by its position in the rule set.
pub(crate) type RuleIndex = u32;

/// What of a rule the index looks at.
#[derive(Debug)]
pub(crate) struct Entry<'r> {
    pub(crate) rule: RuleIndex,
    pub(crate) template: Option<&'r Template>,
    pub(crate) hosts: &'r [HostPattern],
    pub(crate) methods: &'r [String],
    /// A descriptor that the request must have with this very value.
    pub(crate) descriptor: Option<(&'r str, &'r str)>,
    /// A header that the request must have with this very value.
    pub(crate) header: Option<(&'r HeaderName, &'r [u8])>,
}

/// A request as the index sees it: path and host in normal form.
#[derive(Debug)]
pub(crate) struct Facts<'a, 'r> {
    pub(crate) request: &'a Request<'r>,
    pub(crate) path: Option<&'a str>,
    pub(crate) host: Option<&'a str>,
}

/// All rules of a rule set.
#[derive(Debug, Default)]
pub(crate) struct Index {
    any_path: ByHost,
    root: Node,
}

/// A segment of path templates.
#[derive(Debug, Default)]
struct Node {
    literals: HashMap<Box<str>, Node>,
    /// `*` and `{name}`.
    one: Option<Box<Node>>,
    /// Templates that end here.
    here: ByHost,
    /// Templates that end here with `**`.
    rest: ByHost,
}

#[derive(Debug, Default)]
struct ByHost {
    exact: HashMap<Box<str>, ByMethod>,
    below: HashMap<Box<str>, ByMethod>,
    any: ByMethod,
}

#[derive(Debug, Default)]
struct ByMethod {
    given: Vec<(Box<str>, ByValue)>,
    any: ByValue,
}

type ByHeaderValue = HashMap<Box<[u8]>, Vec<RuleIndex>>;

#[derive(Debug, Default)]
struct ByValue {
    descriptors: HashMap<Box<str>, HashMap<Box<str>, Vec<RuleIndex>>>,
    headers: Vec<(HeaderName, ByHeaderValue)>,
    plain: Vec<RuleIndex>,
}

impl Index {
    /// Adds a rule.
    pub(crate) fn insert(&mut self, entry: &Entry<'_>) {
        match entry.template {
            None => self.any_path.insert(entry),
            Some(template) => self.root.insert(&template.segments, entry),
        }
    }

    /// Calls `found` with every rule whose path, host and method match and whose indexed value is there, once for each of its
    /// hosts and values that match.
    pub(crate) fn find(&self, facts: &Facts<'_, '_>, found: &mut impl FnMut(RuleIndex, HostRank)) {
        self.any_path.find(facts, found);
        if let Some(path) = facts.path {
            self.root.find(&path[1..], facts, found);
        }
    }
}

impl Node {
    fn insert(&mut self, segments: &[Segment], entry: &Entry<'_>) {
        match segments {
            [] => self.here.insert(entry),
            [Segment::Rest, ..] => self.rest.insert(entry),
            [Segment::Any | Segment::Param(_), later @ ..] => self.one.get_or_insert_default().insert(later, entry),
            [Segment::Literal(text), later @ ..] => self.literals.entry(text.as_str().into()).or_default().insert(later, entry),
        }
    }

    /// `path` is what follows this node, without its first slash. As deep as the templates are, at most 64.
    fn find(&self, path: &str, facts: &Facts<'_, '_>, found: &mut impl FnMut(RuleIndex, HostRank)) {
        self.rest.find(facts, found);
        if path.is_empty() {
            return self.here.find(facts, found);
        }
        let (segment, later) = path.split_once('/').unwrap_or((path, ""));
        if let Some(node) = self.literals.get(segment) {
            node.find(later, facts, found);
        }
        if let Some(node) = &self.one {
            node.find(later, facts, found);
        }
    }
}

impl ByHost {
    fn insert(&mut self, entry: &Entry<'_>) {
        if entry.hosts.is_empty() {
            self.any.insert(entry);
        }
        for host in entry.hosts {
            match host {
                HostPattern::Exact(host) => self.exact.entry(host.as_str().into()).or_default().insert(entry),
                HostPattern::Below(host) => self.below.entry(host.as_str().into()).or_default().insert(entry),
            }
        }
    }

    fn find(&self, facts: &Facts<'_, '_>, found: &mut impl FnMut(RuleIndex, HostRank)) {
        self.any.find(facts, &mut |rule| found(rule, ANY_HOST));
        let Some(host) = facts.host else { return };
        if let Some(methods) = self.exact.get(host) {
            methods.find(facts, &mut |rule| found(rule, EXACT_HOST));
        }
        if self.below.is_empty() {
            return;
        }
        for parent in host::parents(host) {
            if let Some(methods) = self.below.get(parent) {
                let rank = HostRank::try_from(parent.len()).unwrap_or(HostRank::MAX - 1);
                methods.find(facts, &mut |rule| found(rule, rank));
            }
        }
    }
}

impl ByMethod {
    fn insert(&mut self, entry: &Entry<'_>) {
        if entry.methods.is_empty() {
            self.any.insert(entry);
        }
        // What answers GET answers HEAD.
        let implied = implies_head(entry.methods).then_some("HEAD");
        for method in entry.methods.iter().map(String::as_str).chain(implied) {
            if let Some((_, values)) = self.given.iter_mut().find(|(given, _)| **given == *method) {
                values.insert(entry);
            } else {
                let mut values = ByValue::default();
                values.insert(entry);
                self.given.push((method.into(), values));
            }
        }
    }

    fn find(&self, facts: &Facts<'_, '_>, found: &mut impl FnMut(RuleIndex)) {
        self.any.find(facts, found);
        if let Some(method) = facts.request.method
            && let Some((_, values)) = self.given.iter().find(|(given, _)| **given == *method)
        {
            values.find(facts, found);
        }
    }
}

impl ByValue {
    fn insert(&mut self, entry: &Entry<'_>) {
        if let Some((key, value)) = entry.descriptor {
            self.descriptors.entry(key.into()).or_default().entry(value.into()).or_default().push(entry.rule);
        } else if let Some((name, value)) = entry.header {
            let position = self.headers.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
                self.headers.push((name.clone(), HashMap::new()));
                self.headers.len() - 1
            });
            self.headers[position].1.entry(value.into()).or_default().push(entry.rule);
        } else {
            self.plain.push(entry.rule);
        }
    }

    fn find(&self, facts: &Facts<'_, '_>, found: &mut impl FnMut(RuleIndex)) {
        self.plain.iter().for_each(|rule| found(*rule));
        if !self.descriptors.is_empty() {
            let descriptors = facts.request.descriptors;
            for (i, (key, value)) in descriptors.iter().enumerate() {
                let rules = self.descriptors.get(*key).and_then(|values| values.get(*value));
                // What came before has been found already: a request cannot make a rule be looked at again and again.
                if let Some(rules) = rules.filter(|_| !descriptors[..i].contains(&(*key, *value))) {
                    rules.iter().for_each(|rule| found(*rule));
                }
            }
        }
        for (name, values) in &self.headers {
            let lines = facts.request.headers.get_all(name);
            for (i, line) in lines.iter().enumerate() {
                if let Some(rules) = values.get(line.as_bytes()).filter(|_| !lines.iter().take(i).any(|earlier| earlier == line)) {
                    rules.iter().for_each(|rule| found(*rule));
                }
            }
        }
    }
}
