//! Where webhooks may go: only where the server's settings allow, and by default nowhere.
//!
//! An operator of rules is not an operator of the network: without this list the control plane could be made to talk to whatever it can
//! reach. The list names hosts or addresses; a name never allows an address of the inside (loopback, private, link-local, ...) unless an
//! entry names that very host and port, or a network that holds the address. The address that was checked is the one connected to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use http::Uri;
use ipnet::IpNet;

/// One entry of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    /// A host, at any port, as long as its address is a public one.
    Host(String),
    /// A host at one port, wherever that is.
    HostPort(String, u16),
    /// Any host whose address is in the network.
    Network(IpNet),
}

/// The list of allowed targets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList(Vec<Entry>);

/// Why a target is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It is not an address that a webhook can have.
    #[error("must be an http or https URL with a host, and without user name, password or fragment")]
    Url,
    /// The list does not hold it.
    #[error("is not among the webhook targets that this server allows (setting WEIR_WEBHOOK_ALLOW)")]
    NotAllowed,
    /// The name has no address.
    #[error("the host name could not be resolved")]
    Unresolved,
    /// The name is allowed, its address is not.
    #[error("the host's address is not a public one, and the setting WEIR_WEBHOOK_ALLOW does not name it with its port or network")]
    Inside,
}

/// A target, read from a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The URL.
    pub uri: Uri,
    host: String,
    port: u16,
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '#' | '\\' | '@' | '<' | '>' | '"' | '`');
        if text.len() > 2_048 || !text.is_ascii() || text.contains(odd) {
            return Err(TargetError::Url);
        }
        let uri: Uri = text.parse().map_err(|_| TargetError::Url)?;
        let default_port = match uri.scheme_str() {
            Some("https") => 443,
            Some("http") => 80,
            _ => return Err(TargetError::Url),
        };
        let authority = uri.authority().ok_or(TargetError::Url)?;
        let host = authority.host().trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
        // `host:` and `host:99999` parse as an authority without a port: refuse what is not what it looks like.
        let port = authority.port_u16().unwrap_or(default_port);
        let has_port = !authority.as_str().ends_with(']') && authority.as_str().rsplit(':').next() != Some(authority.as_str());
        if host.is_empty() || port == 0 || (has_port && authority.port_u16().is_none()) {
            return Err(TargetError::Url);
        }
        Ok(Self { uri, host, port })
    }
}

impl FromStr for AllowList {
    type Err = String;

    /// Reads a comma-separated list of `host`, `host:port`, address or network.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::new(text.split(',').map(str::trim).filter(|entry| !entry.is_empty()))
    }
}

impl AllowList {
    /// Reads the entries of a list.
    ///
    /// # Errors
    /// The first entry that is none of `host`, `host:port`, address and network.
    pub fn new<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        entries.into_iter().map(Entry::read).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the target could be allowed, by its name: said when an alert is written. The address is checked when it is used.
    ///
    /// # Errors
    /// [`TargetError::NotAllowed`].
    pub fn check_name(&self, target: &Target) -> Result<(), TargetError> {
        // A name may resolve into an allowed network; an address is in it or not.
        let in_network = |network: &IpNet| target.host.parse::<IpAddr>().map_or(true, |ip| network.contains(&ip.to_canonical()));
        let named = self.0.iter().any(|entry| match entry {
            Entry::Host(host) => *host == target.host,
            Entry::HostPort(host, port) => *host == target.host && *port == target.port,
            Entry::Network(network) => in_network(network),
        });
        if named { Ok(()) } else { Err(TargetError::NotAllowed) }
    }

    /// Whether the target may be reached at this address.
    fn check_address(&self, target: &Target, address: IpAddr) -> Result<(), TargetError> {
        let address = address.to_canonical();
        let named = self.0.iter().any(|entry| match entry {
            Entry::Host(_) => false,
            Entry::HostPort(host, port) => *host == target.host && *port == target.port,
            Entry::Network(network) => network.contains(&address),
        });
        let public_host = self.0.iter().any(|entry| matches!(entry, Entry::Host(host) if *host == target.host));
        match (named, public_host) {
            (true, _) => Ok(()),
            (false, true) if is_public(address) => Ok(()),
            (false, true) => Err(TargetError::Inside),
            (false, false) => Err(TargetError::NotAllowed),
        }
    }

    /// Resolves the target and returns the address to connect to. Every address that the name has must be allowed: one that mixes public
    /// and inside addresses is up to something.
    ///
    /// # Errors
    /// [`TargetError`] says why not.
    pub async fn resolve(&self, target: &Target) -> Result<SocketAddr, TargetError> {
        self.check_name(target)?;
        let resolved = tokio::net::lookup_host((target.host.as_str(), target.port)).await;
        let addresses: Vec<SocketAddr> = resolved.map_err(|_| TargetError::Unresolved)?.collect();
        for address in &addresses {
            self.check_address(target, address.ip())?;
        }
        addresses.first().copied().ok_or(TargetError::Unresolved)
    }
}

