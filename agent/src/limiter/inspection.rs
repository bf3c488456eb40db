//! Looks after the server behind a connection: its memory every second, and everything that endangers counters when the connection is made and
//! every minute. What it finds goes to `About`; it never makes a check wait.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, RedisResult};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use weir_core::key::HashSecret;

use super::about::Fingerprints;
use super::line::Line;
use super::warning::{Code, ShardWarning};

/// How often the memory is looked at.
const MEMORY_EVERY: Duration = Duration::from_secs(1);
/// How often everything else is.
const INSPECT_EVERY: Duration = Duration::from_secs(60);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a shard stays marked with the secret that it is counted with.
const MARK_SECONDS: u64 = 30 * 24 * 3600;
/// How long a node of a cluster still says that the mark is foreign once another node has it.
const FOREIGN_KEPT: Duration = Duration::from_secs(10);
/// The mark's key: among the counters' keys, which begin with a brace too, so that an ACL that lets an agent count lets it mark.
const MARK: &str = "{weir:hash-secret}";
/// The longest window that needs no persistence.
const SHORT_WINDOW: Duration = Duration::from_secs(3600);

/// One inspector per connection.
#[derive(Debug, Clone)]
pub(super) struct Inspector {
    line: Arc<Line>,
    connection: MultiplexedConnection,
}

impl Inspector {
    pub(super) fn new(line: Arc<Line>, connection: MultiplexedConnection) -> Self {
        Self { line, connection }
    }

    /// A first look, before anything is counted.
    pub(super) async fn begin(&self) {
        self.inspect(&mut self.known_foreign()).await;
    }

    /// The warning of another hash secret, if one was found over an earlier connection: what cannot be read now does not take it back.
    fn known_foreign(&self) -> Option<(ShardWarning, Instant)> {
        self.line.about.foreign_warning(self.line.node.as_ref()).map(|warning| (warning, Instant::now()))
    }

    /// Looks again and again, until dropped.
    pub(super) async fn run(self) {
        let mut fingerprints = self.line.about.facts.fingerprints();
        fingerprints.mark_unchanged();
        let mut memory = interval(MEMORY_EVERY);
        memory.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut inspected = Instant::now();
        let mut foreign = self.known_foreign();
        let mut window = self.line.about.facts.longest_window();
        loop {
            tokio::select! {
                changed = fingerprints.changed() => if changed.is_err() { return },
                _ = memory.tick() => {
                    let now = self.line.about.facts.longest_window();
                    let is_due = inspected.elapsed() >= INSPECT_EVERY || now != window || self.line.about.is_foreign();
                    window = now;
                    if !is_due {
                        self.look_at_memory().await;
                        continue;
                    }
                }
            }
            inspected = Instant::now();
            self.inspect(&mut foreign).await;
        }
    }

    async fn look_at_memory(&self) {
        if let Ok(info) = self.info(&["memory"]).await {
            self.note_memory(&info);
        }
    }

    fn note_memory(&self, info: &Info) {
        let limit = info.number("maxmemory").filter(|limit| *limit > 0);
        let configured = self.line.about.config.memory_limit;
        let limit = limit.into_iter().chain(configured).min();
        let node = self.line.node.as_ref();
        let memory = self.line.about.memory(node).next(info.number("used_memory").unwrap_or_default(), limit);
        self.line.set_full(memory.guarded);
        self.line.about.set_memory(node, memory);
    }

    /// Everything. A server that does not answer is the session's business, and leaves what was found before. `foreign` is the warning of another
    /// hash secret and when it was last seen to be true.
    async fn inspect(&self, foreign: &mut Option<(ShardWarning, Instant)>) {
        let mut warnings = Vec::new();
        match self.info(&[]).await {
            Ok(info) => {
                self.note_memory(&info);
                let saves = if info.number("aof_enabled") == Some(1) { Saves::Yes } else { self.saves().await };
                warnings.extend(self.judge(&info, saves));
            }
            Err(Silent::Refused(why)) => {
                let text = format!(
                    "the server does not let its state be read ({why}): allow the command INFO, or nothing guards it against filling up"
                );
                warnings.push(ShardWarning { code: Code::Unreadable, text });
            }
            Err(Silent::Away) => return,
        }
        match self.mark().await {
            Ok(Mark::Ours) => *foreign = None,
            Ok(Mark::Foreign(warning)) => *foreign = Some((warning, Instant::now())),
            Ok(Mark::Unreadable(warning)) => warnings.push(warning),
            // Who owns it now has seen it within this time.
            Ok(Mark::Elsewhere) => *foreign = foreign.take().filter(|(_, seen)| seen.elapsed() < FOREIGN_KEPT),
            Err(_) => return,
        }
        warnings.extend(foreign.iter().map(|(warning, _)| warning.clone()));
        self.line.about.set_warnings(self.line.node.as_ref(), warnings);
    }

    /// What of `info` endangers counters.
    fn judge(&self, info: &Info, saves: Saves) -> Vec<ShardWarning> {
        let mut warnings = Vec::new();
        let mut warn = |code, text: String| warnings.push(ShardWarning { code, text });
        let policy = info.text("maxmemory_policy");
        if !matches!(policy, "noeviction" | "") {
            warn(
                Code::EvictsCounters,
                format!(
                    "the eviction policy {policy} removes counters when memory is short, which resets limits: set maxmemory-policy noeviction"
                ),
            );
        }
        if self.line.about.memory(self.line.node.as_ref()).limit.is_none() {
            warn(
                Code::NoMemoryLimit,
                "the server has no maxmemory and the shard no memory_limit: nothing guards it against a flood of new counters".to_owned(),
            );
        }
        let window = self.line.about.facts.longest_window();
        if window > SHORT_WINDOW {
            let hours = window.as_secs() / 3600;
            match saves {
                Saves::Yes => {}
                Saves::No => warn(
                    Code::NoPersistence,
                    format!(
                        "a rule counts over {hours} h and the server saves nothing: a restart resets such counters; set appendonly yes"
                    ),
                ),
                Saves::Unknown => warn(
                    Code::NoPersistence,
                    format!("a rule counts over {hours} h and whether the server saves anything cannot be read (CONFIG GET save)"),
                ),
            }
        }
        if let Some(version) = old_version(info) {
            warn(Code::OldServer, format!("the server is Redis {version}: 6.2 is the oldest that is tested"));
        }
        warnings
    }

