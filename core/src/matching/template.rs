//! Path templates: `/users/{id}/posts`, `/files/*/raw`, `/static/**`.

use crate::path;
use crate::rule::KeyPart;

/// The longest template, in characters.
const MAX_LENGTH: usize = 1_024;
/// The most segments.
const MAX_SEGMENTS: usize = 64;
/// The longest name of a parameter.
const MAX_PARAM: usize = 64;

/// One segment of a template. The order is that of precedence: the later beats the earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    /// `**`: the rest of the path, which may be nothing. Only at the end.
    Rest,
    /// `*`: any one segment.
    Any,
    /// `{name}`: any one segment, which keys can name.
    Param(String),
    /// This very segment, in normal form.
    Literal(String),
}

/// A template that a rule matches paths with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    /// The segments; none for `/`.
    pub(crate) segments: Vec<Segment>,
}

/// Why a text is not a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error("must have at most {MAX_LENGTH} characters and {MAX_SEGMENTS} segments")]
    TooLong,
    #[error("must start with '/'")]
    NoSlash,
    #[error("must not have empty segments or a slash at the end (a request's are ignored)")]
    EmptySegment,
    #[error("'**' must be the last segment")]
    RestNotLast,
    #[error("the segment {0:?} must be a text, *, **, or {{name}} of at most {MAX_PARAM} letters, digits and '_'")]
    Segment(String),
    #[error("the parameter {{{0}}} is named twice")]
    TwiceNamed(String),
    #[error("requests never have the segment {written:?} once they are normalised; write {normal:?}")]
    NotNormal { written: String, normal: String },
}

impl Template {
    /// Reads a template.
    pub(crate) fn parse(text: &str) -> Result<Self, TemplateError> {
        let rest = text.strip_prefix('/').ok_or(TemplateError::NoSlash)?;
        if text.chars().count() > MAX_LENGTH {
            return Err(TemplateError::TooLong);
        }
        if rest.is_empty() {
            return Ok(Self { segments: Vec::new() });
        }
        let segments: Vec<Segment> = rest.split('/').map(segment).collect::<Result<_, _>>()?;
        if segments.len() > MAX_SEGMENTS {
            return Err(TemplateError::TooLong);
        }
        if segments.iter().rev().skip(1).any(|segment| *segment == Segment::Rest) {
            return Err(TemplateError::RestNotLast);
        }
        for (i, segment) in segments.iter().enumerate() {
            if let Segment::Param(name) = segment
                && segments[..i].contains(segment)
            {
                return Err(TemplateError::TwiceNamed(name.clone()));
            }
        }
        Ok(Self { segments })
    }

    /// The position of the segment that `{name}` stands for.
    pub(crate) fn param(&self, name: &str) -> Option<usize> {
        self.segments.iter().position(|segment| matches!(segment, Segment::Param(param) if param == name))
    }

    /// Whether every path that `other` matches is matched by this one too.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let mut others = other.segments.iter();
        for segment in &self.segments {
            let covered = match (segment, others.next()) {
                (Segment::Rest, _) => return true,
                (Segment::Any | Segment::Param(_), Some(Segment::Any | Segment::Param(_) | Segment::Literal(_))) => true,
                (Segment::Literal(a), Some(Segment::Literal(b))) => a == b,
                _ => false,
            };
            if !covered {
                return false;
            }
        }
        others.next().is_none()
    }

    /// Whether some path is matched by both.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let (mut left, mut right) = (self.segments.iter(), other.segments.iter());
        loop {
            match (left.next(), right.next()) {
                (Some(Segment::Rest), _) | (_, Some(Segment::Rest)) | (None, None) => return true,
                (Some(Segment::Literal(a)), Some(Segment::Literal(b))) if a != b => return false,
                (Some(_), Some(_)) => {}
                (None, Some(_)) | (Some(_), None) => return false,
            }
        }
    }
}

