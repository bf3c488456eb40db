//! One spelling for each resource: paths are normalised before rules look at them, for matching and keys only, never for forwarding.
//!
//! In this order: the query and the fragment are cut off, a target in absolute form loses scheme and authority; control characters and
//! broken percent-escapes are refused; escapes of characters that mean the same when written plainly are decoded, once, and characters
//! that need an escape get one, in upper case; each segment loses its `;parameters`; empty segments and dot segments are resolved; a
//! trailing slash is ignored. `%2F` and `%5C` stay escaped: they are data within a segment. Letters keep their case.

use std::borrow::Cow;

/// Why a path cannot be normalised; such a request is answered 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Neither `/...` nor a target in absolute form.
    #[error("it does not start with '/'")]
    NoSlash,
    /// A `%` without two hex digits.
    #[error("it has a '%' without two hex digits after it")]
    Escape,
    /// A control character, or an escaped NUL.
    #[error("it has a control character")]
    Control,
}

/// The normalised form of `raw`; borrowed if it is normal already.
///
/// # Errors
/// [`PathError`] says what is wrong with it.
pub fn normalise(raw: &str) -> Result<Cow<'_, str>, PathError> {
    let path = cut(raw)?;
    if is_normal(path) { Ok(Cow::Borrowed(path)) } else { rewrite(path).map(Cow::Owned) }
}

/// The path alone, `/` for an empty one and for the `*` of `OPTIONS *`.
fn cut(raw: &str) -> Result<&str, PathError> {
    let end = raw.find(['?', '#']).unwrap_or(raw.len());
    let target = &raw[..end];
    if target.starts_with('/') {
        return Ok(target);
    }
    if target.is_empty() || target == "*" {
        return Ok("/");
    }
    let (scheme, rest) = target.split_once("://").ok_or(PathError::NoSlash)?;
    let is_scheme =
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    if !is_scheme {
        return Err(PathError::NoSlash);
    }
    Ok(rest.find('/').map_or("/", |slash| &rest[slash..]))
}

/// Characters of a segment that are written plainly: unreserved, most sub-delimiters, `:` and `@` (RFC 3986, `pchar`). Not `;`, which
/// starts parameters.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b'=' | b':' | b'@')
}

fn is_normal(path: &str) -> bool {
    path == "/" || path.bytes().all(|b| is_plain(b) || b == b'/') && path.split('/').skip(1).all(|s| !matches!(s, "" | "." | ".."))
}

fn rewrite(path: &str) -> Result<String, PathError> {
    let decoded = unify_escapes(path)?;
    let mut kept: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        match segment.split(';').next().unwrap_or_default() {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            name => kept.push(name),
        }
    }
    Ok(format!("/{}", kept.join("/")))
}

/// Decodes what needs no escape, escapes what does, and writes the other escapes in upper case. One pass: nothing is decoded twice.
fn unify_escapes(path: &str) -> Result<String, PathError> {
    let bytes = path.as_bytes();
    let mut out = String::with_capacity(path.len() + 8);
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'%' => {
                let value = escaped(bytes.get(at..at + 2))?;
                at += 2;
                if is_plain(value) { out.push(char::from(value)) } else { escape(&mut out, value) }
            }
            0..0x20 | 0x7F => return Err(PathError::Control),
            b'/' | b';' => out.push(char::from(byte)),
            _ if is_plain(byte) => out.push(char::from(byte)),
            _ => escape(&mut out, byte),
        }
    }
    Ok(out)
}

fn escaped(digits: Option<&[u8]>) -> Result<u8, PathError> {
    let value = digits.and_then(|d| Some((hex(*d.first()?)? << 4) | hex(*d.get(1)?)?)).ok_or(PathError::Escape)?;
    if value == 0 { Err(PathError::Control) } else { Ok(value) }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

fn escape(out: &mut String, byte: u8) {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    out.push('%');
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 15)]);
}

