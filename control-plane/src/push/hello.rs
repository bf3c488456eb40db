//! The first message of a stream, checked: who the agent is, what it has, what it wants.

use std::collections::BTreeSet;

use weir_core::name::Name;
use weir_proto::v1;

use super::published::{RING, SetName, set_of};
use super::session::Version;
use crate::auth::agent::AgentToken;
use crate::ingest::text;

/// The most domains that one agent may want.
pub const MAX_DOMAINS: usize = 256;
/// The most features that an agent may name.
const MAX_FEATURES: usize = 256;

/// An agent that has introduced itself.
#[derive(Debug, Clone)]
pub struct Introduction {
    /// Its name.
    pub agent: Name,
    /// Random per start of its process.
    pub boot: String,
    /// Version of its build.
    pub build: String,
    /// Version of its time-zone database; empty: an older build, which does not say.
    pub time_zones: String,
    /// The sets it wants: the ring, and the rules of each of its domains.
    pub sets: BTreeSet<SetName>,
    /// What it has of them.
    pub have: Vec<(SetName, Version)>,
    /// The fingerprint of the secrets it has.
    pub secrets_fingerprint: String,
}

/// Why a stream is refused at its first message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// Its name is none.
    #[error("agent name: {0}")]
    Agent(#[from] weir_core::name::NameError),
    /// A field is too long, or holds characters that have no place there.
    #[error("{0} is too long or has characters that are not allowed")]
    Field(&'static str),
    /// It wants too much, or nothing.
    #[error("an agent wants 1 to {MAX_DOMAINS} domains")]
    Domains,
    /// One of its domains is not its token's.
    #[error("the token is not for the domain {0:?}")]
    Forbidden(String),
}

impl Introduction {
    /// Reads the first message of a stream that `token` opened.
    ///
    /// # Errors
    /// [`HelloError`] says what is wrong.
    pub fn read(hello: v1::Hello, token: &AgentToken) -> Result<Self, HelloError> {
        let agent = Name::new(&hello.agent)?;
        let boot = text::token(&hello.boot, 64).ok_or(HelloError::Field("boot"))?.to_owned();
        let build = version(hello.build).ok_or(HelloError::Field("build"))?;
        let time_zones = version(hello.time_zones).ok_or(HelloError::Field("time_zones"))?;
        let fingerprint = text::token(&hello.secrets_fingerprint, 128).ok_or(HelloError::Field("secrets_fingerprint"))?.to_owned();
        if hello.features.len() > MAX_FEATURES || hello.features.iter().any(|f| f.len() > 64) {
            return Err(HelloError::Field("features"));
        }
        if hello.have.len() > MAX_DOMAINS + 1 {
            return Err(HelloError::Field("have"));
        }
        let sets = wanted(hello.domains, token)?;
        let have = hello.have.iter().filter_map(|have| {
            let set = sets.get(set_of(have)?)?;
            Some((set.clone(), (stored_revision(have.revision)?, have.set_hash()?)))
        });
        let have = have.collect();
        Ok(Self { agent, boot, build, time_zones, sets, have, secrets_fingerprint: fingerprint })
    }
}

/// A version, which is short and printable.
fn version(text: String) -> Option<String> {
    Some(text).filter(|text| text.len() <= 64 && !text.chars().any(char::is_control))
}

/// A revision that the database can hold; the numbers beyond are nobody's.
#[must_use]
pub fn stored_revision(revision: u64) -> Option<u64> {
    i64::try_from(revision).ok().map(i64::unsigned_abs)
}

fn wanted(domains: Vec<String>, token: &AgentToken) -> Result<BTreeSet<SetName>, HelloError> {
    if domains.is_empty() || domains.len() > MAX_DOMAINS {
        return Err(HelloError::Domains);
    }
    let mut sets = BTreeSet::from([SetName::from(RING)]);
    for domain in domains {
        let name = Name::new(&domain).map_err(|_| HelloError::Field("domains"))?;
        if !may(token, name.as_str()) {
            return Err(HelloError::Forbidden(domain));
        }
        sets.insert(name.as_str().into());
    }
    Ok(sets)
}

/// Whether the token is good for the domain.
#[must_use]
pub fn may(token: &AgentToken, domain: &str) -> bool {
    token.domains.as_ref().is_none_or(|domains| domains.iter().any(|d| d == domain))
}

#[cfg(test)]
mod tests {
    use weir_core::item::SetHash;

    use super::*;

    fn token(domains: Option<&[&str]>) -> AgentToken {
        AgentToken { id: uuid::Uuid::nil(), name: "t".into(), domains: domains.map(|d| d.iter().map(|d| (*d).to_owned()).collect()) }
    }

    fn hello() -> v1::Hello {
        v1::Hello { agent: "gw-1".into(), boot: "b1".into(), build: "0.1.0".into(), domains: vec!["default".into()], ..Default::default() }
    }

    #[test]
    fn what_an_agent_has_counts_only_for_what_it_wants() {
        let hash = SetHash([7; 32]);
        let mut short = v1::Have::rules("default", 1, hash);
        short.hash.pop();
        let have = vec![v1::Have::rules("default", 5, hash), v1::Have::rules("other", 5, hash), v1::Have::ring(2, hash), short];
        let read = Introduction::read(v1::Hello { have, ..hello() }, &token(None)).unwrap();
        assert_eq!(read.sets.iter().map(|s| &**s).collect::<Vec<_>>(), ["", "default"]);
        assert_eq!(read.have, [("default".into(), (5, hash)), ("".into(), (2, hash))]);
        let beyond = vec![v1::Have::rules("default", u64::MAX, hash)];
        assert!(Introduction::read(v1::Hello { have: beyond, ..hello() }, &token(None)).unwrap().have.is_empty(), "no such revision");
    }

    #[test]
    fn bounds_are_kept() {
        let refuse = |change: fn(&mut v1::Hello)| {
            let mut hello = hello();
            change(&mut hello);
            Introduction::read(hello, &token(Some(&["default"]))).unwrap_err()
        };
        assert!(matches!(refuse(|h| h.agent = "a b".into()), HelloError::Agent(_)));
        assert_eq!(refuse(|h| h.boot = "x".repeat(65)), HelloError::Field("boot"));
        assert_eq!(refuse(|h| h.build = "\0".into()), HelloError::Field("build"));
        assert_eq!(refuse(|h| h.time_zones = "x".repeat(65)), HelloError::Field("time_zones"));
        assert_eq!(refuse(|h| h.features = vec![String::new(); 300]), HelloError::Field("features"));
        assert_eq!(refuse(|h| h.have = vec![v1::Have::default(); 300]), HelloError::Field("have"));
        assert_eq!(refuse(|h| h.secrets_fingerprint = "é".into()), HelloError::Field("secrets_fingerprint"));
        assert_eq!(refuse(|h| h.domains = vec![]), HelloError::Domains);
        assert_eq!(refuse(|h| h.domains = vec![String::new()]), HelloError::Field("domains"));
        assert_eq!(refuse(|h| h.domains.push("other".into())), HelloError::Forbidden("other".into()));
    }
}
