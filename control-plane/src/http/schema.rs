//! The documents of operators as the description has them. Never built: the reader in [`weir_core::config`] decides, and a test holds
//! the two together.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;
use weir_core::calendar::CalendarUnit;
use weir_core::domain::DomainMode;
use weir_core::failure::FailureMode;
use weir_core::limit::Algorithm;
use weir_core::rule::RuleMode;

use super::answer::Meta;

/// A domain's own settings.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Domain)]
pub struct DomainDocument {
    /// Letters, digits, `_`, `.`, `:` and `-`.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_.:-]+$")]
    pub name: String,
    /// For people.
    #[schema(required = false, max_length = 500)]
    pub description: String,
    /// The kill switch: caps the mode of all rules.
    #[schema(required = false)]
    pub mode: DomainMode,
    /// What rules get where they say nothing.
    #[schema(required = false)]
    pub defaults: Defaults,
    /// Only in answers; ignored in requests.
    #[schema(required = false, read_only)]
    pub meta: Meta,
}

/// What rules get where they say nothing themselves.
#[derive(Debug, Serialize, ToSchema)]
pub struct Defaults {
    /// Algorithm of rules without one (default `token_bucket`).
    #[schema(required = false)]
    pub algorithm: Algorithm,
    /// Failure policy of rules without one (default `local`).
    #[schema(required = false)]
    pub on_failure: FailurePolicy,
    /// Group of rules without one (default: the rule's own name, so all rules stack).
    #[schema(required = false, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_.:-]+$")]
    pub group: String,
}

/// What happens without a rule's shard.
#[derive(Debug, Serialize, ToSchema)]
pub struct FailurePolicy {
    /// What happens first.
    pub mode: FailureMode,
    /// For `local`: how many times an agent's share of the limit may pass (default 1).
    #[schema(required = false, minimum = 0.1, maximum = 10)]
    pub generosity: f64,
    /// What happens once the shard has been away for long.
    #[schema(required = false)]
    pub escalate: Escalation,
}

/// A second failure mode that takes over after a while.
#[derive(Debug, Serialize, ToSchema)]
pub struct Escalation {
    /// How long the shard must have been away, e.g. `5s`.
    #[schema(pattern = "^[0-9]+(ms|s|m|h|d)$", examples("5s"))]
    pub after: String,
    /// The mode from then on.
    pub to: FailureMode,
}

/// A tier: the plan that a subject is on.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Tier)]
pub struct TierDocument {
    /// As gateways send it. Letters, digits, `_`, `.`, `:` and `-`.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_.:-]+$")]
    pub name: String,
    /// For people.
    #[schema(required = false, max_length = 500)]
    pub description: String,
    /// Whether subjects of no or of an unknown tier are on this one. A domain has exactly one default tier.
    #[schema(required = false)]
    pub default: bool,
    /// Only in answers; ignored in requests.
    #[schema(required = false, read_only)]
    pub meta: Meta,
}

/// A rule: which requests, counted by what, how much.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Rule)]
pub struct RuleDocument {
    /// Letters, digits, `_`, `.`, `:` and `-`; it is in headers, metrics and events.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_.:-]+$")]
    pub name: String,
    /// For people.
    #[schema(required = false, max_length = 500)]
    pub description: String,
    /// Rules in one group compete, the others stack.
    #[schema(required = false, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_.:-]+$")]
    pub group: String,
    /// Within a group the highest wins, before specificity.
    #[schema(required = false)]
    pub priority: i32,
    /// Which requests it is about: all given parts must hold. Absent: all.
    #[schema(required = false)]
    pub r#match: Match,
    /// What it counts by: `subject`, `ip`, `route`, `method`, `tier`, `header:NAME`, `param:NAME`, `descriptor:NAME`. Empty: one counter
    /// for all.
    #[schema(required = true, examples(json!(["subject", "route"])))]
    pub key: Vec<String>,
    /// How it counts; absent: as the domain's defaults say.
    #[schema(required = false)]
    pub algorithm: Algorithm,
    /// The limit of each tier; `*` for those that are not named.
    pub limits: BTreeMap<String, LimitDocument>,
    /// What happens without its shard; absent: as the domain's defaults say.
    #[schema(required = false)]
    pub on_failure: FailurePolicy,
    /// Whether it acts.
    #[schema(required = false)]
    pub mode: RuleMode,
    /// In mode `enforce`: the share of subjects for which it refuses; for the others it is a shadow rule.
    #[schema(required = false, minimum = 0, maximum = 100)]
    pub enforce_percent: u8,
    /// Takes the cost from this request header.
    #[schema(required = false)]
    pub cost_header: String,
    /// Only in answers; ignored in requests.
    #[schema(required = false, read_only)]
    pub meta: Meta,
}

/// Which requests a rule is about.
#[derive(Debug, Serialize, ToSchema)]
pub struct Match {
    /// One of these methods.
    #[schema(required = false)]
    pub methods: Vec<String>,
    /// One of these hosts: exact, or `*.suffix`.
    #[schema(required = false)]
    pub hosts: Vec<String>,
    /// A path template: `/users/{id}/posts`; `*` is one segment, `**` the rest.
    #[schema(required = false, examples("/api/search"))]
    pub path: String,
    /// All of these headers.
    #[schema(required = false)]
    pub headers: Vec<HeaderMatch>,
    /// All of these descriptors.
    #[schema(required = false)]
    pub descriptors: Vec<DescriptorMatch>,
}