fn segment(text: &str) -> Result<Segment, TemplateError> {
    match text {
        "" => return Err(TemplateError::EmptySegment),
        "*" => return Ok(Segment::Any),
        "**" => return Ok(Segment::Rest),
        _ => {}
    }
    if let Some(name) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        let fits = (1..=MAX_PARAM).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        return if fits { Ok(Segment::Param(name.to_owned())) } else { Err(TemplateError::Segment(text.to_owned())) };
    }
    if text.contains(['{', '}', '*', '?', '#']) {
        return Err(TemplateError::Segment(text.to_owned()));
    }
    let path = format!("/{text}");
    let normal = path::normalise(&path).map_err(|_| TemplateError::Segment(text.to_owned()))?;
    match &normal[1..] {
        "" => Err(TemplateError::Segment(text.to_owned())),
        normal if normal == text => Ok(Segment::Literal(text.to_owned())),
        normal => Err(TemplateError::NotNormal { written: text.to_owned(), normal: normal.to_owned() }),
    }
}

/// What a key part needs from the rule's path and does not find there.
pub(crate) fn missing(part: &KeyPart, template: Option<&Template>) -> Option<String> {
    match part {
        KeyPart::Route if template.is_none() => Some("needs a path in match".to_owned()),
        KeyPart::Param(name) if template.and_then(|template| template.param(name)).is_none() => {
            Some(format!("needs a segment {{{name}}} in match.path"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_read_or_refused() {
        let template = Template::parse("/users/{id}/*/**").unwrap();
        assert_eq!(template.segments, [Segment::Literal("users".into()), Segment::Param("id".into()), Segment::Any, Segment::Rest]);
        assert_eq!((template.param("id"), template.param("x")), (Some(1), None));
        assert!(Template::parse("/").unwrap().segments.is_empty());
        for (bad, error) in [
            ("", "must start with '/'"),
            ("a/b", "must start with '/'"),
            ("/a/", "must not have empty segments or a slash at the end (a request's are ignored)"),
            ("//a", "must not have empty segments or a slash at the end (a request's are ignored)"),
            ("/**/a", "'**' must be the last segment"),
            ("/{a}/{a}", "the parameter {a} is named twice"),
            ("/caf\u{e9}", "requests never have the segment \"caf\u{e9}\" once they are normalised; write \"caf%C3%A9\""),
            ("/%61", "requests never have the segment \"%61\" once they are normalised; write \"a\""),
            ("/a;b", "requests never have the segment \"a;b\" once they are normalised; write \"a\""),
        ] {
            assert_eq!(Template::parse(bad).unwrap_err().to_string(), error, "{bad}");
        }
        for bad in ["/{}", "/{a-b}", "/{a", "/x{a}", "/a*", "/***", "/..", "/.", "/a?b", "/a#b", "/%", "/;x"] {
            assert!(matches!(Template::parse(bad), Err(TemplateError::Segment(_))), "{bad}: {:?}", Template::parse(bad));
        }
        assert_eq!(Template::parse(&"/a".repeat(65)), Err(TemplateError::TooLong));
        assert_eq!(Template::parse(&format!("/{}", "a".repeat(1_024))), Err(TemplateError::TooLong));
    }

    #[test]
    fn covering_and_overlapping() {
        let template = |text| Template::parse(text).unwrap();
        for (wide, narrow) in
            [("/**", "/a/{x}"), ("/**", "/"), ("/a/*", "/a/{x}"), ("/a/{x}", "/a/b"), ("/a/**", "/a"), ("/a/**", "/a/*/**")]
        {
            assert!(template(wide).covers(&template(narrow)), "{wide} {narrow}");
            assert!(template(wide).overlaps(&template(narrow)), "{wide} {narrow}");
        }
        for (a, b) in [("/a", "/b"), ("/a/*", "/a"), ("/a/{x}", "/a/*/c"), ("/a/b/**", "/a/c/**")] {
            assert!(!template(a).covers(&template(b)) && !template(a).overlaps(&template(b)), "{a} {b}");
        }
        assert!(template("/a/*/c").overlaps(&template("/*/b/c")));
        assert!(!template("/a/*/c").covers(&template("/*/b/c")));
        assert!(!template("/a/*").covers(&template("/a/**")));
    }
}
