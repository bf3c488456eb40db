//! The streams that are open on this replica, and what their agents have said.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{Notify, watch};
use uuid::Uuid;
use weir_core::name::Name;

use super::published::{RING, SetName};
use super::report::Report;
use crate::db::time::Time;

/// Why we end a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The agent has a newer stream, here or at another replica.
    Superseded,
    /// Its token was revoked or has expired.
    TokenGone,
    /// The name belongs to another token.
    NameTaken,
}

impl Ending {
    /// As the agent is told.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Superseded => "another process has opened a newer stream under this agent name",
            Self::TokenGone => "the token was revoked or has expired",
            Self::NameTaken => "this agent name belongs to another token; choose another name, or delete the agent",
        }
    }
}

/// One open stream.
#[derive(Debug)]
pub struct Stream {
    /// Its id: a reconnected agent has another one.
    pub id: Uuid,
    /// The agent.
    pub agent: Name,
    /// The token that opened it.
    pub token: Uuid,
    /// Random per start of the agent's process.
    pub boot: String,
    /// Version of the agent's build.
    pub build: String,
    /// Version of its time-zone database; empty: it does not say.
    pub time_zones: String,
    /// The sets it is about.
    pub sets: BTreeSet<SetName>,
    /// When it was opened.
    pub since: Time,
    state: Mutex<State>,
    ending: watch::Sender<Option<Ending>>,
}

/// What changes while a stream lives.
#[derive(Debug)]
pub struct State {
    /// What the agent said.
    pub report: Report,
    /// When it said something last.
    pub last_seen: Instant,
    /// Whether the database does not know all of this yet.
    pub dirty: bool,
    /// Whether the database has agreed that the name is this token's.
    pub claimed: bool,
}

impl Stream {
    /// A stream that was opened just now.
    #[must_use]
    pub fn new(token: Uuid, hello: super::hello::Introduction, since: Time, now: Instant) -> Self {
        let mut report = Report { sets: hello.sets.iter().map(|set| (set.clone(), Default::default())).collect(), ..Report::default() };
        for (set, (revision, hash)) in &hello.have {
            report.runs(set, *revision, *hash);
        }
        let state = State { report, last_seen: now, dirty: true, claimed: false };
        Self {
            id: Uuid::now_v7(),
            agent: hello.agent,
            token,
            boot: hello.boot,
            build: hello.build,
            time_zones: hello.time_zones,
            sets: hello.sets,
            since,
            state: Mutex::new(state),
            ending: watch::Sender::new(None),
        }
    }

    /// What changes while it lives. Never held across an await.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it.
    pub fn end(&self, ending: Ending) {
        self.ending.send_if_modified(|now| now.is_none() && now.replace(ending).is_none());
    }

    /// Tells when it is to end.
    #[must_use]
    pub fn ending(&self) -> watch::Receiver<Option<Ending>> {
        self.ending.subscribe()
    }
}

/// All open streams of this replica, one per agent.
#[derive(Debug, Default)]
pub struct Roster {
    streams: Mutex<HashMap<Name, Arc<Stream>>>,
    departed: Mutex<Vec<Arc<Stream>>>,
    changed: Notify,
}

impl Roster {
    fn streams(&self) -> MutexGuard<'_, HashMap<Name, Arc<Stream>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another stream of this agent could join now.
    #[must_use]
    pub fn has_room(&self, agent: &Name, most: usize) -> bool {
        let streams = self.streams();
        streams.len() < most || streams.contains_key(agent)
    }

    /// Adds a stream; an older one of the same agent ends. False if there are `most` of other agents already.
    pub fn join(&self, stream: Arc<Stream>, most: usize) -> bool {
        let mut streams = self.streams();
        if streams.len() >= most && !streams.contains_key(&stream.agent) {
            return false;
        }
        if let Some(older) = streams.insert(stream.agent.clone(), stream) {
            older.end(Ending::Superseded);
        }
        true
    }

    /// Takes a stream out; the database learns of it soon.
    pub fn leave(&self, stream: Arc<Stream>) {
        let mut streams = self.streams();
        if streams.get(&stream.agent).is_some_and(|current| current.id == stream.id) {
            streams.remove(&stream.agent);
        }
        drop(streams);
        self.departed.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
        self.changed.notify_one();
    }

    /// The open streams.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Stream>> {
        self.streams().values().cloned().collect()
    }

    /// The streams that ended since the last call.
    pub fn take_departed(&self) -> Vec<Arc<Stream>> {
        std::mem::take(&mut *self.departed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts back what could not be written.
    pub fn put_back_departed(&self, mut streams: Vec<Arc<Stream>>) {
        let mut departed = self.departed.lock().unwrap_or_else(PoisonError::into_inner);
        streams.append(&mut departed);
        // Without the database, agents that come and go would pile up; those forgotten here are seen to be gone by their age.
        let excess = streams.len().saturating_sub(super::MAX_STREAMS);
        *departed = streams.split_off(excess);
    }

    /// Ends the streams whose token is not among these.
    pub fn keep_tokens(&self, good: &HashSet<Uuid>) {
        for stream in self.all().into_iter().filter(|stream| !good.contains(&stream.token)) {
            stream.end(Ending::TokenGone);
        }
    }

    /// Streams per domain.
    #[must_use]
    pub fn live_agents(&self) -> HashMap<String, u32> {
        let mut live = HashMap::new();
        for stream in self.streams().values() {
            for domain in stream.sets.iter().filter(|set| ***set != *RING) {
                *live.entry(domain.to_string()).or_default() += 1;
            }
        }
        live
    }

    /// Says that there is something to write.
    pub fn notify(&self) {
        self.changed.notify_one();
    }

    /// Waits until there is something to write.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::hello::Introduction;

    fn stream(agent: &str) -> Arc<Stream> {
        let hello = Introduction {
            agent: Name::new(agent).unwrap(),
            boot: String::new(),
            build: String::new(),
            time_zones: String::new(),
            sets: BTreeSet::new(),
            have: vec![],
            secrets_fingerprint: String::new(),
        };
        Arc::new(Stream::new(Uuid::nil(), hello, Time(jiff::Timestamp::UNIX_EPOCH), Instant::now()))
    }

    #[test]
    fn a_full_replica_has_room_for_the_agents_that_it_has() {
        let (roster, a, b) = (Roster::default(), stream("a"), stream("b"));
        assert!(roster.has_room(&a.agent, 1) && roster.join(a.clone(), 1));
        assert!(!roster.has_room(&b.agent, 1) && !roster.join(b.clone(), 1));
        let again = stream("a");
        assert!(roster.has_room(&again.agent, 1) && roster.join(again, 1));
        assert_eq!(*a.ending().borrow(), Some(Ending::Superseded));
        roster.leave(b.clone());
        assert_eq!(roster.all().len(), 1, "one that never joined takes nobody with it");
        assert_eq!(roster.take_departed().iter().map(|s| s.id).collect::<Vec<_>>(), [b.id], "and is told to the database");
    }
}
