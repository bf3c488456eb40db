//! Requests that change something and come with a cookie must come from our own pages.
//!
//! The cookie is `SameSite=Strict` already; this holds where another site shares our registrable domain, and in browsers that err.

use http::HeaderMap;
use http::header::{HOST, ORIGIN};

use crate::http::problem::Problem;

/// That the browser says the request comes from our own origin: by `Sec-Fetch-Site`, else by `Origin`. Every current browser sends one of
/// the two with such requests; a request without either is refused.
///
/// # Errors
/// 403.
pub fn check(headers: &HeaderMap, public_url: &str) -> Result<(), Problem> {
    if is_own(headers, public_url) == Some(true) {
        Ok(())
    } else {
        Err(Problem::forbidden("the request does not come from the dashboard itself"))
    }
}

/// That the browser does not say that the request comes from elsewhere; programs say nothing.
///
/// # Errors
/// 403.
pub fn check_if_told(headers: &HeaderMap, public_url: &str) -> Result<(), Problem> {
    if is_own(headers, public_url) == Some(false) { Err(Problem::forbidden("the request comes from another site")) } else { Ok(()) }
}

/// Whether the request comes from our own origin; `None`: it does not say.
fn is_own(headers: &HeaderMap, public_url: &str) -> Option<bool> {
    if let Some(site) = headers.get("sec-fetch-site") {
        return Some(site == "same-origin" || site == "none");
    }
    let origin = headers.get(ORIGIN)?.to_str().unwrap_or_default();
    let host = headers.get(HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
    let same_host = origin.split_once("://").is_some_and(|(_, authority)| !host.is_empty() && authority.eq_ignore_ascii_case(host));
    Some(origin == public_url || same_host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn only_our_own_pages_may_change_things() {
        let url = "https://weir.example";
        for (pairs, own) in [
            (&[("sec-fetch-site", "same-origin")][..], Some(true)),
            (&[("sec-fetch-site", "same-site"), ("origin", "https://weir.example")], Some(false)),
            (&[("sec-fetch-site", "cross-site")], Some(false)),
            (&[("origin", "https://weir.example")], Some(true)),
            (&[("origin", "http://127.0.0.1:7070"), ("host", "127.0.0.1:7070")], Some(true)),
            (&[("origin", "https://evil.example"), ("host", "weir.example")], Some(false)),
            (&[("origin", "null"), ("host", "weir.example")], Some(false)),
            (&[("host", "weir.example")], None),
        ] {
            let headers = headers(pairs);
            assert_eq!(is_own(&headers, url), own, "{pairs:?}");
            assert_eq!(check(&headers, url).is_ok(), own == Some(true));
            assert_eq!(check_if_told(&headers, url).is_ok(), own != Some(false));
        }
    }
}
