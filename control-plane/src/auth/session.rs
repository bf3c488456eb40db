//! The dashboard's cookie.

use std::time::Duration;

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

/// The cookie's name.
pub const COOKIE_NAME: &str = "weir_session";
/// Its name where people reach the dashboard by https: browsers take it only from us, not from another host of our domain.
const HOST_COOKIE_NAME: &str = "__Host-weir_session";
/// How long a session lasts after sign-in.
pub const LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// The session cookie of a request.
#[must_use]
pub fn cookie(headers: &HeaderMap, public_url: &str) -> Option<String> {
    let own = name(public_url);
    let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(';'));
    let mut values = pairs.filter_map(|pair| pair.trim().split_once('=')).filter(|(name, _)| *name == own);
    values.next().map(|(_, value)| value.to_owned())
}

fn is_https(public_url: &str) -> bool {
    public_url.starts_with("https://")
}

fn name(public_url: &str) -> &'static str {
    if is_https(public_url) { HOST_COOKIE_NAME } else { COOKIE_NAME }
}

/// `Set-Cookie` for a new session, or for its end (`None`). `Secure` where people reach the dashboard by https.
#[must_use]
pub fn set_cookie(secret: Option<&str>, public_url: &str) -> Option<HeaderValue> {
    let age = if secret.is_some() { LIFETIME.as_secs() } else { 0 };
    let secure = if is_https(public_url) { "; Secure" } else { "" };
    let text = format!("{}={}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age}{secure}", name(public_url), secret.unwrap_or_default());
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        let (http, https) = ("http://127.0.0.1:7070", "https://weir.example");
        assert_eq!(cookie(&headers, http), None);
        headers.append(COOKIE, HeaderValue::from_static("a=b; xweir_session=no"));
        headers.append(COOKIE, HeaderValue::from_static("c=d; weir_session=yes; e=f"));
        assert_eq!(cookie(&headers, http).as_deref(), Some("yes"));
        assert_eq!(cookie(&headers, https), None, "another host of the domain may have set it");
        headers.append(COOKIE, HeaderValue::from_static("__Host-weir_session=ours"));
        assert_eq!(cookie(&headers, https).as_deref(), Some("ours"));
    }

    #[test]
    fn the_cookie_cannot_be_read_by_scripts_nor_sent_from_elsewhere() {
        let text = |secret, url| set_cookie(secret, url).unwrap().to_str().unwrap().to_owned();
        assert_eq!(text(Some("x"), "http://127.0.0.1:7070"), "weir_session=x; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200");
        let secure = text(Some("x"), "https://weir.example");
        assert!(secure.starts_with("__Host-weir_session=x; ") && secure.ends_with("; Secure"), "{secure}");
        assert!(text(None, "http://127.0.0.1:7070").contains("Max-Age=0"));
    }
}
