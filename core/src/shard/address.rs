//! Where a shard is: one text, which the control plane, the command line and the agents read alike.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::name::Name;

/// The longest address, in bytes.
pub const MAX_ADDRESS: usize = 512;
/// The most sentinels, or nodes of a cluster, that an address names.
pub const MAX_HOSTS: usize = 16;
/// The longest path of a Unix socket, in bytes: what the system's own structure holds.
const MAX_PATH: usize = 107;
/// Where Redis listens, unless told otherwise.
const PORT: u16 = 6_379;
/// Where a sentinel listens, unless told otherwise.
const SENTINEL_PORT: u16 = 26_379;
/// The forms an address can have, for people.
const FORM: &str = "must be redis://host:port, redis://host:port/db, redis+sentinel://host:port,host:port/name, \
                    redis+cluster://host:port,host:port (each also with rediss, for TLS) or the absolute path of a Unix socket";

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Host {
    /// A name or an address; an IPv6 address is without brackets.
    pub name: String,
    /// 1 to 65535.
    pub port: u16,
}

/// How a shard is found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reach {
    /// A primary at this host.
    Server(Host),
    /// A primary at a Unix socket.
    Socket(String),
    /// The primary that these sentinels know by this name.
    Sentinel {
        /// Asked in turn until one answers.
        sentinels: Vec<Host>,
        /// What they call the primary.
        primary: Name,
    },
    /// All primaries of a Redis Cluster; these nodes know the others.
    Cluster(Vec<Host>),
}

/// Where a shard is, without credentials.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// How it is found.
    pub reach: Reach,
    /// Whether everything is said over TLS, to sentinels too.
    pub tls: bool,
    /// The number of the database; 0 for a cluster, which has no others.
    pub database: u16,
}

impl FromStr for Address {
    type Err = &'static str;

    /// Reads an address; the error says what it must be.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > MAX_ADDRESS || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("must have at most 512 bytes, all of them visible ASCII characters");
        }
        if text.starts_with('/') {
            let reach = Reach::Socket(path(text)?);
            return Ok(Self { reach, tls: false, database: 0 });
        }
        if text.contains('@') {
            return Err("must not hold credentials: use \"username\" and \"password\"");
        }
        let (scheme, rest) = text.split_once("://").ok_or(FORM)?;
        let (redis, kind) = scheme.split_once('+').map_or((scheme, None), |(redis, kind)| (redis, Some(kind)));
        let tls = match redis {
            "redis" => false,
            "rediss" => true,
            _ => return Err(FORM),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (reach, last) = match kind {
            None => (Reach::Server(host(authority, PORT)?), path),
            Some("sentinel") => {
                let (name, last) = path.split_once('/').unwrap_or((path, ""));
                let primary = Name::new(name).map_err(|_| "must end with the name of the primary: redis+sentinel://host:port/name")?;
                (Reach::Sentinel { sentinels: hosts(authority, SENTINEL_PORT)?, primary }, last)
            }
            Some("cluster") if path.is_empty() => (Reach::Cluster(hosts(authority, PORT)?), ""),
            Some("cluster") => return Err("a cluster has no databases"),
            Some(_) => return Err(FORM),
        };
        Ok(Self { reach, tls, database: database(last)? })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        match &self.reach {
            Reach::Socket(path) => return f.write_str(path),
            Reach::Server(host) => write!(f, "{scheme}://{host}")?,
            Reach::Sentinel { sentinels, primary } => write!(f, "{scheme}+sentinel://{}/{primary}", listed(sentinels))?,
            Reach::Cluster(nodes) => return write!(f, "{scheme}+cluster://{}", listed(nodes)),
        }
        if self.database > 0 { write!(f, "/{}", self.database) } else { Ok(()) }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') { write!(f, "[{}]:{}", self.name, self.port) } else { write!(f, "{}:{}", self.name, self.port) }
    }
}

fn listed(hosts: &[Host]) -> String {
    hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// What is wrong with an address. Credentials in it would be shown to everybody who may read it.
#[must_use]
pub fn wrong_address(address: &str) -> Option<&'static str> {
    Address::from_str(address).err()
}

fn path(text: &str) -> Result<String, &'static str> {
    let wrong = text.len() < 2 || text.len() > MAX_PATH || text.ends_with('/') || text.contains(['?', '#', '%', '\\']);
    if wrong {
        Err("must be a path of at most 107 bytes, without '?', '#', '%' and '\\', that names a socket")
    } else {
        Ok(text.to_owned())
    }
}

