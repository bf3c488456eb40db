//! What a gateway says was asked of it, in forwarding headers that count only from a trusted peer.

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::identity::{self, IdentityError};
use crate::settings::Forwarded;

const X_FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const X_FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");
const X_ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");

/// What was asked of the gateway; `None`: the gateway does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Original<'a> {
    pub(super) method: Option<&'a str>,
    pub(super) host: Option<&'a str>,
    pub(super) path: Option<&'a str>,
}

/// Why the forwarding headers cannot be believed (400): one of them may be the client's own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ForwardedError {
    #[error(transparent)]
    Repeated(#[from] IdentityError),
    #[error("the header {0} is not valid")]
    Invalid(HeaderName),
    #[error("X-Forwarded-* and X-Original-* came together; name the family that the gateway sets in the agent's settings (forwarded)")]
    Ambiguous,
}

/// Reads the headers of a trusted peer.
pub(super) fn original(family: Forwarded, headers: &HeaderMap) -> Result<Original<'_>, ForwardedError> {
    let has = |names: &[HeaderName]| names.iter().any(|name| headers.contains_key(name));
    let forwarded = has(&[X_FORWARDED_METHOD, X_FORWARDED_URI, X_FORWARDED_HOST]);
    let nginx = has(&[X_ORIGINAL_METHOD, X_ORIGINAL_URI]);
    match (family, forwarded, nginx) {
        (Forwarded::Auto, true, true) => Err(ForwardedError::Ambiguous),
        (Forwarded::XForwarded, ..) | (Forwarded::Auto, true, false) => Ok(Original {
            method: method(&X_FORWARDED_METHOD, headers)?,
            host: text(&X_FORWARDED_HOST, headers, |host| !host.contains([',', ' ', '/', '@']))?,
            path: text(&X_FORWARDED_URI, headers, |_| true)?,
        }),
        (Forwarded::XOriginal, ..) | (Forwarded::Auto, false, true) => {
            Ok(Original { method: method(&X_ORIGINAL_METHOD, headers)?, host: None, path: text(&X_ORIGINAL_URI, headers, |_| true)? })
        }
        (Forwarded::Auto, false, false) => Ok(Original::default()),
    }
}

fn method<'a>(name: &HeaderName, headers: &'a HeaderMap) -> Result<Option<&'a str>, ForwardedError> {
    text(name, headers, |method| Method::from_bytes(method.as_bytes()).is_ok())
}

fn text<'a>(name: &HeaderName, headers: &'a HeaderMap, valid: impl Fn(&str) -> bool) -> Result<Option<&'a str>, ForwardedError> {
    let read = |value: &'a HeaderValue| std::str::from_utf8(value.as_bytes()).ok().filter(|text| valid(text));
    let value = identity::single(name, headers)?;
    value.map(|value| read(value).ok_or_else(|| ForwardedError::Invalid(name.clone()))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in values {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn each_family_is_read_by_its_own_names() {
        let traefik = headers(&[("x-forwarded-method", "POST"), ("x-forwarded-uri", "/a?b"), ("x-forwarded-host", "api:8443")]);
        let expected = Original { method: Some("POST"), host: Some("api:8443"), path: Some("/a?b") };
        assert_eq!(original(Forwarded::Auto, &traefik), Ok(expected));
        assert_eq!(original(Forwarded::XForwarded, &traefik), Ok(expected));
        assert_eq!(original(Forwarded::XOriginal, &traefik), Ok(Original::default()));
        let nginx = headers(&[("x-original-uri", "/a"), ("x-original-method", "PUT")]);
        let expected = Original { method: Some("PUT"), host: None, path: Some("/a") };
        assert_eq!(original(Forwarded::Auto, &nginx), Ok(expected));
        assert_eq!(original(Forwarded::XOriginal, &nginx), Ok(expected));
    }

    /// BB-31: what a client adds to the gateway's own headers is ignored or refused, never believed.
    #[test]
    fn bb_31_a_clients_own_headers_are_never_believed() {
        let mixed = headers(&[("x-original-uri", "/expensive"), ("x-forwarded-uri", "/cheap"), ("x-forwarded-method", "GET")]);
        assert_eq!(original(Forwarded::Auto, &mixed), Err(ForwardedError::Ambiguous));
        assert_eq!(original(Forwarded::XOriginal, &mixed).unwrap().path, Some("/expensive"));
        let twice = headers(&[("x-forwarded-uri", "/cheap"), ("x-forwarded-uri", "/expensive")]);
        assert!(matches!(original(Forwarded::Auto, &twice), Err(ForwardedError::Repeated(_))));
        // Names are exact: an underscore is not a dash.
        let folded = headers(&[("x_forwarded_uri", "/cheap"), ("x-forwarded-prefix", "/cheap"), ("x-original-url", "/cheap")]);
        assert_eq!(original(Forwarded::Auto, &folded), Ok(Original::default()));
        for (name, value) in [("x-forwarded-method", "GE T"), ("x-forwarded-host", "a, b"), ("x-forwarded-host", "x@api.example.com")] {
            assert!(matches!(original(Forwarded::Auto, &headers(&[(name, value)])), Err(ForwardedError::Invalid(_))), "{name}");
        }
    }
}
