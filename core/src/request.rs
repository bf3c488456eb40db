//! A request as rules see it, whatever surface it came through.

use std::net::IpAddr;

use http::HeaderMap;

use crate::subject::Subject;

/// One question to the limiter. Built by a transport; all bounds (lengths, counts) are already enforced there.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The domain whose rules apply.
    pub domain: &'a str,
    /// Who is limited; absent: the client address, then the anonymous subject.
    pub subject: Option<Subject<'a>>,
    /// The subject's tier as the gateway knows it; unknown or absent: the default tier.
    pub tier: Option<&'a str>,
    /// The method, upper case; absent matches only rules without methods.
    pub method: Option<&'a str>,
    /// The host, any case, perhaps with a port.
    pub host: Option<&'a str>,
    /// The path as received, perhaps with a query; the matcher normalises it.
    pub path: Option<&'a str>,
    /// Headers that rules may match or key on.
    pub headers: &'a HeaderMap,
    /// The client's address, trusted proxies already taken off.
    pub client_ip: Option<IpAddr>,
    /// Descriptors of the caller (Envoy RLS or the check API): key and value, in order.
    pub descriptors: &'a [(&'a str, &'a str)],
    /// Units to take, 0 to [`crate::limit::MAX_UNITS`].
    pub cost: u64,
}