    /// Whether the server saves snapshots.
    async fn saves(&self) -> Saves {
        match self.ask::<HashMap<String, String>>(redis::cmd("CONFIG").arg("GET").arg("save")).await {
            Ok(found) if found.get("save").is_some_and(|save| !save.is_empty()) => Saves::Yes,
            Ok(found) if found.contains_key("save") => Saves::No,
            _ => Saves::Unknown,
        }
    }

    /// Marks the shard with the secret in use, if it bears no mark or one of a secret that this agent used before; renews the mark; or says that
    /// another secret is in use there. On a cluster only the node that owns the mark's slot can say anything.
    async fn mark(&self) -> Result<Mark, Silent> {
        let Fingerprints { own: Some(own), former } = self.line.about.facts.fingerprints().borrow().clone() else { return Ok(Mark::Ours) };
        let unreadable = |why: String| {
            let text = format!("whether the shard is counted on with another hash secret cannot be read ({why})");
            Ok(Mark::Unreadable(ShardWarning { code: Code::Unreadable, text }))
        };
        let set = |how: &str| {
            let mut set = redis::cmd("SET");
            set.arg(MARK).arg(&own).arg(how).arg("EX").arg(MARK_SECONDS);
            set
        };
        match self.ask::<Option<String>>(&set("NX")).await {
            Ok(Some(_)) => return Ok(Mark::Ours),
            Ok(None) => {}
            Err(Silent::Refused(why)) if cannot_write(&why) => {}
            Err(Silent::Refused(why)) => return Self::unmarked(why, unreadable),
            Err(away) => return Err(away),
        }
        let found = match self.ask::<Option<String>>(redis::cmd("GET").arg(MARK)).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Mark::Ours),
            Err(Silent::Refused(why)) => return Self::unmarked(why, unreadable),
            Err(away) => return Err(away),
        };
        // The built-in secret fills in until there is a real one.
        if found == own || former.contains(&found) || found == HashSecret::built_in().fingerprint() {
            // A server that cannot be written to is the session's business.
            let _ = self.ask::<Option<String>>(&set("XX")).await;
            return Ok(Mark::Ours);
        }
        let found: String = found.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
        let text = format!(
            "the shard is counted on with another hash secret (fingerprint {found}, ours is {own}): it is not used; give all agents the same \
             secret, or delete the key {MARK} if the other one is gone"
        );
        Ok(Mark::Foreign(ShardWarning { code: Code::ForeignHashSecret, text }))
    }

    /// What it means that the server said no with this code.
    fn unmarked(why: String, unreadable: impl FnOnce(String) -> Result<Mark, Silent>) -> Result<Mark, Silent> {
        match why.as_str() {
            "MOVED" => Ok(Mark::Elsewhere),
            // On the move, or the server has no time: what was known stays.
            "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" => Err(Silent::Away),
            _ => unreadable(why),
        }
    }

    async fn info(&self, sections: &[&str]) -> Result<Info, Silent> {
        self.ask::<String>(redis::cmd("INFO").arg(sections)).await.map(Info)
    }

    async fn ask<T: redis::FromRedisValue>(&self, command: &Cmd) -> Result<T, Silent> {
        let mut connection = self.connection.clone();
        let answer: RedisResult<T> = timeout(PATIENCE, command.query_async(&mut connection)).await.map_err(|_| Silent::Away)?;
        answer.map_err(|error| Silent::of(&error))
    }
}

/// Why a question has no answer.
#[derive(Debug)]
enum Silent {
    /// The server says no, with this code.
    Refused(String),
    /// There is no answer at all.
    Away,
}

impl Silent {
    fn of(error: &RedisError) -> Self {
        match error.code() {
            Some(code) if !error.is_io_error() => Self::Refused(code.to_owned()),
            _ => Self::Away,
        }
    }
}

/// The server can be read, and cannot be written to now.
fn cannot_write(code: &str) -> bool {
    matches!(code, "READONLY" | "OOM" | "MISCONF" | "NOREPLICAS")
}

/// Whose mark a shard bears.
#[derive(Debug)]
enum Mark {
    /// Ours, or there is none.
    Ours,
    Foreign(ShardWarning),
    Unreadable(ShardWarning),
    /// Another node of the cluster has it.
    Elsewhere,
}

/// Whether a server keeps anything over a restart.
#[derive(Debug, Clone, Copy)]
enum Saves {
    Yes,
    No,
    Unknown,
}

/// The answer to INFO: `name:value` lines.
#[derive(Debug)]
struct Info(String);

impl Info {
    fn text(&self, name: &str) -> &str {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim).unwrap_or_default()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }
}

/// The version of a server that is older than what is tested. Every Valkey is newer.
fn old_version(info: &Info) -> Option<&str> {
    const OLDEST: (u32, u32) = (6, 2);
    if !info.text("valkey_version").is_empty() {
        return None;
    }
    let version = info.text("redis_version");
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    let found = (parts.next()??, parts.next()??);
    (found < OLDEST).then_some(version)
}

#[cfg(test)]
mod tests;
