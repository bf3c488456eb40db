//! Limits failed log-ins: a few per address, more for all together.
//!
//! Only failures count and only failures are refused: a good credential is good whatever others at its address, or all over the world, do.
//! In memory, per process. Nobody can guess 256 random bits anyway; this keeps a flood of guesses from costing log lines, and says that
//! somebody tries. It does not spare the database: whether a credential is good is asked there first.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failures of one address in one [`WINDOW`].
pub const PER_ADDRESS: u32 = 10;
/// Failures of all addresses in one [`WINDOW`].
pub const GLOBAL: u32 = 300;
/// How long failures are remembered.
pub const WINDOW: Duration = Duration::from_secs(60);
/// The most addresses that are remembered; beyond it only the global limit acts on new ones.
const MAX_ADDRESSES: usize = 10_000;

#[derive(Debug, Clone, Copy)]
struct Count {
    since: Instant,
    failures: u32,
}

impl Count {
    fn add(&mut self, now: Instant) {
        if now.duration_since(self.since) >= WINDOW {
            *self = Self { since: now, failures: 0 };
        }
        self.failures = self.failures.saturating_add(1);
    }

    /// How long until another failure is allowed; `None`: it is now.
    fn wait(self, limit: u32, now: Instant) -> Option<Duration> {
        let age = now.duration_since(self.since);
        (self.failures >= limit && age < WINDOW).then(|| WINDOW - age)
    }
}

#[derive(Debug, Default)]
struct Counts {
    all: Option<Count>,
    by_address: HashMap<IpAddr, Count>,
}

/// Failed log-ins of late.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<Counts>);

impl Attempts {
    /// How long `address` must wait before a wrong credential is looked at again; `None`: it may try now.
    #[must_use]
    pub fn wait(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let address = network(address);
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = counts.by_address.get(&address).and_then(|c| c.wait(PER_ADDRESS, now));
        own.max(counts.all.and_then(|c| c.wait(GLOBAL, now)))
    }

    /// Notes a failure of `address`.
    pub fn failed(&self, address: IpAddr, now: Instant) {
        let address = network(address);
        let fresh = Count { since: now, failures: 0 };
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all.get_or_insert(fresh).add(now);
        if counts.by_address.len() >= MAX_ADDRESSES {
            counts.by_address.retain(|_, c| now.duration_since(c.since) < WINDOW);
        }
        if counts.by_address.len() < MAX_ADDRESSES || counts.by_address.contains_key(&address) {
            counts.by_address.entry(address).or_insert(fresh).add(now);
        }
    }
}

/// What one client can be expected to have one of: an IPv4 address, or a /64 of IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn an_address_waits_after_its_tenth_failure_and_others_do_not() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        for _ in 0..PER_ADDRESS {
            assert_eq!(attempts.wait(A, now), None);
            attempts.failed(A, now);
        }
        assert_eq!(attempts.wait(A, now + Duration::from_secs(1)), Some(Duration::from_secs(59)));
        assert_eq!(attempts.wait(B, now), None);
        assert_eq!(attempts.wait(A, now + WINDOW), None);
    }

    #[test]
    fn a_client_has_a_whole_network_of_ipv6() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        for i in 0..PER_ADDRESS {
            attempts.failed(format!("2001:db8::{i:x}").parse().unwrap(), now);
        }
        assert!(attempts.wait("2001:db8::ffff:1".parse().unwrap(), now).is_some());
        assert_eq!(attempts.wait("2001:db8:0:1::1".parse().unwrap(), now), None);
        assert_eq!(attempts.wait("::ffff:192.0.2.1".parse().unwrap(), now), None);
    }

    #[test]
    fn many_addresses_together_meet_the_global_limit_and_memory_stays_bounded() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        for i in 0..20_000_u32 {
            attempts.failed(IpAddr::from(i.to_be_bytes()), now);
        }
        assert!(attempts.wait(B, now).is_some());
        assert_eq!(attempts.0.lock().unwrap().by_address.len(), MAX_ADDRESSES);
    }
}
