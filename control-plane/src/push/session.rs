//! What one stream is owed: a pure state machine between what the agent has and what is newest.
//!
//! It never queues: it compares with the newest when it is asked, so a slow agent skips what came and went in the meantime.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_core::item::SetHash;

use super::published::{Latest, Published, SetName};

/// The wait before a revision that was refused for a passing reason is sent again; doubled each time, up to [`MAX_BACKOFF`].
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(60);

/// A revision by number and content.
pub type Version = (u64, SetHash);

/// A revision that the agent does not want.
#[derive(Debug, Clone)]
struct Refused {
    version: Version,
    /// When to try again; `None`: never, the content is bad for this build of the agent.
    retry: Option<(Instant, Duration)>,
}

#[derive(Debug, Default)]
struct Set {
    runs: Option<Version>,
    /// The newest revision that this stream was told of. By content too: a database that is restored from a backup counts again from there.
    told: Option<Version>,
    refused: Option<Refused>,
}

/// What to send next.
#[derive(Debug)]
pub enum Due {
    /// The secrets.
    Secrets,
    /// That the agent has the newest.
    UpToDate(Arc<Published>),
    /// The whole set.
    Snapshot(Arc<Published>),
}

/// What one stream has been told, and what its agent has.
#[derive(Debug)]
pub struct Session {
    /// Sorted, so that the ring (the empty name) comes before the rules.
    sets: BTreeMap<SetName, Set>,
    secrets: Option<String>,
}

impl Session {
    /// A session for these sets; `secrets` is the fingerprint of the secrets that the agent has, `None` if it must not be sent any (it
    /// is neither on this machine nor behind TLS).
    #[must_use]
    pub fn new(sets: impl IntoIterator<Item = SetName>, secrets: Option<String>) -> Self {
        Self { sets: sets.into_iter().map(|name| (name, Set::default())).collect(), secrets }
    }

    /// Whether the stream is about this set.
    #[must_use]
    pub fn wants(&self, set: &str) -> bool {
        self.sets.contains_key(set)
    }

    /// The agent runs this.
    pub fn runs(&mut self, set: &str, version: Version) {
        if let Some(set) = self.sets.get_mut(set) {
            set.runs = Some(version);
            // Running something else than what was refused says nothing about that.
            set.refused.take_if(|refused| refused.version.1 == version.1);
        }
    }

    /// The agent refuses this for good: it is not sent again.
    pub fn refused_for_good(&mut self, set: &str, version: Version) {
        if let Some(set) = self.sets.get_mut(set) {
            set.refused = Some(Refused { version, retry: None });
        }
    }

    /// The agent cannot use this now: it is sent again after a while, `jitter` (0 to 1) of the wait being left to chance.
    pub fn refused_for_now(&mut self, set: &str, version: Version, now: Instant, jitter: f64) {
        let Some(set) = self.sets.get_mut(set) else { return };
        let before = set.refused.as_ref().filter(|refused| refused.version.1 == version.1).and_then(|refused| refused.retry);
        let wait = before.map_or(MIN_BACKOFF, |(_, wait)| (wait * 2).min(MAX_BACKOFF));
        set.refused = Some(Refused { version, retry: Some((now + wait.mul_f64(0.5 + jitter / 2.0), wait)) });
    }

    /// When something that was refused is due again.
    #[must_use]
    pub fn next_retry(&self) -> Option<Instant> {
        self.sets.values().filter_map(|set| set.refused.as_ref()?.retry).map(|(at, _)| at).min()
    }

    /// What to send now, noted as sent; `None`: the agent knows all there is to know. Secrets come first, then the ring, then rules.
    pub fn due(&mut self, latest: &Latest, now: Instant) -> Option<Due> {
        if let (Some(known), Some(secrets)) = (&mut self.secrets, &latest.secrets)
            && known != secrets.fingerprint()
        {
            secrets.fingerprint().clone_into(known);
            return Some(Due::Secrets);
        }
        self.sets.iter_mut().find_map(|(name, set)| match latest.sets.get(name) {
            Some(newest) => set.due(newest, now),
            None => {
                set.forget_retry_unless(|_| false);
                None
            }
        })
    }
}

impl Set {
    fn due(&mut self, newest: &Arc<Published>, now: Instant) -> Option<Due> {
        let version = (newest.revision, newest.hash);
        let runs_newest = self.runs.is_some_and(|(_, hash)| hash == newest.hash);
        self.forget_retry_unless(|hash| hash == newest.hash && !runs_newest);
        let refused = self.refused.as_mut().filter(|refused| refused.version.1 == newest.hash);
        let again = refused.as_ref().and_then(|refused| refused.retry).is_some_and(|(at, _)| at <= now);
        if self.told == Some(version) && !again {
            return None;
        }
        self.told = Some(version);
        if runs_newest {
            self.runs = Some(version);
            return Some(Due::UpToDate(newest.clone()));
        }
        match refused {
            // Told nothing: it would only refuse it again. The next revision is another matter.
            Some(Refused { retry: None, .. }) => return None,
            // Not to be sent a third time before its answer to the second came.
            Some(Refused { retry: Some((at, wait)), .. }) if again => *at = now + *wait + MAX_BACKOFF,
            Some(_) => return None,
            None => {}
        }
        Some(Due::Snapshot(newest.clone()))
    }

    /// A retry of what is not sent again would be due for ever.
    fn forget_retry_unless(&mut self, wanted: impl Fn(SetHash) -> bool) {
        self.refused.take_if(|refused| refused.retry.is_some() && !wanted(refused.version.1));
    }
}

#[cfg(test)]
mod tests {
    use weir_core::item::Item;

    use super::super::published::Secrets;
    use super::*;