impl Entry {
    fn read(text: &str) -> Result<Self, String> {
        let entry = text.to_ascii_lowercase();
        if let Ok(network) = entry.parse::<IpNet>() {
            return Ok(Self::Network(network.trunc()));
        }
        if let Ok(address) = entry.parse::<SocketAddr>() {
            return Ok(Self::HostPort(address.ip().to_string(), address.port()));
        }
        if let Ok(address) = entry.parse::<IpAddr>() {
            return Ok(Self::Network(address.into()));
        }
        let (host, port) = match entry.split_once(':') {
            Some((host, port)) => (host, Some(port.parse::<u16>().ok().filter(|p| *p > 0))),
            None => (entry.as_str(), None),
        };
        let good = !host.is_empty() && host.len() <= 253 && host.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.');
        match port {
            None if good => Ok(Self::Host(host.to_owned())),
            Some(Some(port)) if good => Ok(Self::HostPort(host.to_owned(), port)),
            _ => Err(format!("{text:?} is not a host, host:port, address or network")),
        }
    }
}

/// Whether an address belongs to the internet at large.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

/// Everything that the registry of special-purpose addresses (RFC 6890 and its successors) does not take out.
fn is_public_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    let shared = a == 100 && (64..128).contains(&b);
    let protocol = a == 192 && b == 0 && c == 0;
    let benchmark = a == 198 && (18..20).contains(&b);
    let special = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_documentation() || v4.is_broadcast();
    !(special || shared || protocol || benchmark || a == 0 || a >= 224)
}

/// Global unicast (2000::/3), without the ranges in it that carry an IPv4 address (6to4, Teredo) or document things.
fn is_public_v6(v6: Ipv6Addr) -> bool {
    let segments = v6.segments();
    let global = segments[0] & 0xe000 == 0x2000;
    let carries_v4 = segments[0] == 0x2002 || (segments[0] == 0x2001 && segments[1] == 0);
    let documentation = (segments[0] == 0x2001 && segments[1] == 0xdb8) || segments[0] == 0x3fff;
    global && !carries_v4 && !documentation
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<Target, TargetError> {
        url.parse()
    }

    #[test]
    fn odd_urls_are_no_targets() {
        for url in [
            "",
            "hooks.example.com",
            "ftp://a/",
            "file:///etc/passwd",
            "http://",
            "http:///x",
            "http://localhost#",
            "http://localhost#@a/",
            "http://u@a/",
            "http://u:p@a/",
            "http://a b/",
            "http://a\\b/",
            "http://a:0/",
            "http://a:99999/",
            "http://a:/",
            "http://é/",
            "//a/",
            "javascript:alert(1)",
            "http://a/\r\nX: y",
            "http://[::1",
        ] {
            assert_eq!(target(url), Err(TargetError::Url), "{url}");
        }
        let long = target("HTTPS://Hooks.Example.COM./x?y=1").unwrap();
        assert_eq!((long.host.as_str(), long.port), ("hooks.example.com", 443));
        let v6 = target("http://[::1]:8080/x").unwrap();
        assert_eq!((v6.host.as_str(), v6.port), ("::1", 8080));
        assert_eq!(target("http://[2001:db8::1]/").unwrap().port, 80);
    }

    #[tokio::test]
    async fn nothing_is_allowed_by_default() {
        let none: AllowList = "".parse().unwrap();
        for url in ["http://169.254.169.254/latest/meta-data", "http://[::1]/", "http://localhost/", "https://example.com/"] {
            assert_eq!(none.resolve(&target(url).unwrap()).await, Err(TargetError::NotAllowed), "{url}");
        }
    }

    #[tokio::test]
    async fn a_host_without_port_never_allows_the_inside() {
        let list: AllowList = "localhost, 127.0.0.1:9000, 10.0.0.0/8, [::1]:9000".parse().unwrap();
        let resolve = async |url: &str| list.resolve(&target(url).unwrap()).await.map(|address| address.to_string());
        assert_eq!(resolve("http://localhost:9000/").await, Err(TargetError::Inside));
        assert_eq!(resolve("http://127.0.0.1:9000/").await.as_deref(), Ok("127.0.0.1:9000"));
        assert_eq!(resolve("http://[::1]:9000/").await.as_deref(), Ok("[::1]:9000"));
        assert_eq!(resolve("http://[::1]:9001/").await, Err(TargetError::NotAllowed));
        assert_eq!(resolve("http://127.0.0.1:9001/").await, Err(TargetError::NotAllowed));
        assert_eq!(resolve("http://10.1.2.3/").await.as_deref(), Ok("10.1.2.3:80"));
        assert_eq!(resolve("http://[::ffff:10.1.2.3]/").await.as_deref(), Ok("[::ffff:10.1.2.3]:80"));
        assert_eq!(resolve("http://11.1.2.3/").await, Err(TargetError::NotAllowed));
        assert_eq!(resolve("http://0x7f.1:9000/").await, Err(TargetError::NotAllowed));
    }

    #[test]
    fn public_is_what_no_registry_takes_out() {
        for inside in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "203.0.113.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "ff02::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "64:ff9b::1",
            "2001:0:1::1",
        ] {
            assert!(!is_public(inside.parse().unwrap()), "{inside}");
        }
        for public in ["1.1.1.1", "100.128.0.1", "198.20.0.1", "2606:4700::1111", "2001:4860:4860::8888"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn a_bad_entry_is_named() {
        for bad in ["a b", "http://x", "host:0", "host:x", "10.0.0.0/40", "*"] {
            assert!(AllowList::new([bad]).unwrap_err().contains(bad), "{bad}");
        }
    }
}
