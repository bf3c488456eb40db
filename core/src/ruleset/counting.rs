//! Where a request is counted for a rule, and how much it takes.

use std::borrow::Cow;
use std::cell::OnceCell;

use http::{HeaderMap, HeaderName};

use super::{ChoiceError, RuleSet};
use crate::config::read::MAX_KEY_PARTS;
use crate::key::{CounterKey, HashSecret, Part, Tag, counter_key};
use crate::limit::MAX_UNITS;
use crate::matching::index::Facts;
use crate::matching::template::Template;
use crate::path;
use crate::request::Request;
use crate::rule::{KeyPart, Rule};
use crate::subject::Subject;

/// Methods that have a counter of their own; all others share one, so that a client cannot invent counters.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
const OTHER_METHOD: &str = "other";

/// The key and cost of a rule.
#[derive(Debug)]
pub(super) struct Counting {
    /// Whether `subject` is in the key: then it makes the tag, and all limits of one subject share a shard.
    by_subject: bool,
    /// The other parts, in order, with the kinds that they are hashed under.
    parts: Box<[(Box<str>, Value)]>,
    cost_header: Option<HeaderName>,
}

/// Where the value of a key part is found.
#[derive(Debug)]
enum Value {
    Ip,
    Constant(Box<str>),
    Method,
    Tier,
    Header(HeaderName),
    Segment(usize),
    Descriptor(Box<str>),
}

/// The caller as keys and shares see it, worked out at most once for a request.
pub(super) struct Caller<'a, 'r> {
    rules: &'a RuleSet,
    facts: &'a Facts<'a, 'r>,
    secret: &'a HashSecret,
    tier: usize,
    tag: OnceCell<Tag>,
    ip: OnceCell<Option<Subject<'static>>>,
}

impl<'a, 'r> Caller<'a, 'r> {
    pub(super) fn new(rules: &'a RuleSet, facts: &'a Facts<'a, 'r>, secret: &'a HashSecret, tier: usize) -> Self {
        Self { rules, facts, secret, tier, tag: OnceCell::new(), ip: OnceCell::new() }
    }

    pub(super) fn request(&self) -> &'a Request<'r> {
        self.facts.request
    }

    /// The tag of the subject.
    pub(super) fn tag(&self) -> Tag {
        *self.tag.get_or_init(|| Tag::of_subject(self.secret, self.rules.domain.as_str(), &self.rules.subject(self.facts.request)))
    }

    fn ip(&self) -> Option<&[u8]> {
        let ip = self.ip.get_or_init(|| self.facts.request.client_ip.map(|ip| Subject::from_ip(ip, self.rules.v6_prefix)));
        ip.as_ref().map(|subject| &*subject.id)
    }
}

impl Counting {
    /// Compiles the key of `rule`.
    ///
    /// # Errors
    /// The position of a key part that the rule's match cannot fill, or `None` for the cost header, and what is wrong with it.
    pub(super) fn compile(rule: &Rule, template: Option<&Template>) -> Result<Self, (Option<usize>, String)> {
        if rule.key.len() > MAX_KEY_PARTS {
            return Err((Some(MAX_KEY_PARTS), format!("a key has at most {MAX_KEY_PARTS} parts")));
        }
        let mut parts = Vec::new();
        for (i, part) in rule.key.iter().enumerate().filter(|(_, part)| **part != KeyPart::Subject) {
            let value = Value::of(part, rule, template).map_err(|error| (Some(i), error))?;
            parts.push((part.to_string().into_boxed_str(), value));
        }
        let cost_header = rule.cost_header.as_ref().map(|name| HeaderName::from_bytes(name.as_bytes())).transpose();
        let cost_header = cost_header.map_err(|error| (None, error.to_string()))?;
        Ok(Self { by_subject: rule.key.contains(&KeyPart::Subject), parts: parts.into(), cost_header })
    }

    /// The counter of this request.
    pub(super) fn key(&self, rule: &str, caller: &Caller<'_, '_>) -> CounterKey {
        let values: [Option<Cow<'_, [u8]>>; MAX_KEY_PARTS] =
            std::array::from_fn(|i| self.parts.get(i).and_then(|(_, value)| value.find(caller)));
        let parts: [Part<'_>; MAX_KEY_PARTS] =
            std::array::from_fn(|i| Part { kind: self.parts.get(i).map_or("", |(kind, _)| kind), value: values[i].as_deref() });
        let parts = &parts[..self.parts.len()];
        let tag = if self.by_subject { caller.tag() } else { Tag::of_rule(caller.secret, caller.rules.domain.as_str(), rule, parts) };
        counter_key(caller.secret, tag, rule, parts)
    }

    /// The units that the request takes: from the rule's cost header if it is there, else the request's own cost.
    pub(super) fn cost(&self, headers: &HeaderMap, own: u64) -> Result<u64, ChoiceError> {
        let Some(name) = &self.cost_header else { return Ok(own) };
        let mut lines = headers.get_all(name).iter();
        let Some(line) = lines.next() else { return Ok(own) };
        let digits = line.to_str().ok().filter(|text| lines.next().is_none() && text.bytes().all(|b| b.is_ascii_digit()));
        let cost = digits.and_then(|text| text.parse().ok()).filter(|cost| *cost <= MAX_UNITS);
        cost.ok_or_else(|| ChoiceError::Cost { header: name.to_string() })
    }
}

impl Value {
    fn of(part: &KeyPart, rule: &Rule, template: Option<&Template>) -> Result<Self, String> {
        Ok(match part {
            KeyPart::Subject => return Err("subject is not a part like the others".to_owned()),
            KeyPart::Ip => Self::Ip,
            KeyPart::Route => Self::Constant(rule.matches.path.as_deref().ok_or("needs a path in match")?.into()),
            KeyPart::Method => Self::Method,
            KeyPart::Tier => Self::Tier,
            KeyPart::Header(name) => Self::Header(HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?),
            KeyPart::Param(name) => Self::Segment(
                template.and_then(|template| template.param(name)).ok_or_else(|| format!("needs a segment {{{name}}} in match.path"))?,
            ),
            KeyPart::Descriptor(key) => Self::Descriptor(key.as_str().into()),
        })
    }

    /// `None` if the request has none: a value of its own.
    fn find<'c>(&'c self, caller: &'c Caller<'_, '_>) -> Option<Cow<'c, [u8]>> {
        let request = caller.facts.request;
        let text = match self {
            Self::Ip => return caller.ip().map(Cow::Borrowed),
            Self::Header(name) => return header(request.headers, name),
            Self::Constant(text) => text,
            Self::Method => known_method(request.method?),
            Self::Tier => caller.rules.tiers[caller.tier].as_str(),
            Self::Segment(position) => path::segments(caller.facts.path?).nth(*position)?,
            Self::Descriptor(key) => request.descriptors.iter().find(|(name, _)| *name == &**key)?.1,
        };
        Some(Cow::Borrowed(text.as_bytes()))
    }
}

fn known_method(method: &str) -> &str {
    if METHODS.contains(&method) { method } else { OTHER_METHOD }
}

/// The header's lines joined as one list, which is what several lines mean.
fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<Cow<'h, [u8]>> {
    let mut lines = headers.get_all(name).iter();
    let first = lines.next()?.as_bytes();
    let Some(second) = lines.next() else { return Some(Cow::Borrowed(first)) };
    let mut joined = first.to_vec();
    for line in std::iter::once(second).chain(lines) {
        joined.extend_from_slice(b", ");
        joined.extend_from_slice(line.as_bytes());
    }
    Some(Cow::Owned(joined))
}
