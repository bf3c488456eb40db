//! Where a request is counted for a rule, and how much it takes.

use std::cell::OnceCell;
use std::sync::OnceLock;

use http::{HeaderMap, HeaderName};

use super::{ChoiceError, RuleSet};
use crate::config::read::MAX_KEY_PARTS;
use crate::key::{CounterKey, HashSecret, Part, Suffix, Tag};
use crate::limit::MAX_UNITS;
use crate::matching::index::Facts;
use crate::matching::template::{Template, missing};
use crate::path;
use crate::request::Request;
use crate::rule::{KeyPart, Rule};
use crate::subject::Subject;

/// Methods that have a counter of their own. HEAD is counted as GET, as it is matched; all others share one, so that a client cannot invent
/// counters.
const METHODS: [&str; 8] = ["GET", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
const OTHER_METHOD: &str = "other";
/// What a header that came with several values is hashed under, instead of its own kind: no part of a key has this kind.
const REPEATED: &str = "repeated";

/// The key and cost of a rule.
#[derive(Debug)]
pub(super) struct Counting {
    /// Whether `subject` is in the key: then it makes the tag, and all limits of one subject share a shard.
    by_subject: bool,
    /// The other parts, in order, with the kinds that they are hashed under.
    parts: Box<[(Box<str>, Value)]>,
    /// Where only the subject tells counters apart: the end of all their keys, made for the first request with its secret.
    suffix: Option<OnceLock<(HashSecret, Suffix)>>,
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

/// What a request has for a key part.
enum Found<'a> {
    Value(&'a [u8]),
    /// Nothing: a value of its own, never "no limit".
    Missing,
    /// A header with several values: a value of its own too. Joined they would be as many counters as a client can think of.
    Repeated,
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
            if let Some(mistake) = missing(part, template) {
                return Err((Some(i), mistake));
            }
            let value = Value::of(part, rule, template).ok_or_else(|| (Some(i), format!("{part} cannot be counted by")))?;
            parts.push((part.to_string().into_boxed_str(), value));
        }
        let cost_header = rule.cost_header.as_ref().map(|name| HeaderName::from_bytes(name.as_bytes())).transpose();
        let cost_header = cost_header.map_err(|error| (None, error.to_string()))?;
        let by_subject = rule.key.contains(&KeyPart::Subject);
        let only_subject = by_subject && parts.iter().all(|(_, value)| matches!(value, Value::Constant(_)));
        Ok(Self { by_subject, parts: parts.into(), suffix: only_subject.then(OnceLock::new), cost_header })
    }

    /// Whether clients can invent counters: the key has a part that they choose.
    pub(super) fn is_open_ended(&self) -> bool {
        let chosen = |value: &Value| matches!(value, Value::Ip | Value::Header(_) | Value::Segment(_) | Value::Descriptor(_));
        self.by_subject || self.parts.iter().any(|(_, value)| chosen(value))
    }

    /// The headers that it looks at.
    pub(super) fn headers(&self) -> impl Iterator<Item = &HeaderName> {
        let in_key = self.parts.iter().filter_map(|(_, value)| match value {
            Value::Header(name) => Some(name),
            _ => None,
        });
        in_key.chain(&self.cost_header)
    }

    /// The counter of this request.
    pub(super) fn key(&self, rule: &str, caller: &Caller<'_, '_>) -> CounterKey {
        let suffix_of = |parts: &[Part<'_>]| Suffix::of(caller.secret, rule, parts);
        if let Some(suffix) = &self.suffix {
            let (secret, suffix) = suffix.get_or_init(|| (caller.secret.clone(), self.with_parts(caller, suffix_of)));
            if secret.as_bytes() == caller.secret.as_bytes() {
                return CounterKey::new(caller.tag(), *suffix);
            }
        }
        self.with_parts(caller, |parts| {
            let domain = caller.rules.domain.as_str();
            let tag = if self.by_subject { caller.tag() } else { Tag::of_rule(caller.secret, domain, rule, parts) };
            CounterKey::new(tag, suffix_of(parts))
        })
    }

    /// What this request has for the parts besides the subject.
    fn with_parts<T>(&self, caller: &Caller<'_, '_>, with: impl FnOnce(&[Part<'_>]) -> T) -> T {
        let found: [Found<'_>; MAX_KEY_PARTS] =
            std::array::from_fn(|i| self.parts.get(i).map_or(Found::Missing, |(_, value)| value.find(caller)));
        let parts: [Part<'_>; MAX_KEY_PARTS] = std::array::from_fn(|i| {
            let kind = self.parts.get(i).map_or("", |(kind, _)| kind);
            match &found[i] {
                Found::Value(value) => Part { kind, value: Some(value) },
                Found::Missing => Part { kind, value: None },
                Found::Repeated => Part { kind: REPEATED, value: Some(kind.as_bytes()) },
            }
        });
        with(&parts[..self.parts.len()])
    }

    /// The units that the request takes: from the rule's cost header if it is there, else the request's own cost. A look stays a look, and
    /// no header makes one: it may be the client's own.
    pub(super) fn cost(&self, headers: &HeaderMap, own: u64) -> Result<u64, ChoiceError> {
        let Some(name) = self.cost_header.as_ref().filter(|_| own > 0) else { return Ok(own) };
        let mut lines = headers.get_all(name).iter();
        let Some(line) = lines.next() else { return Ok(own) };
        let digits = line.to_str().ok().filter(|text| lines.next().is_none() && text.bytes().all(|b| b.is_ascii_digit()));
        let cost = digits.and_then(|text| text.parse().ok()).filter(|cost| (1..=MAX_UNITS).contains(cost));
        cost.ok_or_else(|| ChoiceError::Cost { header: name.to_string() })
    }
}

impl Value {
    /// `None` if the part is nothing to look for.
    fn of(part: &KeyPart, rule: &Rule, template: Option<&Template>) -> Option<Self> {
        Some(match part {
            KeyPart::Subject => return None,
            KeyPart::Ip => Self::Ip,
            KeyPart::Route => Self::Constant(rule.matches.path.as_deref()?.into()),
            KeyPart::Method => Self::Method,
            KeyPart::Tier => Self::Tier,
            KeyPart::Header(name) => Self::Header(HeaderName::from_bytes(name.as_bytes()).ok()?),
            KeyPart::Param(name) => Self::Segment(template?.param(name)?),
            KeyPart::Descriptor(key) => Self::Descriptor(key.as_str().into()),
        })
    }

    fn find<'c>(&'c self, caller: &'c Caller<'_, '_>) -> Found<'c> {
        match self {
            Self::Header(name) => header(caller.facts.request.headers, name),
            _ => self.single(caller).map_or(Found::Missing, Found::Value),
        }
    }

    /// The value of what a request can have only once.
    fn single<'c>(&'c self, caller: &'c Caller<'_, '_>) -> Option<&'c [u8]> {
        let request = caller.facts.request;
        let text = match self {
            Self::Header(_) => return None,
            Self::Ip => return caller.ip(),
            Self::Constant(text) => text,
            Self::Method => known_method(request.method?),
            Self::Tier => caller.rules.tiers[caller.tier].as_str(),
            Self::Segment(position) => path::segments(caller.facts.path?).nth(*position)?,
            Self::Descriptor(key) => request.descriptors.iter().find(|(name, _)| *name == &**key)?.1,
        };
        Some(text.as_bytes())
    }
}

fn known_method(method: &str) -> &str {
    match method {
        "HEAD" => "GET",
        known if METHODS.contains(&known) => known,
        _ => OTHER_METHOD,
    }
}

/// The header's one value; lines that say the same are one.
fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Found<'h> {
    let mut lines = headers.get_all(name).iter();
    match lines.next() {
        None => Found::Missing,
        Some(first) if lines.all(|line| line == first) => Found::Value(first.as_bytes()),
        Some(_) => Found::Repeated,
    }
}