fn database(text: &str) -> Result<u16, &'static str> {
    match text {
        "" => Ok(0),
        digits if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().map_err(|_| FORM),
        _ => Err(FORM),
    }
}

fn hosts(text: &str, port: u16) -> Result<Vec<Host>, &'static str> {
    let hosts = text.split(',').map(|text| host(text, port)).collect::<Result<Vec<_>, _>>()?;
    if hosts.len() > MAX_HOSTS { Err("must name at most 16 hosts") } else { Ok(hosts) }
}

fn host(text: &str, default: u16) -> Result<Host, &'static str> {
    let (name, port) = match text.rfind(':').filter(|at| !text[*at..].contains(']')) {
        Some(at) => (&text[..at], port(&text[at + 1..])?),
        None => (text, default),
    };
    let wildcard = Err("must name a host: 0.0.0.0 and :: are none");
    if let Some(inner) = name.strip_prefix('[') {
        return match inner.strip_suffix(']').map(str::parse::<Ipv6Addr>) {
            Some(Ok(ip)) if ip.is_unspecified() => wildcard,
            Some(Ok(ip)) => Ok(Host { name: ip.to_string(), port }),
            _ => Err(FORM),
        };
    }
    match name.parse::<Ipv4Addr>() {
        Ok(ip) if ip.is_unspecified() => wildcard,
        _ if !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_')) => {
            Ok(Host { name: name.to_owned(), port })
        }
        _ => Err(FORM),
    }
}

fn port(text: &str) -> Result<u16, &'static str> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port > 0).ok_or(FORM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_servers_and_nothing_else() {
        for good in [
            "redis://127.0.0.1:6379",
            "redis://[::1]:6379/3",
            "redis://[::1]",
            "rediss://redis.example",
            "/run/redis.sock",
            "redis://h:1/",
            "redis://my_redis-0.ns.svc:1/65535",
            "redis+sentinel://a:1,b,[::1]:3/mymaster",
            "rediss+sentinel://a/my.master:1/2",
            "redis+cluster://a:1,b:2",
            "rediss+cluster://a/",
        ] {
            assert_eq!(wrong_address(good), None, "{good}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let long = format!("/{}", "x".repeat(107));
        let many = format!("redis+cluster://{}", ["h"; 17].join(","));
        for bad in [
            "",
            "/",
            "/run/",
            "127.0.0.1:6379",
            "http://h:1",
            "redis://",
            "redis://:6379",
            "redis://u:p@h:1",
            "redis://h:0",
            "redis://h:",
            "redis://h:+1",
            "redis://h:70000",
            "redis://h:1/x",
            "redis://h:1/+1",
            "redis://h:1#",
            "rediss://h:1#insecure",
            "redis://h:1?a=b",
            "redis://h :1",
            "redis://h:1\n",
            "redis://[::1",
            "redis://::1:1",
            "unix:/x",
            "redis://h:1/1/2",
            "redis://0.0.0.0:1",
            "redis://[::]:1",
            "redis://[0:0::0]:1",
            "redis://a,b",
            "/sock?pass=x",
            "/sock?db=1",
            "/sock%41",
            "/sock#",
            "redis+sentinel://a:1",
            "redis+sentinel://a:1/",
            "redis+sentinel://a:1/my master",
            "redis+sentinel://a:1/m/x",
            "redis+sentinel:///m",
            "redis+cluster://",
            "redis+cluster://a,",
            "redis+cluster://a/1",
            "redis+ring://a",
            &long,
            &many,
        ] {
            assert!(wrong_address(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn addresses_print_as_they_are_read() {
        for (text, printed) in [
            ("redis://h", "redis://h:6379"),
            ("rediss://[0::1]:7/0", "rediss://[::1]:7"),
            ("redis://h:1/3", "redis://h:1/3"),
            ("redis+sentinel://a,b:1/m/2", "redis+sentinel://a:26379,b:1/m/2"),
            ("rediss+cluster://a,b:1/", "rediss+cluster://a:6379,b:1"),
            ("/run/redis.sock", "/run/redis.sock"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), printed);
            assert_eq!(printed.parse::<Address>().as_ref(), Ok(&address));
        }
    }
}
