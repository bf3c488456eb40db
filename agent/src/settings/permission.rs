//! What a listener serves besides check, peek, acquire and release, which every listener does.

use std::fmt;

/// What changes counters other than by a decision. Whoever may do so can lift any limit, so a listener serves it only where its settings
/// name it, and only over a Unix socket or to callers with the listener's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Permission {
    /// `POST /v1/record`: consume without deciding.
    Record,
    /// `POST /v1/refund`: give units back.
    Refund,
    /// `POST /v1/reset`: clear counters.
    Reset,
    /// The field `limits` of a question: other limits than those of the rules.
    Limits,
}

impl Permission {
    /// Every permission.
    pub const ALL: [Self; 4] = [Self::Record, Self::Refund, Self::Reset, Self::Limits];

    /// The name in settings and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Refund => "refund",
            Self::Reset => "reset",
            Self::Limits => "limits",
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of permissions; by default none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Permissions(u8);

impl Permissions {
    /// No permission.
    pub const NONE: Self = Self(0);

    /// All of them.
    #[must_use]
    pub fn all() -> Self {
        Permission::ALL.into_iter().collect()
    }

    /// Whether `permission` is given.
    #[must_use]
    pub const fn has(self, permission: Permission) -> bool {
        self.0 & (1 << permission as u8) != 0
    }

    /// Whether none is given.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Permission> for Permissions {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        Self(permissions.into_iter().fold(0, |set, permission| set | 1 << permission as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in() {
        let two: Permissions = [Permission::Refund, Permission::Limits, Permission::Refund].into_iter().collect();
        let has = |set: Permissions| Permission::ALL.map(|permission| set.has(permission));
        assert_eq!(has(two), [false, true, false, true]);
        assert_eq!((has(Permissions::all()), has(Permissions::NONE)), ([true; 4], [false; 4]));
        assert!(Permissions::default().is_empty() && !two.is_empty());
    }
}