/// The segments of a normalised path; none for `/`.
pub fn segments(normal: &str) -> impl Iterator<Item = &str> {
    normal.split('/').filter(|segment| !segment.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BB-29: every spelling that an upstream may take for the same resource has one normal form, and nothing is decoded twice.
    #[test]
    fn bb_29_every_spelling_has_one_normal_form() {
        let table = [
            ("/", "/"),
            ("", "/"),
            ("*", "/"),
            ("/api/clients", "/api/clients"),
            ("/api/clients/", "/api/clients"),
            ("//api/clients", "/api/clients"),
            ("/api//clients//", "/api/clients"),
            ("/api/./clients", "/api/clients"),
            ("/api/clients/.", "/api/clients"),
            ("/api/x/../clients", "/api/clients"),
            ("/api/%2e%2E/api/clients", "/api/clients"),
            ("/../../api/clients", "/api/clients"),
            ("/..", "/"),
            ("/api/%63lients", "/api/clients"),
            ("/api/clients?a=b", "/api/clients"),
            ("/api/clients?a=/../b", "/api/clients"),
            ("/api/clients#f", "/api/clients"),
            ("?a=b", "/"),
            ("/api/clients;v=1", "/api/clients"),
            ("/api;a=b;c/clients", "/api/clients"),
            ("/api/x/..;/clients", "/api/clients"),
            ("/api/;x/clients", "/api/clients"),
            ("http://host/api/clients", "/api/clients"),
            ("HTTPS://host:8443/api/clients?x", "/api/clients"),
            ("http://host", "/"),
            ("http://host?a=/b", "/"),
            ("//host/api", "/host/api"),
            ("/API/clients", "/API/clients"),
            ("/a%2fb", "/a%2Fb"),
            ("/a%5cb", "/a%5Cb"),
            ("/a\\b", "/a%5Cb"),
            ("/a%3bb", "/a%3Bb"),
            ("/%252e%252e/a", "/%252e%252e/a"),
            ("/%2561", "/%2561"),
            ("/users/%40me", "/users/@me"),
            ("/a b", "/a%20b"),
            ("/caf\u{e9}", "/caf%C3%A9"),
            ("/caf%c3%a9", "/caf%C3%A9"),
            ("/%C0%AE%C0%AE/a", "/%C0%AE%C0%AE/a"),
            ("/\u{ff0f}a", "/%EF%BC%8Fa"),
            ("/{id}", "/%7Bid%7D"),
            ("/.../a", "/.../a"),
            ("/a/.hidden", "/a/.hidden"),
        ];
        for (raw, normal) in table {
            assert_eq!(normalise(raw).as_deref(), Ok(normal), "{raw}");
            assert_eq!(normalise(normal).as_deref(), Ok(normal), "{raw}: the normal form is stable");
        }
    }

    #[test]
    fn broken_paths_are_refused() {
        for (raw, error) in [
            ("api", PathError::NoSlash),
            ("host:443", PathError::NoSlash),
            ("1http://host/a", PathError::NoSlash),
            ("/%", PathError::Escape),
            ("/%4", PathError::Escape),
            ("/%zz", PathError::Escape),
            ("/%+1", PathError::Escape),
            ("/%00", PathError::Control),
            ("/a\0b", PathError::Control),
            ("/a\r\nb", PathError::Control),
            ("/a\u{7f}", PathError::Control),
        ] {
            assert_eq!(normalise(raw), Err(error), "{raw:?}");
        }
    }

    #[test]
    fn a_normal_path_is_borrowed() {
        for raw in ["/", "/api/search", "/api/search?q=1", "http://host/api/v1.2/@me:x"] {
            assert!(matches!(normalise(raw), Ok(Cow::Borrowed(_))), "{raw}");
        }
    }

    proptest::proptest! {
        #[test]
        fn normal_forms_are_stable_and_clean(raw in "/[a-c/.;%25eE2fF ]{0,24}") {
            if let Ok(normal) = normalise(&raw) {
                let again = normalise(&normal);
                proptest::prop_assert_eq!(again.as_deref(), Ok(&*normal));
                proptest::prop_assert!(segments(&normal).all(|s| s != "." && s != ".." && !s.contains(';')));
                proptest::prop_assert!(!normal.contains("//") && (normal == "/" || !normal.ends_with('/')));
            }
        }
    }
}