    fn published(set: &str, revision: u64, body: &str) -> Arc<Published> {
        let item = Item { kind: "rule".into(), name: "a".into(), body: body.into(), requires: vec![] };
        Arc::new(Published::new(set.into(), revision, vec![item]))
    }

    fn latest(sets: &[&Arc<Published>]) -> Latest {
        Latest { sets: sets.iter().map(|p| (p.set.clone(), (*p).clone())).collect(), ..Latest::default() }
    }

    /// What is sent until nothing is due, in short.
    fn all(session: &mut Session, latest: &Latest, now: Instant) -> Vec<String> {
        std::iter::from_fn(|| session.due(latest, now))
            .map(|due| match due {
                Due::Secrets => "secrets".into(),
                Due::UpToDate(p) => format!("up to date {}@{}", p.set, p.revision),
                Due::Snapshot(p) => format!("snapshot {}@{}", p.set, p.revision),
            })
            .collect()
    }

    fn session() -> Session {
        Session::new(["".into(), "default".into()], Some(String::new()))
    }

    #[test]
    fn secrets_then_ring_then_rules_each_once() {
        let (mut session, now) = (session(), Instant::now());
        let mut latest = latest(&[&published("", 3, "r"), &published("default", 7, "x"), &published("other", 1, "y")]);
        latest.secrets = Some(Arc::new(Secrets::new(vec![1; 32], vec![])));
        assert_eq!(all(&mut session, &latest, now), ["secrets", "snapshot @3", "snapshot default@7"]);
        assert!(all(&mut session, &latest, now).is_empty());
        latest.secrets = Some(Arc::new(Secrets::new(vec![2; 32], vec![])));
        assert_eq!(all(&mut session, &latest, now), ["secrets"]);
        let mut far = Session::new(["default".into()], None);
        assert_eq!(all(&mut far, &latest, now), ["snapshot default@7"]);
    }

    #[test]
    fn the_same_content_needs_no_payload_whatever_its_number() {
        let (mut session, now) = (session(), Instant::now());
        let (old, new) = (published("default", 7, "x"), published("default", 9, "x"));
        session.runs("default", (7, old.hash));
        assert_eq!(all(&mut session, &latest(&[&old]), now), ["up to date default@7"]);
        assert_eq!(all(&mut session, &latest(&[&new]), now), ["up to date default@9"]);
    }

    #[test]
    fn a_slow_agent_gets_the_newest_only() {
        let (mut session, now) = (session(), Instant::now());
        assert_eq!(all(&mut session, &latest(&[&published("default", 1, "a")]), now), ["snapshot default@1"]);
        assert_eq!(all(&mut session, &latest(&[&published("default", 50, "z")]), now), ["snapshot default@50"]);
    }

    #[test]
    fn what_is_refused_for_good_is_not_sent_again_but_the_next_is() {
        let (mut session, now) = (session(), Instant::now());
        let bad = published("default", 2, "bad");
        session.refused_for_good("default", (2, bad.hash));
        assert!(all(&mut session, &latest(&[&bad]), now).is_empty());
        assert!(all(&mut session, &latest(&[&published("default", 3, "bad")]), now).is_empty(), "the same content under a new number");
        assert_eq!(all(&mut session, &latest(&[&published("default", 4, "good")]), now), ["snapshot default@4"]);
    }

    #[test]
    fn what_is_refused_for_now_comes_again_later_and_later() {
        let (mut session, mut now) = (session(), Instant::now());
        let full = published("default", 2, "x");
        let latest = latest(&[&full]);
        assert_eq!(all(&mut session, &latest, now).len(), 1);
        let mut waits = vec![];
        for _ in 0..8 {
            session.refused_for_now("default", (2, full.hash), now, 1.0);
            assert!(all(&mut session, &latest, now).is_empty());
            let at = session.next_retry().unwrap();
            waits.push((at - now).as_secs());
            now = at;
            assert_eq!(all(&mut session, &latest, now), ["snapshot default@2"]);
            assert!(all(&mut session, &latest, now).is_empty(), "its answer is waited for");
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        session.runs("default", (2, full.hash));
        assert_eq!(session.next_retry(), None);
    }

    #[test]
    fn a_retry_of_what_is_no_longer_wanted_is_forgotten() {
        let (mut session, now) = (session(), Instant::now());
        let (full, newer) = (published("default", 2, "x"), published("default", 3, "y"));
        assert_eq!(all(&mut session, &latest(&[&full]), now), ["snapshot default@2"]);
        session.refused_for_now("default", (2, full.hash), now, 1.0);
        assert_eq!(all(&mut session, &latest(&[&newer]), now), ["snapshot default@3"], "published before the retry was due");
        assert_eq!(session.next_retry(), None);

        session.runs("default", (3, newer.hash));
        session.refused_for_now("default", (3, newer.hash), now, 1.0);
        assert!(all(&mut session, &latest(&[&newer]), now + MAX_BACKOFF).is_empty(), "it runs it after all");
        assert_eq!(session.next_retry(), None);

        session.refused_for_now("", (1, full.hash), now, 1.0);
        assert!(all(&mut session, &latest(&[&newer]), now + MAX_BACKOFF).is_empty(), "there is no such set");
        assert_eq!(session.next_retry(), None);
    }

    #[test]
    fn a_database_that_was_restored_counts_again() {
        let (mut session, now) = (session(), Instant::now());
        assert_eq!(all(&mut session, &latest(&[&published("default", 50, "lost")]), now), ["snapshot default@50"]);
        assert_eq!(all(&mut session, &latest(&[&published("default", 41, "new")]), now), ["snapshot default@41"]);
        assert_eq!(all(&mut session, &latest(&[&published("default", 41, "restored once more")]), now), ["snapshot default@41"]);
    }
}
