//! The client's address: the peer, or what trusted proxies say in the one header that the settings name.
//!
//! The walk goes from the right, the end that the nearest proxy wrote, and never beyond the first hop that is not trusted: what stands
//! left of it is the client's own claim. A hop that cannot be read stops the walk at the last good one.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName};
use ipnet::{IpNet, Ipv4Net};

/// Which header trusted proxies write. One only: gateways pass a client's other headers on untouched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SourceHeader {
    /// None: the peer is the client.
    #[default]
    None,
    /// `X-Forwarded-For`: all lines are one list.
    XForwardedFor,
    /// `X-Real-IP`: one line with one address.
    XRealIp,
    /// `Forwarded` (RFC 7239): the `for` of each element.
    Forwarded,
}

/// Finds the client's address.
#[derive(Debug, Clone, Default)]
pub struct ClientIp {
    source: SourceHeader,
    trusted: Vec<IpNet>,
}

/// A client's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolved {
    /// The address; an IPv4 address is never in its IPv6-mapped form.
    pub ip: IpAddr,
    /// A trusted proxy sent a header that could not be read to its end; to be counted.
    pub malformed: bool,
}

/// A text that is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be an address or a network such as 10.0.0.0/8 or 2001:db8::/32")]
pub struct NetworkError;

/// Reads a network, or an address as the network of itself alone.
///
/// # Errors
/// [`NetworkError`] if it is neither.
pub fn network(text: &str) -> Result<IpNet, NetworkError> {
    // The address by the standard library, which refuses octets with leading zeros.
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().map_err(|_| NetworkError)?;
    let net = match bits {
        None => IpNet::from(address),
        Some(bits) => bits.parse().ok().and_then(|bits| IpNet::new(address, bits).ok()).ok_or(NetworkError)?,
    };
    Ok(unmapped(net.trunc()))
}

/// A network of IPv4-mapped addresses as the IPv4 network that it is.
fn unmapped(net: IpNet) -> IpNet {
    let IpNet::V6(v6) = net else { return net };
    let v4 = v6.addr().to_ipv4_mapped().zip(v6.prefix_len().checked_sub(96));
    v4.and_then(|(address, bits)| Ipv4Net::new(address, bits).ok()).map_or(net, IpNet::V4)
}

impl ClientIp {
    /// Believes `source` when it comes through `trusted` proxies. Without any of them it is never believed.
    #[must_use]
    pub fn new(source: SourceHeader, trusted: &[IpNet]) -> Self {
        Self { source, trusted: trusted.iter().map(|net| unmapped(net.trunc())).collect() }
    }

    /// Whether this peer is a proxy whose word counts.
    #[must_use]
    pub fn trusts(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.trusted.iter().any(|net| net.contains(&ip))
    }

    /// The client behind `peer`. For a connection over a Unix socket pass `127.0.0.1` as the peer.
    #[must_use]
    pub fn resolve(&self, peer: IpAddr, headers: &HeaderMap) -> Resolved {
        let peer = peer.to_canonical();
        if !self.trusts(peer) {
            return Resolved { ip: peer, malformed: false };
        }
        match self.source {
            SourceHeader::None => Resolved { ip: peer, malformed: false },
            SourceHeader::XForwardedFor => self.walk(peer, headers, &HeaderName::from_static("x-forwarded-for"), list_hops),
            SourceHeader::Forwarded => self.walk(peer, headers, &FORWARDED, forwarded_hops),
            SourceHeader::XRealIp => single(peer, headers),
        }
    }

    /// Goes through the hops of all lines from the right; `hops` are those of one line, `None` being one that cannot be read.
    fn walk(&self, peer: IpAddr, headers: &HeaderMap, name: &HeaderName, hops: fn(&str) -> Vec<Option<IpAddr>>) -> Resolved {
        let mut last = peer;
        let lines: Vec<_> = headers.get_all(name).iter().collect();
        for line in lines.into_iter().rev() {
            let hops = line.to_str().map_or_else(|_| vec![None], hops);
            for hop in hops.into_iter().rev() {
                let Some(ip) = hop else { return Resolved { ip: last, malformed: true } };
                last = ip;
                if !self.trusts(ip) {
                    return Resolved { ip, malformed: false };
                }
            }
        }
        Resolved { ip: last, malformed: false }
    }
}

/// The one address of `X-Real-IP`. Two lines are as bad as none: one of them is the client's.
fn single(peer: IpAddr, headers: &HeaderMap) -> Resolved {
    let mut lines = headers.get_all("x-real-ip").iter();
    let Some(line) = lines.next() else { return Resolved { ip: peer, malformed: false } };
    let ip = line.to_str().ok().filter(|_| lines.next().is_none()).and_then(address);
    Resolved { ip: ip.unwrap_or(peer), malformed: ip.is_none() }
}

fn list_hops(line: &str) -> Vec<Option<IpAddr>> {
    line.split(',').map(address).collect()
}

/// The hops of a `Forwarded` line: elements between commas, parameters between semicolons, neither within quotes.
fn forwarded_hops(line: &str) -> Vec<Option<IpAddr>> {
    let Some(elements) = split_unquoted(line, b',') else { return vec![None] };
    elements.into_iter().map(forwarded_for).collect()
}

fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut found = split_unquoted(element, b';')?.into_iter().filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then_some(value)
    });
    let value = found.next()?;
    if found.next().is_some() { None } else { address(value) }
}

/// Splits at `separator` outside of quotes; `None` if a quote is not closed.
fn split_unquoted(text: &str, separator: u8) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if byte == separator && !quoted => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (!quoted).then_some(parts)
}

/// One address as proxies write it: perhaps quoted, in brackets, with a port or a zone. Octets with leading zeros are refused.
#[must_use]
pub fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let text = text.strip_prefix('"').map_or(Some(text), |rest| rest.strip_suffix('"'))?.trim();
    let host = if let Some(rest) = text.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
            return None;
        }
        host
    } else {
        match text.split_once(':') {
            Some((host, port)) if !port.contains(':') => is_port(port).then_some(host)?,
            _ => text,
        }
    };
    let host = if host.contains(':') { host.split_once('%').map_or(host, |(host, _zone)| host) } else { host };
    host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

fn is_port(text: &str) -> bool {
    !text.is_empty() && text.parse::<u16>().is_ok() && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests;
