//! Which of two rules is the more specific, as far as that does not depend on the request.

use std::hash::Hash;

use super::template::{Segment, Template};
use crate::name::Name;
use crate::rule::Rule;

/// Specificity of a rule; the greater wins. Between rules that match one path, comparing the segments from the left also puts the longer
/// literal prefix first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// Empty without a path, so that any path beats none.
    path: Vec<SegmentRank>,
    has_methods: bool,
    headers: usize,
    descriptors: usize,
    /// Last resort: the first in the alphabet.
    name: std::cmp::Reverse<Name>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum SegmentRank {
    Rest,
    Any,
    Param,
    Literal,
    /// The template ends here: `/a` beats `/a/**` for `/a`.
    End,
}

impl Rank {
    /// The rank of `rule`, whose path is `template`.
    pub(crate) fn of(rule: &Rule, template: Option<&Template>) -> Self {
        let segments = template.iter().flat_map(|template| &template.segments);
        let path = segments.map(SegmentRank::of).chain(template.map(|_| SegmentRank::End)).collect();
        Self {
            path,
            has_methods: !rule.matches.methods.is_empty(),
            headers: rule.matches.headers.len(),
            descriptors: rule.matches.descriptors.len(),
            name: std::cmp::Reverse(rule.name.clone()),
        }
    }

    /// What is compared before the names.
    pub(crate) fn without_name(&self) -> impl Eq + Hash + '_ {
        (&self.path, self.has_methods, self.headers, self.descriptors)
    }
}

impl SegmentRank {
    fn of(segment: &Segment) -> Self {
        match segment {
            Segment::Rest => Self::Rest,
            Segment::Any => Self::Any,
            Segment::Param(_) => Self::Param,
            Segment::Literal(_) => Self::Literal,
        }
    }
}

/// How specific the host pattern was through which a rule matched: none, `*.suffix` by its length, exact.
pub(crate) type HostRank = u32;
/// A rule without hosts.
pub(crate) const ANY_HOST: HostRank = 0;
/// The very host.
pub(crate) const EXACT_HOST: HostRank = HostRank::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Rule;

    fn rank(name: &str, document: &str) -> Rank {
        let value: serde_json::Value =
            serde_saphyr::from_str(&format!("{{name: {name}, match: {document}, key: [], limits: {{'*': {{limit: 1, window: 1s}}}}}}"))
                .unwrap();
        let mut mistakes = crate::mistake::Mistakes::new();
        let rule: Rule = crate::config::read::rule(&value, "", &mut mistakes).unwrap_or_else(|| panic!("{mistakes}"));
        let template = rule.matches.path.as_deref().map(|path| Template::parse(path).unwrap());
        Rank::of(&rule, template.as_ref())
    }

    #[test]
    fn the_more_specific_ranks_higher() {
        let order = [
            "{}",
            "{path: /**}",
            "{path: '/*/**'}",
            "{path: '/*'}",
            "{path: '/{x}'}",
            "{path: /a/**}",
            "{path: '/a/*'}",
            "{path: '/a/{x}'}",
            "{path: /a/b}",
            "{path: /a/b, descriptors: [{key: k}]}",
            "{path: /a/b, headers: [{name: h, present: true}]}",
            "{path: /a/b, headers: [{name: h, present: true}, {name: i, present: true}]}",
            "{path: /a/b, methods: [GET]}",
            "{path: /a}",
        ];
        for pair in order.windows(2) {
            assert!(rank("a", pair[0]) < rank("a", pair[1]), "{pair:?}");
        }
        let (a, b) = (rank("a", "{}"), rank("b", "{}"));
        assert!(b < a && b.without_name() == a.without_name());
    }
}
