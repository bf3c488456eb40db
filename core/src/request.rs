//! A request as rules see it, whatever surface it came through.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use http::HeaderMap;

use crate::limit::Limit;
use crate::name::Name;
use crate::subject::Subject;

/// The longest host, by the rules of DNS.
pub const MAX_HOST: usize = 255;
/// The longest path, as most servers have it.
pub const MAX_PATH: usize = 8 << 10;
/// The longest value of a header that rules look at.
pub const MAX_HEADER: usize = 8 << 10;
/// The longest method; the longest registered one has 17 characters.
pub const MAX_METHOD: usize = 32;
/// The longest tier: no tier has a longer name.
pub const MAX_TIER: usize = crate::name::MAX_LENGTH;

/// Limits by rule, in the place of those that the rules give to the tier. Names of rules that do not apply have no effect.
pub type Overrides = BTreeMap<Name, Limit>;

/// A part of a request that is longer than allowed: the question is bad (400).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {what} has more than {most} bytes")]
pub struct TooLong {
    /// Which part.
    pub what: String,
    /// The most bytes that it may have.
    pub most: usize,
}

/// One question to the limiter, whichever transport built it.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The domain whose rules apply.
    pub domain: &'a str,
    /// Who is limited; absent: the client address, then the anonymous subject.
    pub subject: Option<Subject<'a>>,
    /// The subject's tier as the gateway knows it; unknown or absent: the default tier.
    pub tier: Option<&'a str>,
    /// The method, upper case; absent matches only rules without methods.
    pub method: Option<&'a str>,
    /// The host, any case, perhaps with a port.
    pub host: Option<&'a str>,
    /// The path as received, perhaps with a query; the matcher normalises it.
    pub path: Option<&'a str>,
    /// Headers that rules may match or key on.
    pub headers: &'a HeaderMap,
    /// The client's address, trusted proxies already taken off.
    pub client_ip: Option<IpAddr>,
    /// Descriptors of the caller (Envoy RLS or the check API): key and value, in order.
    pub descriptors: &'a [(&'a str, &'a str)],
    /// Units to take, 0 to [`crate::limit::MAX_UNITS`].
    pub cost: u64,
    /// Limits for this request alone, from a caller that may say so; `None`: those of the rules.
    pub limits: Option<&'a Overrides>,
}

impl Request<'_> {
    /// Who is limited: the subject, else the client address (an IPv6 one as its network of `v6_prefix` bits), else the one anonymous
    /// subject.
    #[must_use]
    pub fn limited(&self, v6_prefix: u8) -> Subject<'_> {
        match (&self.subject, self.client_ip) {
            (Some(subject), _) => Subject { kind: Cow::Borrowed(&subject.kind), id: Cow::Borrowed(&subject.id) },
            (None, Some(ip)) => Subject::from_ip(ip, v6_prefix),
            (None, None) => Subject::anonymous(),
        }
    }

    /// Whether each part is of a length that rules are made for. Ids of subjects are bounded by their type.
    ///
    /// # Errors
    /// [`TooLong`] names the first that is not.
    pub fn bounds(&self) -> Result<(), TooLong> {
        let parts = [
            ("path", self.path, MAX_PATH),
            ("host", self.host, MAX_HOST),
            ("method", self.method, MAX_METHOD),
            ("tier", self.tier, MAX_TIER),
        ];
        let long = parts.into_iter().find(|(_, part, most)| part.is_some_and(|part| part.len() > *most));
        long.map_or(Ok(()), |(what, _, most)| Err(TooLong { what: what.to_owned(), most }))
    }
}
