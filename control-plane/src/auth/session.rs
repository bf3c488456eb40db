//! The dashboard's cookie.

use std::time::Duration;

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

/// The cookie's name.
pub const COOKIE_NAME: &str = "weir_session";
/// How long a session lasts after sign-in.
pub const LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// The session cookie of a request.
#[must_use]
pub fn cookie(headers: &HeaderMap) -> Option<String> {
    let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(';'));
    let mut values = pairs.filter_map(|pair| pair.trim().split_once('=')).filter(|(name, _)| *name == COOKIE_NAME);
    values.next().map(|(_, value)| value.to_owned())
}

/// `Set-Cookie` for a new session, or for its end (`None`). `Secure` where people reach the dashboard by https.
#[must_use]
pub fn set_cookie(secret: Option<&str>, public_url: &str) -> Option<HeaderValue> {
    let age = if secret.is_some() { LIFETIME.as_secs() } else { 0 };
    let secure = if public_url.starts_with("https://") { "; Secure" } else { "" };
    let text = format!("{COOKIE_NAME}={}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age}{secure}", secret.unwrap_or_default());
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
        assert_eq!(cookie(&headers), None);
        headers.append(COOKIE, HeaderValue::from_static("a=b; xweir_session=no"));
        headers.append(COOKIE, HeaderValue::from_static("c=d; weir_session=yes; e=f"));
        assert_eq!(cookie(&headers).as_deref(), Some("yes"));
    }

    #[test]
    fn the_cookie_cannot_be_read_by_scripts_nor_sent_from_elsewhere() {
        let text = |secret, url| set_cookie(secret, url).unwrap().to_str().unwrap().to_owned();
        assert_eq!(text(Some("x"), "http://127.0.0.1:7070"), "weir_session=x; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200");
        assert!(text(Some("x"), "https://weir.example").ends_with("; Secure"));
        assert!(text(None, "http://127.0.0.1:7070").contains("Max-Age=0"));
    }
}
