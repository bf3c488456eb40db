//! Matchers of header and descriptor values.

use http::{HeaderMap, HeaderName};
use regex::bytes::{Regex, RegexBuilder};

use crate::rule::{DescriptorMatch, HeaderMatch, ValueMatch};

/// The longest pattern, in bytes.
const MAX_PATTERN: usize = 512;
/// The most memory that one compiled pattern may take.
const MAX_COMPILED: usize = 256 * 1024;

/// Compiles a pattern that must match a whole value. The engine takes linear time whatever the pattern.
///
/// # Errors
/// What is wrong with it, for a person.
pub(crate) fn compile_regex(pattern: &str) -> Result<Regex, String> {
    if pattern.is_empty() || pattern.len() > MAX_PATTERN {
        return Err(format!("must have 1 to {MAX_PATTERN} bytes, not {}", pattern.len()));
    }
    // First by itself: within the group below, `a)(b` would be valid.
    build(pattern)?;
    build(&format!(r"\A(?:{pattern})\z"))
}

fn build(pattern: &str) -> Result<Regex, String> {
    let built = RegexBuilder::new(pattern).size_limit(MAX_COMPILED).dfa_size_limit(MAX_COMPILED).nest_limit(32).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "is too large a regular expression".to_owned(),
        error => format!("is not a valid regular expression: {}", error.to_string().lines().last().unwrap_or_default()),
    })
}

/// A header that a request must have.
#[derive(Debug)]
pub(crate) struct HeaderTest {
    name: HeaderName,
    value: ValueTest,
}

#[derive(Debug)]
enum ValueTest {
    Present,
    Exact(Box<[u8]>),
    Prefix(Box<[u8]>),
    Regex(Regex),
}

impl HeaderTest {
    /// Compiles a matcher.
    pub(crate) fn compile(header: &HeaderMatch) -> Result<Self, String> {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|error| error.to_string())?;
        let value = match &header.value {
            ValueMatch::Present(_) => ValueTest::Present,
            ValueMatch::Exact(text) => ValueTest::Exact(text.as_bytes().into()),
            ValueMatch::Prefix(text) => ValueTest::Prefix(text.as_bytes().into()),
            ValueMatch::Regex(pattern) => ValueTest::Regex(compile_regex(pattern)?),
        };
        Ok(Self { name, value })
    }

    /// The header's name.
    pub(crate) fn name(&self) -> &HeaderName {
        &self.name
    }

    /// The name and the value, if only one value will do.
    pub(crate) fn exact(&self) -> Option<(&HeaderName, &[u8])> {
        match &self.value {
            ValueTest::Exact(value) => Some((&self.name, value)),
            _ => None,
        }
    }

    /// Whether one of the header's lines fits.
    pub(crate) fn holds(&self, headers: &HeaderMap) -> bool {
        headers.get_all(&self.name).iter().any(|line| {
            let line = line.as_bytes();
            match &self.value {
                ValueTest::Present => true,
                ValueTest::Exact(value) => line == &**value,
                ValueTest::Prefix(prefix) => line.starts_with(prefix),
                ValueTest::Regex(regex) => regex.is_match(line),
            }
        })
    }
}

/// Whether some descriptor of the request fits.
pub(crate) fn descriptor_holds(wanted: &DescriptorMatch, descriptors: &[(&str, &str)]) -> bool {
    descriptors.iter().any(|(key, value)| *key == wanted.key && wanted.value.as_deref().is_none_or(|pattern| glob(pattern, value)))
}

/// Whether `text` fits `pattern`, in which `*` stands for any run of characters.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(head) else { return false };
    let mut pieces = rest.split('*').peekable();
    // Every piece is found at its earliest place, which leaves the most for the later ones; the last must end the text.
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return text.ends_with(piece);
        }
        match text.find(piece) {
            Some(at) => text = &text[at + piece.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_values() {
        for (pattern, text) in [("*", ""), ("*", "x"), ("a*", "a"), ("a*c", "abc"), ("a*b*c", "a-b-b-c"), ("*.js", "x.js"), ("a**b", "ab")]
        {
            assert!(glob(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("", "x"), ("a", "ab"), ("a*c", "ab"), ("a*a", "a"), ("*b*", "ac"), ("a*b*b", "ab")] {
            assert!(!glob(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn patterns_match_whole_values_and_are_bounded() {
        let regex = compile_regex("v[0-9]+|beta").unwrap();
        assert!(regex.is_match(b"v12") && regex.is_match(b"beta"));
        assert!(!regex.is_match(b"v12x") && !regex.is_match(b"xbeta") && !regex.is_match(b"v1\n"));
        for bad in ["", "(", "a)(b", "(?x) a # comment", "(a{1000}){1000}", "[", r"(?<=a)b"] {
            assert!(compile_regex(bad).is_err(), "{bad}");
        }
        assert!(compile_regex(&"a".repeat(513)).is_err());
    }

    #[test]
    fn headers_hold_on_any_of_their_lines() {
        let mut headers = HeaderMap::new();
        headers.append("x-plan", "gold".parse().unwrap());
        headers.append("x-plan", "trial-7".parse().unwrap());
        let holds = |value| HeaderTest::compile(&HeaderMatch { name: "x-plan".into(), value }).unwrap().holds(&headers);
        assert!(holds(ValueMatch::Present(true)));
        assert!(holds(ValueMatch::Exact("gold".into())) && holds(ValueMatch::Prefix("trial".into())));
        assert!(holds(ValueMatch::Regex("trial-[0-9]".into())));
        assert!(!holds(ValueMatch::Exact("Gold".into())) && !holds(ValueMatch::Prefix("old".into())));
    }
}
