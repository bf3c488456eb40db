//! A rule: match, key, algorithm, limits per tier, failure policy and mode.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::failure::FailurePolicy;
use crate::limit::{Algorithm, Limit};
use crate::name::Name;

/// Whether a rule acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Default)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum RuleMode {
    /// It refuses what is over the limit.
    #[default]
    Enforce,
    /// It is decided and reported beside the enforcing rules, and never refuses.
    Shadow,
    /// It does not exist for requests.
    Off,
}

/// One part of a counter's key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeyPart {
    /// `subject`: who is limited.
    Subject,
    /// `ip`: the client address (IPv6 by network).
    Ip,
    /// `route`: the rule's path template, never the raw path.
    Route,
    /// `method`; HEAD is counted as GET.
    Method,
    /// `tier`.
    Tier,
    /// `header:NAME`: a header's value (name in lower case). All requests in which it has several values share one counter.
    Header(String),
    /// `param:NAME`: what `{NAME}` of the path template stands for.
    Param(String),
    /// `descriptor:NAME`: the value of the first descriptor of that key.
    Descriptor(String),
}

/// The value of one matcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueMatch {
    /// Any value, as long as there is one: `present: true`.
    Present(bool),
    /// This very value.
    Exact(String),
    /// A value that starts so.
    Prefix(String),
    /// A value that matches wholly (RE2-like syntax, linear time).
    Regex(String),
}

/// One header that a request must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeaderMatch {
    /// The header's name in lower case.
    pub name: String,
    /// What its value must be.
    #[serde(flatten)]
    pub value: ValueMatch,
}

/// One descriptor that a request must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DescriptorMatch {
    /// The descriptor's key.
    pub key: String,
    /// Its value, `*` standing for any run of characters; absent: any value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// Which requests a rule is about: all given parts must hold, an empty part always does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Match {
    /// One of these methods (upper case). `GET` is `HEAD` too, since services answer both with the same handler.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// One of these hosts: exact, or `*.suffix` (lower case, without port).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// A path template such as `/users/{id}/posts`, `/static/**`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// All of these headers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<HeaderMatch>,
    /// All of these descriptors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub descriptors: Vec<DescriptorMatch>,
}

/// A rule as an operator wrote it; valid in itself, with defaults of its domain not yet filled in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rule {
    /// The name, unique in its domain; it is in headers, metrics and events.
    pub name: Name,
    /// For people, at most 500 characters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Rules in one group compete; absent: the domain's default, else the rule's own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Name>,
    /// Within a group the highest wins, before specificity.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// Which requests it is about.
    #[serde(rename = "match")]
    pub matches: Match,
    /// What it counts by, in order; empty: one counter for all.
    pub key: Vec<KeyPart>,
    /// How it counts; absent: the domain's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,
    /// The limit of each tier; `None` is `"*"`, for the tiers that are not named.
    #[serde(serialize_with = "crate::config::write::limits")]
    pub limits: BTreeMap<Option<Name>, Limit>,
    /// What happens without its shard; absent: the domain's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<FailurePolicy>,
    /// Whether it acts.
    pub mode: RuleMode,
    /// In mode `enforce`: the share of subjects (0 to 100) for which it refuses; for the others it is a shadow rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enforce_percent: Option<u8>,
    /// Takes the cost from this request header (lower case), one whole number of at least 1, instead of from the request's own cost. Only
    /// for a header that the gateway sets or overwrites: what the client sets is the client's to choose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_header: Option<String>,
}

impl Match {
    /// Whether it is about requests of this method.
    pub(crate) fn has_method(&self, method: &str) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|given| given == method) || (method == "HEAD" && implies_head(&self.methods))
    }
}

/// Whether these methods, with `GET` among them and without `HEAD`, are about `HEAD` nevertheless.
pub(crate) fn implies_head(methods: &[String]) -> bool {
    methods.iter().any(|method| method == "GET") && !methods.iter().any(|method| method == "HEAD")
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(n: &i32) -> bool {
    *n == 0
}

impl std::fmt::Display for KeyPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Subject => f.write_str("subject"),
            Self::Ip => f.write_str("ip"),
            Self::Route => f.write_str("route"),
            Self::Method => f.write_str("method"),
            Self::Tier => f.write_str("tier"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Param(name) => write!(f, "param:{name}"),
            Self::Descriptor(name) => write!(f, "descriptor:{name}"),
        }
    }
}

impl Serialize for KeyPart {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
