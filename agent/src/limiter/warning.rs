//! What an operator should know about a shard.

use std::fmt;

/// What is amiss, by a name that stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// Another hash secret is in use on the shard: its counters are not ours, and it is not asked.
    ForeignHashSecret,
    /// Memory pressure makes the server remove counters, which resets limits.
    EvictsCounters,
    /// Neither the server nor the shard's configuration limits its memory, so nothing guards it against a flood of new counters.
    NoMemoryLimit,
    /// A rule's window is longer than an hour, and a restart of the server would forget what was counted.
    NoPersistence,
    /// The server is older than what is tested.
    OldServer,
    /// The server does not let us read its state.
    Unreadable,
}

impl Code {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::ForeignHashSecret, Self::EvictsCounters, Self::NoMemoryLimit, Self::NoPersistence, Self::OldServer, Self::Unreadable];

    /// The name on the wire and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ForeignHashSecret => "foreign_hash_secret",
            Self::EvictsCounters => "evicts_counters",
            Self::NoMemoryLimit => "no_memory_limit",
            Self::NoPersistence => "no_persistence",
            Self::OldServer => "old_server",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Something amiss with a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardWarning {
    /// What.
    pub code: Code,
    /// In words, with what to do about it.
    pub text: String,
}

impl fmt::Display for ShardWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text, self.code.as_str())
    }
}
