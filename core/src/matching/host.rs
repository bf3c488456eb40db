//! Hosts: how a request's host is normalised, and the patterns of rules.

use std::borrow::Cow;
use std::fmt;
use std::net::Ipv6Addr;

/// A host in lower case, without user name, port and trailing dot; an IPv6 address keeps its brackets.
pub(crate) fn normalise(raw: &str) -> Cow<'_, str> {
    let raw = raw.rsplit_once('@').map_or(raw, |(_, host)| host);
    let host = match raw.rfind(':') {
        // In a bracketed address only a colon after the bracket starts a port.
        Some(colon) if !raw.starts_with('[') || raw[..colon].ends_with(']') => &raw[..colon],
        _ => raw,
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    if let Some(address) = bracketed(host) {
        return Cow::Owned(format!("[{address}]"));
    }
    if host.bytes().any(|b| b.is_ascii_uppercase()) { Cow::Owned(host.to_ascii_lowercase()) } else { Cow::Borrowed(host) }
}

fn bracketed(host: &str) -> Option<Ipv6Addr> {
    host.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// The host of a rule, in normal form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostPattern {
    /// This very host.
    Exact(String),
    /// Any host below this one: `*.example.com` holds `example.com`.
    Below(String),
}

/// A text that is not a host pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a host such as api.example.com, *.example.com, 192.0.2.1 or [2001:db8::1], without scheme, port or path (an international name in its xn-- form)"
)]
pub(crate) struct HostError;

impl HostPattern {
    /// Reads a pattern; case does not matter.
    pub(crate) fn parse(text: &str) -> Result<Self, HostError> {
        let lower = text.to_ascii_lowercase();
        if let Some(address) = bracketed(&lower) {
            return Ok(Self::Exact(format!("[{address}]")));
        }
        let (name, below) = match lower.strip_prefix("*.") {
            Some(rest) => (rest, true),
            None => (lower.as_str(), false),
        };
        let is_label =
            |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        if name.len() > 253 || !name.split('.').all(is_label) {
            return Err(HostError);
        }
        Ok(if below { Self::Below(name.to_owned()) } else { Self::Exact(name.to_owned()) })
    }

    /// Whether every host that `other` matches is matched by this one too.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b)) => a == b,
            (Self::Exact(_), Self::Below(_)) => false,
            (Self::Below(a), Self::Exact(b)) => is_below(b, a),
            (Self::Below(a), Self::Below(b)) => a == b || is_below(b, a),
        }
    }
}

fn is_below(host: &str, parent: &str) -> bool {
    host.strip_suffix(parent).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => f.write_str(host),
            Self::Below(host) => write!(f, "*.{host}"),
        }
    }
}

/// The domains above a host, nearest first: for `a.b.c` those are `b.c` and `c`.
pub(crate) fn parents(host: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(parent(host), |host| parent(host))
}

fn parent(host: &str) -> Option<&str> {
    host.split_once('.').filter(|(label, rest)| !label.is_empty() && !rest.is_empty()).map(|(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_normalised() {
        for (raw, normal) in [
            ("Api.Example.COM", "api.example.com"),
            ("api.example.com:8443", "api.example.com"),
            ("api.example.com.", "api.example.com"),
            ("api.example.com.:80", "api.example.com"),
            ("192.0.2.1:80", "192.0.2.1"),
            ("[2001:DB8::1]:443", "[2001:db8::1]"),
            ("[0::1]", "[::1]"),
            ("user@api.example.com", "api.example.com"),
            ("a:b@c@API.example.com:80", "api.example.com"),
            ("", ""),
        ] {
            assert_eq!(normalise(raw), normal);
        }
    }

    #[test]
    fn patterns_are_read_or_refused() {
        for (text, normal) in
            [("API.example.com", "api.example.com"), ("*.example.com", "*.example.com"), ("[::0001]", "[::1]"), ("localhost", "localhost")]
        {
            assert_eq!(HostPattern::parse(text).map(|host| host.to_string()).as_deref(), Ok(normal));
        }
        for bad in ["", "*", "*.", "a..b", "a*.b", "http://a", "a:80", "a/b", "b\u{fc}cher.de", "[zz]", ".a", "a.", "*.*.a"] {
            assert_eq!(HostPattern::parse(bad), Err(HostError), "{bad}");
        }
    }

    #[test]
    fn a_pattern_covers_what_is_below_it() {
        let pattern = |text| HostPattern::parse(text).unwrap();
        assert!(pattern("*.example.com").covers(&pattern("a.b.example.com")));
        assert!(pattern("*.example.com").covers(&pattern("*.b.example.com")));
        assert!(!pattern("*.example.com").covers(&pattern("example.com")));
        assert!(!pattern("*.example.com").covers(&pattern("badexample.com")));
        assert!(!pattern("a.example.com").covers(&pattern("*.example.com")));
        assert_eq!(parents("a.b.c").collect::<Vec<_>>(), ["b.c", "c"]);
    }
}