/// One header that a request must have. At most one of `present`, `exact`, `prefix` and `regex`.
#[derive(Debug, Serialize, ToSchema)]
pub struct HeaderMatch {
    /// The header.
    pub name: String,
    /// Any value, as long as there is one.
    #[schema(required = false)]
    pub present: bool,
    /// This very value.
    #[schema(required = false)]
    pub exact: String,
    /// A value that starts so.
    #[schema(required = false)]
    pub prefix: String,
    /// A value that matches wholly (RE2-like syntax).
    #[schema(required = false)]
    pub regex: String,
}

/// One descriptor that a request must have.
#[derive(Debug, Serialize, ToSchema)]
pub struct DescriptorMatch {
    /// Its key.
    pub key: String,
    /// Its value, `*` standing for any run of characters; absent: any value.
    #[schema(required = false)]
    pub value: String,
}

/// How much a tier may use of a rule: either `unlimited`, or `limit` with either `window` or `calendar`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Limit)]
pub struct LimitDocument {
    /// No limit at all.
    #[schema(required = false)]
    pub unlimited: bool,
    /// Units per window; of `concurrency`, requests in flight. 0 refuses everything. For `sliding_log` and `concurrency` at most 10,000.
    #[schema(required = false, minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    pub limit: u64,
    /// A whole number with a unit: `ms`, `s`, `m`, `h` or `d`; from 1 s to 366 d. For `concurrency` how long a request that is not released counts
    /// as in flight.
    #[schema(required = false, pattern = "^[0-9]+(ms|s|m|h|d)$", examples("60s"))]
    pub window: String,
    /// Only for `fixed_window`: the windows are those of a calendar, weeks from Monday.
    #[schema(required = false)]
    pub calendar: CalendarUnit,
    /// Whose calendar: a name of the IANA time-zone database (default `UTC`).
    #[schema(required = false, examples("Europe/Zurich"))]
    pub time_zone: String,
    /// Only for `token_bucket`: the most that can pass at one instant (default `limit`).
    #[schema(required = false, minimum = 1, maximum = 9_007_199_254_740_991_u64)]
    pub burst: u64,
}

/// A whole domain: what `weir apply` sends and `weir export` prints.
#[derive(Debug, Serialize, ToSchema)]
pub struct RulesDocument {
    /// The domain (default `default`).
    #[schema(required = false, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_.:-]+$")]
    pub domain: String,
    /// For people.
    #[schema(required = false, max_length = 500)]
    pub description: String,
    /// The kill switch.
    #[schema(required = false)]
    pub mode: DomainMode,
    /// Its tiers, one of them the default. None: every subject is on one tier called `default`.
    #[schema(required = false)]
    pub tiers: Vec<TierDocument>,
    /// What rules get where they say nothing.
    #[schema(required = false)]
    pub defaults: Defaults,
    /// Its rules.
    #[schema(required = false)]
    pub rules: Vec<RuleDocument>,
}

/// One Redis or Valkey primary in the ring, or one Redis Cluster.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Shard)]
pub struct ShardDocument {
    /// Letters, digits, `_`, `.`, `:` and `-`. The place in the ring depends on it, not on the address.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9_.:-]+$")]
    pub name: String,
    /// `redis://host:port/db`; `redis+sentinel://host:port,host:port/name/db`, the primary that sentinels know by that name;
    /// `redis+cluster://host:port,host:port`, some nodes of a Redis Cluster; each also with `rediss` (TLS); or the absolute path of a Unix
    /// socket. Without credentials.
    #[schema(
        max_length = 512,
        examples("redis://127.0.0.1:6379", "redis+sentinel://10.0.0.1,10.0.0.2/mymaster", "rediss+cluster://10.0.0.1,10.0.0.2")
    )]
    pub address: String,
    /// Its share of the keys, relative to the other shards (default 1).
    #[schema(required = false, minimum = 1, maximum = 100)]
    pub weight: u64,
    /// Bytes of memory that it may fill, if its servers have no `maxmemory` of their own (default: none). Above 85 % of it no counters are
    /// created for subjects that clients can invent.
    #[schema(required = false, minimum = 1_048_576)]
    pub memory_limit: u64,
    /// The ACL user.
    #[schema(required = false)]
    pub username: String,
    /// The password. Left out in a replacement: it stays, unless the address is another one; `null`: it is removed. Never in answers.
    #[schema(write_only)]
    pub password: Option<String>,
    /// Whether there is a password. Ignored in requests.
    #[schema(read_only, required = false)]
    pub has_password: bool,
    /// The user that the sentinels ask for which know the shard.
    #[schema(required = false)]
    pub sentinel_username: String,
    /// The password that they ask for; as `password`.
    #[schema(write_only)]
    pub sentinel_password: Option<String>,
    /// Whether there is a password for the sentinels. Ignored in requests.
    #[schema(read_only, required = false)]
    pub has_sentinel_password: bool,
    /// What connected agents find amiss with it. Ignored in requests.
    #[schema(read_only, required = false)]
    pub warnings: Vec<SeenWarning>,
    /// Only in answers; ignored in requests.
    #[schema(required = false, read_only)]
    pub meta: Meta,
}

/// Something that agents find amiss with a shard.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ShardWarning)]
pub struct SeenWarning {
    /// A stable name: `foreign_hash_secret`, `evicts_counters`, `no_memory_limit`, `no_persistence`, `old_server` or `unreadable`.
    pub code: String,
    /// In words, with what to do about it.
    pub text: String,
    /// How many agents say so.
    pub agents: u64,
}
