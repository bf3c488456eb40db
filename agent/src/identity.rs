//! Who calls, as far as the settings believe it: subject and tier from headers that the settings name, the address past trusted proxies.

use std::net::{IpAddr, SocketAddr};

use axum::extract::ConnectInfo;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue};
use weir_core::client_ip::ClientIp;
use weir_core::subject::{Kind, MAX_ID_LENGTH, Subject, USER};

/// Which of a request's own words count.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// The header that names the subject; none: the subject is the client's address.
    pub subject_header: Option<HeaderName>,
    /// What that header names; none: its value is `kind:id`, or the id of a user.
    pub subject_kind: Option<Kind>,
    /// The header that names the tier; none: the default tier.
    pub tier_header: Option<HeaderName>,
    /// How the client's address is found.
    pub client_ip: ClientIp,
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller<'a> {
    /// The subject, if a header names one.
    pub subject: Option<Subject<'a>>,
    /// The tier, if a header names one.
    pub tier: Option<&'a str>,
    /// The client's address, if the connection has one.
    pub client_ip: Option<IpAddr>,
    /// Whether the peer is a proxy whose forwarding headers count.
    pub trusted: bool,
}

/// Why it cannot be told who calls: the request is answered 400, since guessing would charge somebody else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// A header that has one value came more than once: one of them may be the client's own.
    #[error("the header {0} must not be repeated")]
    Repeated(HeaderName),
    /// The subject is longer than any id may be. It is not cut: two long ids with one beginning must not fall together.
    #[error("the header {0} names a subject of more than {MAX_ID_LENGTH} bytes")]
    SubjectTooLong(HeaderName),
    /// The subject has a kind and no id.
    #[error("the header {0} names a subject without an id")]
    NoId(HeaderName),
}

impl Identity {
    /// Who sends `headers` from `peer`.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn caller<'a>(&'a self, peer: Option<IpAddr>, headers: &'a HeaderMap) -> Result<Caller<'a>, IdentityError> {
        let subject = match &self.subject_header {
            Some(name) => subject(name, self.subject_kind.as_ref(), headers)?,
            None => None,
        };
        let tier = match &self.tier_header {
            // No tier has such a name: it counts as unknown.
            Some(name) => single(name, headers)?.map(|value| std::str::from_utf8(value.as_bytes()).unwrap_or("\u{fffd}")),
            None => None,
        };
        let resolved = peer.map(|peer| self.client_ip.resolve(peer, headers));
        if resolved.is_some_and(|resolved| resolved.malformed) {
            tracing::debug!(?peer, "a trusted proxy sent a forwarding header that cannot be read to its end");
        }
        let trusted = peer.is_some_and(|peer| self.client_ip.trusts(peer));
        Ok(Caller { subject, tier, client_ip: resolved.map(|resolved| resolved.ip), trusted })
    }
}

/// The value of a header that may come once. An empty one is as good as none.
///
/// # Errors
/// [`IdentityError::Repeated`].
pub fn single<'a>(name: &HeaderName, headers: &'a HeaderMap) -> Result<Option<&'a HeaderValue>, IdentityError> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|value| !value.is_empty());
    if values.next().is_some() { Err(IdentityError::Repeated(name.clone())) } else { Ok(value) }
}

/// Ids are bytes: one that is not UTF-8 is a subject of its own, never an error and never another's.
fn subject<'a>(name: &HeaderName, kind: Option<&'a Kind>, headers: &'a HeaderMap) -> Result<Option<Subject<'a>>, IdentityError> {
    let Some(value) = single(name, headers)? else { return Ok(None) };
    let subject = match (kind, std::str::from_utf8(value.as_bytes())) {
        (Some(kind), _) => Subject::new(kind.as_str(), value.as_bytes()),
        (None, Ok(text)) => Subject::parse(text),
        (None, Err(_)) => Subject::new(USER, value.as_bytes()),
    };
    let why = if value.len() > MAX_ID_LENGTH { IdentityError::SubjectTooLong } else { IdentityError::NoId };
    subject.map(Some).ok_or_else(|| why(name.clone()))
}

/// The address of the connection's other end, as the server that accepted it noted.
#[must_use]
pub fn peer(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        let header = |name| Some(HeaderName::from_static(name));
        Identity { subject_header: header("x-user-id"), tier_header: header("x-tier"), ..Identity::default() }
    }

    fn headers(values: &[(&'static str, &[u8])]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in values {
            headers.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    /// BB-56: ids of every alphabet, and of none, are told apart byte by byte.
    #[test]
    fn bb_56_ids_are_bytes() {
        let ids: [&[u8]; 8] =
            ["日本語".as_bytes(), "中文字".as_bytes(), "😀".as_bytes(), "😁".as_bytes(), b"a b", b"a\tb", b"\xff\xfe", b"%FF%FE"];
        let mut seen = std::collections::HashSet::new();
        for id in ids {
            let headers = headers(&[("x-user-id", id)]);
            let subject = identity().caller(None, &headers).unwrap().subject.unwrap().into_owned();
            assert_eq!((&*subject.kind, &*subject.id), (USER, id));
            assert!(seen.insert(subject));
        }
    }

    #[test]
    fn only_named_headers_speak_and_only_once() {
        let given = headers(&[("x-user-id", b"key:7"), ("x-tier", b"paid"), ("x-forwarded-for", b"192.0.2.1")]);
        let peer = Some(IpAddr::from([198, 51, 100, 1]));
        let identity = identity();
        let caller = identity.caller(peer, &given).unwrap();
        assert_eq!(caller.subject, Subject::new("key", b"7"));
        assert_eq!((caller.tier, caller.client_ip, caller.trusted), (Some("paid"), peer, false));
        let default = Identity::default();
        let nobody = default.caller(peer, &given).unwrap();
        assert_eq!((nobody.subject, nobody.tier), (None, None));
        let twice = headers(&[("x-user-id", b"1"), ("x-user-id", b"2")]);
        assert!(matches!(identity.caller(peer, &twice), Err(IdentityError::Repeated(_))));
        let long = headers(&[("x-user-id", &[b'a'; MAX_ID_LENGTH + 1])]);
        assert!(matches!(identity.caller(peer, &long), Err(IdentityError::SubjectTooLong(_))));
        let no_id = headers(&[("x-user-id", b"user:")]);
        assert!(matches!(identity.caller(peer, &no_id), Err(IdentityError::NoId(_))));
        let empty = headers(&[("x-user-id", b""), ("x-tier", b"")]);
        let caller = identity.caller(peer, &empty).unwrap();
        assert_eq!((caller.subject, caller.tier), (None, None));
    }

    /// Where the header's kind is fixed, no id can pose as a subject of another kind.
    #[test]
    fn a_fixed_kind_takes_the_whole_value_as_id() {
        let identity = Identity { subject_kind: Some("tenant".parse().unwrap()), ..identity() };
        for id in ["7", "ip:192.0.2.1", "key:7", "user:", ":"] {
            let headers = headers(&[("x-user-id", id.as_bytes())]);
            assert_eq!(identity.caller(None, &headers).unwrap().subject, Subject::new("tenant", id.as_bytes()));
        }
        for bad in ["ip", "anonymous", "", "Tenant", "a b", "a:"] {
            assert!(bad.parse::<Kind>().is_err(), "{bad}");
        }
    }
}
