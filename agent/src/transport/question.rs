//! What is asked of the agent: the body of every operation but release, read within bounds, with all mistakes at once.

mod read;

use std::borrow::Cow;
use std::net::IpAddr;

use http::HeaderMap;
use weir_core::mistake::Mistakes;
use weir_core::name::Name;
use weir_core::request::{Overrides, Request};
use weir_core::subject::Subject;

use super::json::Json;

/// The fields of each form; what a form does not have is refused, so that nobody believes that it was heeded.
const FIELDS: [&str; 12] =
    ["domain", "subject", "tier", "method", "host", "path", "headers", "client_ip", "descriptors", "cost", "limits", "rules"];
const RESET_FIELDS: [&str; 10] = ["domain", "subject", "tier", "method", "host", "path", "headers", "client_ip", "descriptors", "rules"];

/// Which fields a question has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Of a check, a peek or an acquire.
    Check,
    /// Of a record: as of a check, but a cost of at least 1 must be given.
    Record,
    /// Of a refund: as of a record, with `rules`.
    Refund,
    /// Of a reset: no cost, no limits, but `rules`.
    Reset,
}

impl Form {
    const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Check | Self::Record => FIELDS.split_at(11).0,
            Self::Refund => &FIELDS,
            Self::Reset => &RESET_FIELDS,
        }
    }

    /// The least cost; above 0 it must be given.
    const fn least_cost(self) -> u64 {
        match self {
            Self::Check | Self::Reset => 0,
            Self::Record | Self::Refund => 1,
        }
    }
}

/// A question to the limiter; its texts are those of the body where they can be.
#[derive(Debug, Clone, PartialEq)]
pub struct Question<'a> {
    domain: Cow<'a, str>,
    subject: Option<Cow<'a, str>>,
    tier: Option<Cow<'a, str>>,
    method: Option<Cow<'a, str>>,
    host: Option<Cow<'a, str>>,
    path: Option<Cow<'a, str>>,
    headers: HeaderMap,
    client_ip: Option<IpAddr>,
    descriptors: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    cost: u64,
    limits: Option<Overrides>,
    rules: Option<Vec<Name>>,
}

impl Default for Question<'_> {
    fn default() -> Self {
        Self {
            domain: Cow::Borrowed("default"),
            subject: None,
            tier: None,
            method: None,
            host: None,
            path: None,
            headers: HeaderMap::new(),
            client_ip: None,
            descriptors: Vec::new(),
            cost: 1,
            limits: None,
            rules: None,
        }
    }
}

impl<'a> Question<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Every mistake with its JSON pointer, in the order of the body.
    pub fn from_json(body: &'a [u8], form: Form) -> Result<Self, Mistakes> {
        Self::read(Json::parse(body)?, form)
    }

    /// Reads a value.
    pub(super) fn read(value: Json<'a>, form: Form) -> Result<Self, Mistakes> {
        read::question(form, value.into_object()?)
    }

    /// The descriptors, for [`Question::request`].
    #[must_use]
    pub fn descriptors(&self) -> Vec<(&str, &str)> {
        self.descriptors.iter().map(|(key, value)| (&**key, &**value)).collect()
    }

    /// What it asks of the limiter.
    #[must_use]
    pub fn request<'q>(&'q self, descriptors: &'q [(&'q str, &'q str)]) -> Request<'q> {
        Request {
            domain: &self.domain,
            subject: self.subject.as_deref().and_then(Subject::parse),
            tier: self.tier.as_deref(),
            method: self.method.as_deref(),
            host: self.host.as_deref(),
            path: self.path.as_deref(),
            headers: &self.headers,
            client_ip: self.client_ip,
            descriptors,
            cost: self.cost,
            limits: self.limits.as_ref(),
        }
    }

    /// Whether it brings limits of its own.
    #[must_use]
    pub const fn has_limits(&self) -> bool {
        self.limits.is_some()
    }

    /// The rules that it is about; `None`: all that apply.
    #[must_use]
    pub fn rules(&self) -> Option<&[Name]> {
        self.rules.as_deref()
    }
}

#[cfg(test)]
mod tests;
